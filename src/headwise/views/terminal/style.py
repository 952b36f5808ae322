"""Numbers that line up, bars made of unit glyphs, and text that cannot steer the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Glyphs:
    """The signs of a terminal: of Unicode, or of ASCII where it knows no others."""

    bars: str
    more: str
    kinds: dict[str, str]
    minus_infinity: str
    times: str
    dot: str
    root: str


UNICODE = Glyphs(
    bars=" ▁▂▃▄▅▆▇█",
    more="…",
    kinds={
        "first or special": "|",
        "itself": "o",
        "previous": "←",
        "next": "→",
        "same word": "=",
        "far": "»",
        "near": "·",
    },
    minus_infinity="-∞",
    times="×",
    dot="·",
    root="√",
)
ASCII = Glyphs(
    bars=" .:-=+*#@",
    more="..",
    kinds=UNICODE.kinds | {"previous": "<", "next": ">", "far": "~", "near": "."},
    minus_infinity="-inf",
    times="x",
    dot="*",
    root="sqrt ",
)
COLOURS = {
    "first or special": "bright_black",
    "itself": "yellow",
    "previous": "magenta",
    "next": "blue",
    "same word": "green",
    "far": "cyan",
    "near": "default",
}
"""Never the only sign of a kind; its glyph is."""


def safe(text: str) -> str:
    """Text without signs that would steer the terminal; they are written out."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def visible(token: str) -> str:
    """A token that can be seen: without the space around it, unless it is nothing else."""
    signs = {"\n": "↵", "\t": "⇥"}
    return safe(token.strip()) or "".join(signs.get(sign, "␣") for sign in token[:4]) or "␣"


def unit_bar(share: float, glyphs: Glyphs) -> str:
    """One sign, the taller the larger the share; nothing only for nothing."""
    if not share > 0:
        return glyphs.bars[0]
    return glyphs.bars[max(1, min(len(glyphs.bars) - 1, round(share * (len(glyphs.bars) - 1))))]


def long_bar(share: float, width: int, glyphs: Glyphs) -> str:
    """A lying bar of so many signs at most."""
    eighths = " ▏▎▍▌▋▊▉█" if glyphs is UNICODE else " #"
    steps = len(eighths) - 1
    units = round(min(max(share, 0), 1) * width * steps)
    return (eighths[-1] * (units // steps) + (eighths[units % steps] if units % steps else "")).ljust(width)


@dataclass(frozen=True)
class Numbers:
    """How the numbers of one column are written: equally wide, with as many decimals as fit their size."""

    width: int
    decimals: int

    @classmethod
    def fitting(cls, values: Array, decimals: int = 2) -> "Numbers":
        """Wide enough for all of these."""
        finite = values[np.isfinite(values)]
        largest = float(np.abs(finite).max(initial=0))
        decimals = max(0, decimals if largest < 100 else decimals - 1 if largest < 1000 else 0)
        texts = [f"{number:.{decimals}f}" for number in (finite.min(initial=0), finite.max(initial=0))]
        return cls(max(map(len, texts)), decimals)

    def write(self, number: float) -> str:
        """One number, set to the right; nought is never negative."""
        text = f"{number:.{self.decimals}f}"
        if text.startswith("-") and not text.strip("-0."):
            text = text[1:]
        return text.rjust(self.width)

    def vector(self, values: Array, shown: int, glyphs: Glyphs) -> str:
        """The first numbers of a vector, and a sign that there are more."""
        numbers = " ".join(self.write(float(number)) for number in values[:shown])
        return f"{numbers} {glyphs.more}" if len(values) > shown else numbers

    def vector_width(self, shown: int, size: int) -> int:
        """How wide that is."""
        return shown * (self.width + 1) + 1 if size > shown else size * (self.width + 1) - 1


def heading(text: str) -> Text:
    """The title of a part."""
    return Text(text, style="bold")


def wrapped_vector(values: Array, width: int, decimals: int = 4) -> list[str]:
    """All numbers of a vector in lines of this width, in columns."""
    numbers = Numbers.fitting(values, decimals)
    per_line = max(1, width // (numbers.width + 1))
    texts = [numbers.write(float(value)) for value in values]
    return [" ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)]


def names(words: Sequence[str]) -> str:
    """Words one after another, as a list in a sentence."""
    return ", ".join(words)
