"""What has been counted: by relation, direction and block of documents; whole numbers, so order does not matter."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.analysis.atlas.cases import CONTROLS
from headwise.analysis.atlas.corpora import BLOCKS
from headwise.analysis.atlas.reader import LENSES, MEASURES

Row = tuple[str, int]
"""A relation and a direction."""
Counts = NDArray[np.int32]
LISTED = 10_000
"""Sentences that could not be aligned are listed up to so many."""
UNIT = 2**24
"""Sums of shares are kept as whole numbers of this part, so that adding them up is exact in any order."""
HEADS = ("right", "shuffled", "random")
"""Of the model, of the model when pairs are shuffled, of the same model with random weights."""


@dataclass(eq=False)
class RowCounts:
    """One relation in one direction, by block."""

    pairs: Counts
    """[block]."""
    controls: Counts
    """[block, control]."""
    heads: dict[str, Counts]
    """By kind, [block, head, lens]."""


@dataclass(frozen=True, eq=False)
class Partial:
    """What one chunk gave."""

    chunk: int
    rows: Mapping[Row, tuple[NDArray[np.int64], RowCounts]]
    """By row, the blocks that it speaks of, and their counts."""
    sums: NDArray[np.int64] | None
    """[head, measure], in parts of UNIT."""
    words: int
    sentences: int
    tokens: int
    documents: int
    unaligned: tuple[str, ...]
    """FILE:LINE: NAME: why."""


@dataclass(eq=False)
class Total:
    """The sum over all chunks; its size does not depend on the corpus."""

    heads: int
    rows: dict[Row, RowCounts] = field(default_factory=dict[Row, RowCounts])
    sums: NDArray[np.int64] | None = None
    words: int = 0
    sentences: int = 0
    tokens: int = 0
    documents: int = 0
    unaligned: int = 0
    listed: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """With the number of the chunk, so that the list is in order whoever was faster."""
    chunks: set[int] = field(default_factory=set[int])

    def add(self, part: Partial) -> None:
        """One more chunk."""
        for row, (blocks, counts) in part.rows.items():
            own = self.row(row, counts.heads)
            own.pairs[blocks] += counts.pairs
            own.controls[blocks] += counts.controls
            for kind, numbers in counts.heads.items():
                own.heads[kind][blocks] += numbers
        if part.sums is not None:
            self.sums = part.sums.copy() if self.sums is None else self.sums + part.sums
        for name in ("words", "sentences", "tokens", "documents"):
            setattr(self, name, getattr(self, name) + getattr(part, name))
        self.unaligned += len(part.unaligned)
        self.listed = sorted([*self.listed, *((part.chunk, line) for line in part.unaligned)], key=lambda one: one[0])
        del self.listed[LISTED:]
        self.chunks.add(part.chunk)

    def row(self, row: Row, kinds: Iterable[str]) -> RowCounts:
        """The counts of one row, which begin with nought."""
        if row not in self.rows:
            self.rows[row] = RowCounts(
                np.zeros(BLOCKS, dtype=np.int32),
                np.zeros((BLOCKS, len(CONTROLS)), dtype=np.int32),
                {kind: np.zeros((BLOCKS, self.heads, len(LENSES)), dtype=np.int32) for kind in kinds},
            )
        return self.rows[row]

    def measures(self) -> NDArray[np.float64] | None:
        """[head, measure]: the means."""
        if self.sums is None or not self.words:
            return None
        count = np.full(len(MEASURES), self.words, dtype=np.float64)
        count[MEASURES.index("sink")] = self.sentences
        return self.sums / UNIT / count


def pack(part: Partial) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """A partial as plain arrays and plain values."""
    arrays: dict[str, NDArray[Any]] = {}
    names: list[list[Any]] = []
    for at, ((relation, way), (blocks, counts)) in enumerate(part.rows.items()):
        names.append([relation, way])
        arrays |= {f"{at}.blocks": blocks, f"{at}.pairs": counts.pairs, f"{at}.controls": counts.controls}
        arrays |= {f"{at}.heads.{kind}": numbers for kind, numbers in counts.heads.items()}
    if part.sums is not None:
        arrays["sums"] = part.sums
    plain = {name: getattr(part, name) for name in ("chunk", "words", "sentences", "tokens", "documents", "unaligned")}
    return arrays, {"rows": names, **plain}


def unpack(arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]) -> Partial:
    """What `pack` packed."""
    rows: dict[Row, tuple[NDArray[np.int64], RowCounts]] = {}
    for at, (relation, way) in enumerate(plain["rows"]):
        begin = f"{at}.heads."
        heads = {name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)}
        counts = RowCounts(arrays[f"{at}.pairs"], arrays[f"{at}.controls"], heads)
        rows[relation, int(way)] = arrays[f"{at}.blocks"], counts
    numbers = {name: int(plain[name]) for name in ("chunk", "words", "sentences", "tokens", "documents")}
    return Partial(rows=rows, sums=arrays.get("sums"), unaligned=tuple(plain["unaligned"]), **numbers)
