"""`headwise.generate`: a model goes on with a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from headwise.generation.compose import complete, pieces
from headwise.generation.own import read_own
from headwise.generation.prompts import check_writer, encode
from headwise.generation.settings import settle
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder

AnyModel = Encoder | Decoder | EncoderDecoder


def generate(
    model: AnyModel,
    prompt: str | Sequence[str],
    *,
    max_tokens: int | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    no_repeat_ngram: int | None = None,
    stop: str | Sequence[str] = (),
    seed: int | None = None,
    beams: int | None = None,
    length_penalty: float | None = None,
    early_stopping: bool | Literal["never"] | None = None,
    min_tokens: int | None = None,
    ignore_end: bool = False,
    chat: bool = False,
    stream: bool = False,
    batch: int = 8,
) -> str | list[str] | Iterator[str]:
    """The text that continues the prompt (or answers it, `chat=True`; or is the target of an encoder-decoder's source).

    Several prompts are written `batch` at a time, and each becomes what it would become alone. Temperature 0 takes
    the best token each time; above it, tokens are drawn, the same ones for the same `seed`. What is None follows the
    model's own generation_config.json. The text ends before the first of the `stop` strings. With `stream` the pieces
    come one by one, and a beam count that is not given is 1.
    """
    writer = check_writer(model)
    wishes = {name: value for name, value in locals().items() if name in _WISHES}
    if stream:
        wishes["beams"] = _one_beam(prompt, beams)
    settings = settle(read_own(writer), stop, **wishes)
    if isinstance(prompt, str):
        ids = encode(writer, prompt, settings.own, chat)
        if stream:
            return (piece for _, piece in pieces(writer, [ids], settings) if piece)
        return complete(writer, [ids], settings)[0].text
    _check_prompts(prompt, batch)
    rows = [encode(writer, text, settings.own, chat) for text in prompt]
    return [done.text for done in complete(writer, rows, settings, batch)]


_WISHES = frozenset(
    [
        "max_tokens",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repetition_penalty",
        "no_repeat_ngram",
        "seed",
        "beams",
        "length_penalty",
        "early_stopping",
        "min_tokens",
        "ignore_end",
    ]
)


def _one_beam(prompt: object, beams: int | None) -> int:
    if not isinstance(prompt, str):
        raise ValueError("stream: got several prompts, wanted one")
    if beams is not None and beams != 1:
        raise ValueError(f"stream: got it beside beams={beams}, which are not known before the end; wanted one of them")
    return 1


def _check_prompts(prompts: Sequence[str], batch: int) -> None:
    if type(batch) is not int or batch < 1:
        raise ValueError(f"batch: got {batch!r}, wanted a whole number of 1 or more")
    for prompt in prompts:
        if not isinstance(prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"prompt: got a {type(prompt).__name__} among several, wanted texts")
