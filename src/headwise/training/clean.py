"""Rows that can be trained on: what is empty, broken or there twice is told by line, and left out only on request."""

from __future__ import annotations

import hashlib
import random
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headwise.errors import DataError
from headwise.training.recipe import DataRecipe, Recipe
from headwise.training.rows import Row

TOLD = 5
"""Bad rows named one by one; the others are counted."""


@dataclass
class RowReport:
    """What was read, and what was left out and why."""

    where: str
    read: int = 0
    bad: int = 0
    first_bad: list[str] = field(default_factory=list[str])

    def leave_out(self, line: int, problem: str) -> None:
        """One row that cannot be used."""
        self.bad += 1
        if len(self.first_bad) < TOLD:
            self.first_bad.append(f"line {line}: {problem}")

    def told(self) -> str:
        """The bad rows in one line."""
        more = f"; and {self.bad - TOLD:,} more" if self.bad > TOLD else ""
        return f"{self.where}: {self.bad:,} bad rows: {'; '.join(self.first_bad)}{more}"


def clean_rows(rows: Iterable[Row], report: RowReport, skip_bad: bool) -> Iterator[Row]:
    """The good rows; bad ones are reported, and end the run after all were read unless they may be skipped."""
    seen: dict[bytes, int] = {}
    for row in rows:
        report.read += 1
        problem = row.problem
        if problem is None:
            key = hashlib.blake2b("\x1f".join(row.texts.values()).encode(), digest_size=16).digest()
            first = seen.setdefault(key, row.line)
            problem = f"the same as line {first}" if first != row.line else None
        if problem is not None:
            report.leave_out(row.line, problem)
        elif skip_bad or not report.bad:
            yield row
    if report.bad and not skip_bad:
        raise DataError(f"{report.told()}; mend them, or leave them out with --skip-bad")
    if not report.read:
        raise DataError(f"{report.where}: holds no rows")


def part_of(text: str, data: DataRecipe) -> str:
    """Which part a text belongs to by its hash alone: "test", "validation" or "train", the same on every machine."""
    place = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
    if place < data.test:
        return "test"
    return "validation" if place < data.test + data.validation else "train"


def key_of(row: Row) -> str:
    """The text that decides about the part: the source of a pair."""
    return row.texts.get("source") or row.texts["text"]


def made_rows(recipe: Recipe) -> Iterator[Row]:
    """Words of drawn letters, and the same words backwards, each once: rows that need no file."""
    data = recipe.data
    draw = random.Random(recipe.seed)
    seen: set[str] = set()
    misses = 0
    while len(seen) < data.rows and misses < 1000:
        length = draw.randint(data.shortest, data.longest)
        word = "".join(draw.choices(string.ascii_lowercase, k=length))
        misses = misses + 1 if word in seen else 0
        if word not in seen:
            seen.add(word)
            yield Row(len(seen), {"source": word, "target": word[::-1]})
