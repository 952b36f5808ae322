"""The map: one chunk of a corpus becomes counts. Both engines run this, so their results are the same."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headwise.analysis.atlas.align import Aligned, align
from headwise.analysis.atlas.batches import Item, batches
from headwise.analysis.atlas.cases import CONTROLS, Case, cases_of
from headwise.analysis.atlas.corpora import CHUNK, Chunk, sentences
from headwise.analysis.atlas.counts import UNIT, Partial, Row, RowCounts
from headwise.analysis.atlas.match import questions
from headwise.analysis.atlas.reader import LENSES, MEASURES, Reader, Tally, random_twin
from headwise.analysis.atlas.relations import Relation
from headwise.analysis.atlas.sentence import Sentence


@dataclass(frozen=True)
class Plan:
    """What is asked of every sentence."""

    relations: Mapping[str, Relation]
    seed: int = 0
    random: bool = True
    """Whether the same model with random weights runs too."""
    shuffle: bool = True
    wrote: bool = True
    """Whether to ask by what heads wrote too, and not by weight alone."""
    measures: bool = True
    """Whether to measure what heads do without labels."""
    threads: int | None = None
    """Of torch; the same everywhere, since a sum's last bits depend on how it is divided."""
    chunk: int = CHUNK
    """Sentences in the unit of work."""
    limit: int | None = None
    """Sentences that are read, at most."""


@dataclass(frozen=True)
class Prepared:
    """The sentences of a chunk with their questions, before any model has read them."""

    chunk: int
    items: list[Item]
    keys: dict[tuple[str, int, int], int]
    """By relation, direction and block, the number under which answers are counted."""
    unaligned: tuple[str, ...]
    documents: int


def prepare(model: Any, plan: Plan, chunk: Chunk, causal: bool) -> Prepared:
    """Read, match and align the sentences of a chunk; what is not needed to run and to count them is let go."""
    keys: dict[tuple[str, int, int], int] = {}
    items: list[Item] = []
    unaligned: list[str] = []
    for block, sentence, aligned, cases in asked_of(model, plan, chunk, causal):
        if isinstance(aligned, str):
            unaligned.append(f"{sentence.file}:{sentence.line}: {sentence.name}: {aligned}")
        else:
            own = [keys.setdefault((case.relation, case.way, block), len(keys)) for case in cases]
            items.append(Item(aligned, cases, own))
    return Prepared(chunk.number, items, keys, tuple(unaligned), chunk.documents)


def asked_of(
    model: Any, plan: Plan, chunk: Chunk, causal: bool
) -> Iterator[tuple[int, Sentence, Aligned | str, list[Case]]]:
    """Each sentence with its block, its tokens (or why it has none) and what it asks."""
    random = np.random.default_rng([plan.seed, chunk.number])
    for block, sentence in sentences(chunk):
        asked = questions(sentence, plan.relations)
        aligned = align(model, sentence)
        if isinstance(aligned, str):
            yield block, sentence, aligned, []
        else:
            yield block, sentence, aligned, cases_of(sentence, aligned, asked, plan.relations, causal, random)


class Worker:
    """Holds the model, and works on one chunk after another."""

    def __init__(self, model: Any, plan: Plan) -> None:
        if plan.threads is not None and torch.get_num_threads() != plan.threads:
            torch.set_num_threads(plan.threads)
        self.model, self.plan = model, plan
        self.reader = Reader(model, plan.wrote)
        self.heads = self.reader.layers * self.reader.heads
        self.twin = Reader(random_twin(model, plan.seed + 1), plan.wrote) if plan.random else None

    def work(self, chunk: Chunk) -> Partial:
        """What this chunk says."""
        return self.count(prepare(self.model, self.plan, chunk, self.reader.causal))

    def count(self, prepared: Prepared) -> Partial:
        """Run the sentences, and count how often each head and each control is right."""
        items, keys = prepared.items, prepared.keys
        tally = self._tally(len(keys), self.plan.shuffle, self.plan.measures)
        twin = self._tally(len(keys), False, False) if self.twin is not None else None
        pad_id = self.model.config.pad_id or 0
        chosen = items if self.plan.measures else [item for item in items if item.cases]
        for batch in batches(chosen, pad_id, self.reader.causal):
            self.reader.read(batch, tally)
            if self.twin is not None and twin is not None and len(batch.case_row):
                self.twin.read(batch, twin)
        kinds = {"right": tally.right, "shuffled": tally.shuffled, "random": None if twin is None else twin.right}
        heads = {kind: counts.numpy() for kind, counts in kinds.items() if counts is not None}
        sums = None if tally.sums is None else np.rint(tally.sums.numpy() * UNIT).astype(np.int64)
        return Partial(
            chunk=prepared.chunk,
            rows=_rows(items, keys, heads),
            sums=sums,
            words=sum(len(item.aligned.units) for item in items),
            sentences=len(items),
            tokens=sum(len(item.aligned.ids) for item in items),
            documents=prepared.documents,
            unaligned=prepared.unaligned,
        )

    def _tally(self, keys: int, shuffle: bool, measures: bool) -> Tally:
        shape = (keys, self.heads, len(LENSES))
        return Tally(
            torch.zeros(shape, dtype=torch.int32),
            torch.zeros(shape, dtype=torch.int32) if shuffle else None,
            torch.zeros(self.heads, len(MEASURES), dtype=torch.float64) if measures else None,
        )


def _rows(
    items: list[Item], keys: Mapping[tuple[str, int, int], int], heads: Mapping[str, Any]
) -> dict[Row, tuple[Any, RowCounts]]:
    """The counts by relation and direction."""
    pairs = np.zeros(len(keys), dtype=np.int32)
    controls = np.zeros((len(keys), len(CONTROLS)), dtype=np.int32)
    for item in items:
        for case, key in zip(item.cases, item.keys, strict=True):
            pairs[key] += 1
            controls[key, list(case.controls)] += 1
    members: dict[Row, list[tuple[int, int]]] = {}
    for (relation, way, block), key in keys.items():
        members.setdefault((relation, way), []).append((block, key))
    rows: dict[Row, tuple[Any, RowCounts]] = {}
    for row, own in members.items():
        own.sort()
        blocks, at = (np.array(column, dtype=np.int64) for column in zip(*own, strict=True))
        kinds = {kind: numbers[at] for kind, numbers in heads.items()}
        rows[row] = blocks, RowCounts(pairs[at], controls[at], kinds)
    return rows
