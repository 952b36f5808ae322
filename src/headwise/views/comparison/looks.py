"""How each mixer is called and drawn: by colour, by sign and by line, so that no two depend on colour alone."""

from typing import NamedTuple


class Look(NamedTuple):
    """One mixer in a picture."""

    name: str
    colour: str
    marker: str
    line: str | tuple[int, tuple[int, ...]]


LOOKS: dict[str, Look] = {
    "attention": Look("attention", "#0072b2", "o", "-"),
    "convolution": Look("convolution", "#b07d00", "s", "--"),
    "dilated": Look("dilated convolution", "#d55e00", "D", (0, (5, 1, 1, 1))),
    "lstm": Look("LSTM", "#00805f", "^", "-."),
    "gru": Look("GRU", "#b0508a", "v", ":"),
}


def words_of(tokens: int) -> str:
    """512, 1k, 8k."""
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else str(tokens)
