"""Support: which sentences of a summary the document bears out, by likeness of meaning and by names and numbers.

The rule. Each sentence of the document is compared with the summary's sentence by the cosine of their embeddings. The
sentence is supported when the most like one reaches ALIKE, and every name and every number in it stands in one of those
that reach RELATED. A name is a word with a capital letter that opens no clause, or one with a capital or a digit
inside (`GPU`, `BERT-2`); words are compared by their beginnings, so that a plural or a possessive counts, `CNN` stands
where its words do, and 31 where thirty-one does. The rule finds what was made up; it does not understand, and a
sentence that turns a true one round may pass it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.generation.sentences import cut
from headwise.transformer.model import Encoder

ALIKE = 0.55
"""The likeness from which on one sentence may bear out another; docs/summaries.md has the figures."""
RELATED = 0.3
"""The likeness from which on a sentence is about the same thing, and its names and numbers count."""
LONGEST = 200
"""Tokens of a sentence that are embedded at once; the model was trained on sentences."""
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")
_INSIDE = re.compile(r".*[^\W\d_].*[A-Z]|.*[A-Z].*[A-Z]|.*\d")
_OPENS = re.compile(r"(?:^|[.?!:;\"“])[^\w(]*$")
_INITIALS = re.compile(r"([A-Z]{3,})s?")
_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WRITTEN = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(_ONES[1:10])}))?|({'|'.join(_ONES)}))\b", re.IGNORECASE
)


class Judged(NamedTuple):
    """A sentence of a summary, and what the document says to it."""

    text: str
    supported: bool | None = None
    """None: not looked at."""
    nearest: str = ""
    """The sentence of the document that is most like it."""
    likeness: float = 0.0
    missing: tuple[str, ...] = ()
    """Names and numbers that no related sentence has."""


def judge(summary: Sequence[str], document: Sequence[str], encoder: Encoder) -> list[Judged]:
    """Each sentence of the summary, judged by the rule above."""
    if not summary:
        return []
    if not document:
        return [Judged(sentence, False) for sentence in summary]
    likeness = embed(summary, encoder) @ embed(document, encoder).T
    return [judge_one(sentence, document, row) for sentence, row in zip(summary, likeness, strict=True)]


def judge_one(sentence: str, document: Sequence[str], likeness: Tensor) -> Judged:
    """One sentence, judged by its likeness to each of the document's."""
    best = int(likeness.argmax())
    nearest = float(likeness[best])
    if nearest < ALIKE:
        return Judged(sentence, False, document[best], nearest)
    related = [text for text, alike in zip(document, likeness.tolist(), strict=True) if alike >= RELATED]
    missing = tuple(token for token in names_and_numbers(sentence) if not _stands_in(token, related))
    return Judged(sentence, not missing, document[best], nearest, missing)


def names_and_numbers(sentence: str) -> list[str]:
    """What cannot be said in other words: words that are written like names, and numbers in digits."""
    words = [(match[0], _OPENS.search(sentence[: match.start()]) is not None) for match in _WORD.finditer(sentence)]
    names = [word for word, opens in words if _INSIDE.match(word) or (not opens and word[:1].isupper())]
    kept = [name for name in names if name != "I" and not _NUMBER.fullmatch(name)]
    return list(dict.fromkeys([*kept, *_NUMBER.findall(sentence)]))


def _stands_in(token: str, texts: Sequence[str]) -> bool:
    if _NUMBER.fullmatch(token):
        return any(_plain_number(token) in _numbers(text) for text in texts)
    stem = re.split(r"['’]", token.casefold())[0]
    words = [[word.casefold() for word in _WORD.findall(text)] for text in texts]
    if any(word.startswith(stem) or (len(word) > 3 and stem.startswith(word)) for text in words for word in text):
        return True
    initials = _INITIALS.fullmatch(token)
    return initials is not None and any(
        initials[1].casefold() in "".join(part[0] for word in text for part in re.split("[-'’.]", word) if part)
        for text in words
    )


def _numbers(text: str) -> set[str]:
    """The numbers of a text, in digits and, up to ninety-nine, in words."""
    found = {_plain_number(number) for number in _NUMBER.findall(text)}
    for ten, one, alone in _WRITTEN.findall(text):
        words = [word.lower() for word in (ten, one, alone)]
        tens = 10 * (2 + _TENS.index(words[0])) if ten else 0
        found.add(str(tens + sum(_ONES.index(word) for word in words[1:] if word)))
    return found


def _plain_number(number: str) -> str:
    """1,000 and 1000 are one number."""
    return re.sub(r",(?=\d{3}(?:\D|$))", "", number)


def embed(sentences: Sequence[str], encoder: Encoder) -> Tensor:
    """One vector of length one for each sentence; a very long one has the mean of its pieces' vectors."""
    pieces = [cut(sentence, lambda text: len(encoder.tokenizer.encode(text)), LONGEST) for sentence in sentences]
    vectors = encoder.embed([piece for several in pieces for piece in several])
    joined = [part.mean(0) for part in vectors.split([len(several) for several in pieces])]
    return torch.nn.functional.normalize(torch.stack(joined), dim=-1)
