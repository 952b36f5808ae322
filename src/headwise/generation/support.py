"""Support: which sentences of a summary the document bears out, by likeness of meaning and by names and numbers.

The rule. Each sentence of the document is compared with the summary's sentence by the cosine of their embeddings. Those
at least ALIKE are its witnesses. The sentence is supported when there is a witness, and every name and every number in
it stands in one of the witnesses. A name is a word with a capital letter that does not open the sentence, or one with a
capital or a digit inside (`GPU`, `BERT-2`); words are compared by their beginnings, so that a plural or a possessive
counts. The rule finds what was made up; it does not understand, and a sentence that turns a true one round may pass it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.generation.sentences import cut
from headwise.transformer.model import Encoder

ALIKE = 0.5
LONGEST = 200
"""Tokens of a sentence that are embedded at once; the model was trained on sentences."""
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")
_INSIDE = re.compile(r".*[^\W\d_].*[A-Z]|.*[A-Z].*[A-Z]|.*\d")


class Judged(NamedTuple):
    """A sentence of a summary, and what the document says to it."""

    text: str
    supported: bool | None = None
    """None: not looked at."""
    nearest: str = ""
    """The sentence of the document that is most like it."""
    likeness: float = 0.0
    missing: tuple[str, ...] = ()
    """Names and numbers that no witness has."""


def judge(summary: Sequence[str], document: Sequence[str], encoder: Encoder) -> list[Judged]:
    """Each sentence of the summary, judged by the rule above."""
    if not summary:
        return []
    if not document:
        return [Judged(sentence, False) for sentence in summary]
    likeness = embed(summary, encoder) @ embed(document, encoder).T
    return [_judge_one(sentence, document, row) for sentence, row in zip(summary, likeness, strict=True)]


def _judge_one(sentence: str, document: Sequence[str], likeness: Tensor) -> Judged:
    best = int(likeness.argmax())
    witnesses = [text for text, alike in zip(document, likeness.tolist(), strict=True) if alike >= ALIKE]
    missing = tuple(token for token in names_and_numbers(sentence) if not _stands_in(token, witnesses))
    supported = bool(witnesses) and not missing
    return Judged(sentence, supported, document[best], float(likeness[best]), missing if witnesses else ())


def names_and_numbers(sentence: str) -> list[str]:
    """What cannot be said in other words: numbers, and words that are written like names."""
    numbers = _NUMBER.findall(sentence)
    words = _WORD.findall(sentence)
    names = [word for place, word in enumerate(words) if _INSIDE.match(word) or (place and word[:1].isupper())]
    kept = [name for name in names if name != "I" and not _NUMBER.fullmatch(name)]
    return list(dict.fromkeys([*kept, *numbers]))


def _stands_in(token: str, witnesses: Sequence[str]) -> bool:
    if _NUMBER.fullmatch(token):
        wanted = _plain_number(token)
        return any(wanted == _plain_number(number) for text in witnesses for number in _NUMBER.findall(text))
    stem = re.split(r"['’]", token.casefold())[0]
    return any(
        word.startswith(stem) or (len(word) > 3 and stem.startswith(word))
        for text in witnesses
        for word in map(str.casefold, _WORD.findall(text))
    )


def _plain_number(number: str) -> str:
    """1,000 and 1000 are one number."""
    return re.sub(r",(?=\d{3}(?:\D|$))", "", number)


def embed(sentences: Sequence[str], encoder: Encoder) -> Tensor:
    """One vector of length one for each sentence; a very long one has the mean of its pieces' vectors."""
    pieces = [cut(sentence, lambda text: len(encoder.tokenizer.encode(text)), LONGEST) for sentence in sentences]
    vectors = encoder.embed([piece for several in pieces for piece in several])
    joined = [part.mean(0) for part in vectors.split([len(several) for several in pieces])]
    return torch.nn.functional.normalize(torch.stack(joined), dim=-1)
