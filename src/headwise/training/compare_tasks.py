"""Tasks that need a link over a distance: recall, copying, agreement, and ordinary text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor

IGNORED = -100
NOUNS = ("key", "lamp", "table", "door", "cabinet", "letter", "garden", "bottle")
PREPOSITIONS = ("on", "near", "by", "under", "behind", "beside")


class Batch(NamedTuple):
    """What is read, what is asked, and how far back the answer stands."""

    ids: Tensor
    """[row, token]"""
    targets: Tensor
    """[row, token]: the next word, where it is asked; IGNORED elsewhere."""
    distances: Tensor
    """[row, token]: how many words before the answer the word stands that decides it."""


class Task(Protocol):
    """Draws examples whose links are about so long."""

    @property
    def name(self) -> str: ...
    @property
    def words(self) -> Sequence[str]: ...
    @property
    def chance(self) -> float:
        """How often a guess is right that does not know where to look."""
        ...

    def draw(self, distance: int, rows: int, generator: Generator) -> Batch: ...


@dataclass(frozen=True)
class Recall:
    """Pairs of a letter and a digit, some noise, then any of these letters, each time with its digit asked."""

    name: str = "recall"
    words: Sequence[str] = (*"abcdefghijklmnop", *"0123456789", *"~^*+")
    chance: float = 0.3835
    """Of saying, of the four digits told, the one that was told most often."""
    pairs: int = 4

    def draw(self, distance: int, rows: int, generator: Generator) -> Batch:
        """The middle of the distances is what was asked for."""
        pairs = min(self.pairs, distance // 2)
        keys = torch.rand(rows, 16, generator=generator).argsort(1)[:, :pairs]
        values = 16 + torch.randint(0, 10, (rows, pairs), generator=generator)
        noise = 26 + torch.randint(0, 4, (rows, distance - 2 * pairs), generator=generator)
        order = torch.randint(0, pairs, (rows, pairs), generator=generator)
        told = torch.stack([keys, values], 2).flatten(1)
        asked = torch.stack([keys.gather(1, order), values.gather(1, order)], 2).flatten(1)
        row = torch.cat([told, noise, asked], 1)
        answers = torch.arange(distance + 1, distance + 2 * pairs, 2).expand(rows, pairs)
        return _asked(row, answers, answers - (2 * order + 1))


@dataclass(frozen=True)
class Copying:
    """Letters, some noise, a sign, and the same letters again."""

    name: str = "copying"
    words: Sequence[str] = (*"abcdefghij", *"~^*+", ">")
    chance: float = 0.1
    length: int = 10

    def draw(self, distance: int, rows: int, generator: Generator) -> Batch:
        """Every letter stands exactly this far from its copy."""
        length = min(self.length, distance - 1)
        letters = torch.randint(0, 10, (rows, length), generator=generator)
        noise = 10 + torch.randint(0, 4, (rows, distance - 1 - length), generator=generator)
        row = torch.cat([letters, noise, torch.full((rows, 1), 14), letters], 1)
        answers = torch.arange(distance, distance + length).expand(rows, length)
        return _asked(row, answers, torch.full_like(answers, distance))


@dataclass(frozen=True)
class Agreement:
    """“the keys on the table near the lamp , they”: the pronoun agrees with the first noun, not with the last."""

    name: str = "agreement"
    words: Sequence[str] = ("the", *NOUNS, *(f"{noun}s" for noun in NOUNS), *PREPOSITIONS, ",", "it", "they")
    chance: float = 0.5

    def draw(self, distance: int, rows: int, generator: Generator) -> Batch:
        """As many phrases between as fit in the distance, at least one."""
        phrases = max(1, (distance - 2) // 3)
        first, comma = 1 + 2 * len(NOUNS), self.words.index(",")
        nouns = 1 + torch.randint(0, 2 * len(NOUNS), (rows, phrases + 1), generator=generator)
        between = first + torch.randint(0, len(PREPOSITIONS), (rows, phrases), generator=generator)
        the = torch.zeros(rows, 1, dtype=torch.int64)
        parts = [the, nouns[:, :1]]
        for phrase in range(phrases):
            parts += [between[:, phrase : phrase + 1], the, nouns[:, phrase + 1 : phrase + 2]]
        many = (nouns[:, :1] > len(NOUNS)).long()
        row = torch.cat([*parts, torch.full((rows, 1), comma), comma + 1 + many], 1)
        answers = torch.full((rows, 1), row.shape[1] - 1)
        return _asked(row, answers, answers - 1)


@dataclass(frozen=True)
class Text:
    """The next sign of ordinary text; the distance is how much of the text stands before it."""

    name: str
    words: Sequence[str]
    ids: Tensor
    chance: float
    """The share of the commonest sign."""

    def draw(self, distance: int, rows: int, generator: Generator) -> Batch:
        """Pieces of this length and one sign more, from anywhere."""
        length = min(distance, len(self.ids) - 1)
        begins = torch.randint(0, len(self.ids) - length, (rows, 1), generator=generator)
        piece = self.ids[begins + torch.arange(length + 1)]
        return Batch(piece[:, :-1], piece[:, 1:], torch.arange(1, length + 1).expand(rows, length))


def _asked(row: Tensor, answers: Tensor, distances: Tensor) -> Batch:
    """The batch in which the words at these places are asked, each before it is read."""
    targets = torch.full_like(row, IGNORED).scatter(1, answers, row.gather(1, answers))
    apart = torch.zeros_like(row).scatter(1, answers, distances)
    return Batch(row[:, :-1], targets[:, 1:], apart[:, 1:])
