"""Which examples stand in which batch, drawn from seed and epoch alone, so that a run can go on anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwise.training.layouts import Columns, Rows
from headwise.training.recipe import Recipe

OPEN = 16
"""Rows that are filled at the same time."""
NEAR = 4096
"""Examples among which those of like length are put together."""

Plan = list[Rows]


def make_plan(recipe: Recipe, columns: Columns, epoch: int | None, most: int | None = None) -> Plan:
    """The batches of one epoch; without one, the first examples in the order of the file."""
    random = np.random.default_rng([recipe.seed, epoch or 0])
    count = min(map(len, columns.values()))
    order = np.arange(count)[:most] if epoch is None else random.permutation(count)
    if recipe.packed:
        rows = pack(order, _steps(columns), recipe.data.length)
        size = max(1, recipe.batch.tokens // recipe.data.length)
        return [rows[first : first + size] for first in range(0, len(rows), size)]
    lengths = np.stack([tokens.lengths for tokens in columns.values()], axis=1)
    batches = bucket(order, lengths, recipe.batch.tokens)
    if epoch is not None:
        random.shuffle(batches)  # type: ignore[arg-type]
    return batches


def pack(order: Sequence[int] | np.ndarray, lengths: np.ndarray, room: int) -> list[list[int]]:
    """Rows of at most `room` positions: each example into the fullest open row that still takes it."""
    rows: list[list[int]] = []
    open_rows: list[tuple[int, list[int]]] = []
    for one in map(int, order):
        length = int(lengths[one])
        fitting = [place for place, (left, _) in enumerate(open_rows) if left >= length]
        if fitting:
            best = min(fitting, key=lambda place: open_rows[place][0])
            left, row = open_rows.pop(best)
        else:
            left, row = room, []
            rows.append(row)
        row.append(one)
        if left > length:
            open_rows.append((left - length, row))
        if len(open_rows) > OPEN:
            open_rows.remove(min(open_rows, key=lambda entry: entry[0]))
    return rows


def bucket(order: np.ndarray, lengths: np.ndarray, room: int) -> Plan:
    """Batches of examples of like length, at most `room` tokens each when filled up to their longest."""
    batches: Plan = []
    for first in range(0, len(order), NEAR):
        near = order[first : first + NEAR]
        near = near[np.lexsort(tuple(lengths[near].T))]
        batch: list[list[int]] = []
        longest = np.zeros(lengths.shape[1], dtype=np.int64)
        for one in map(int, near):
            grown = np.maximum(longest, lengths[one])
            if batch and (len(batch) + 1) * int(grown.sum()) > room:
                batches.append(batch)
                batch, grown = [], lengths[one]
            batch.append([one])
            longest = grown
        if batch:
            batches.append(batch)
    return batches


def share(rows: Rows, part: int, parts: int) -> tuple[Rows, bool]:
    """This part of a batch, and whether it counts: one that would be empty repeats a row, which then counts nothing."""
    own = rows[part::parts]
    return (own, True) if own else (rows[:1], False)


def _steps(columns: Columns) -> np.ndarray:
    """How many positions an example takes in a row: its last token is only learned, never read."""
    return np.sum([tokens.lengths for tokens in columns.values()], axis=0) - 1
