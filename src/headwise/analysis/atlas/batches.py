"""Sentences of like length side by side, as the tensors that the reduction needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headwise.analysis.atlas.align import Aligned
from headwise.analysis.atlas.cases import Case, masks_of

TOKENS = 384
"""Tokens in a batch, at most."""
PAIRS = 16 * 1024
"""Pairs of tokens in a batch, at most: the weights of one head of one layer."""


class Item(NamedTuple):
    """A sentence, what is asked of it, and the number under which each answer is counted."""

    aligned: Aligned
    cases: list[Case]
    keys: list[int]


@dataclass(frozen=True)
class Batch:
    """Rows of tokens, and the questions about them."""

    ids: Tensor
    padding: Tensor | None
    """[sentence, token]: True for tokens; None where there is no filling."""
    members: Tensor
    """[sentence, token, unit]: one where a token is part of a unit."""
    means: Tensor
    """[sentence, unit, token]: the same, divided by the number of its tokens."""
    special: Tensor
    """[sentence, token]: one for tokens that the tokenizer added."""
    units: Tensor
    """[sentence]: how many there are."""
    row_sentence: Tensor
    row_unit: Tensor
    """[row]: the word that looks, or is looked at."""
    allowed: Tensor
    """[row, unit]: which may be the answer."""
    looked_at: Tensor | None
    """[row]: whether the candidates do the looking."""
    case_row: Tensor
    case_key: Tensor
    right: Tensor
    """[case, unit]."""
    shuffled: Tensor
    """[case]: the unit that counts as right when the pairs are shuffled."""


def batches(items: Sequence[Item], pad_id: int, causal: bool) -> Iterator[Batch]:
    """The items by length, so that little is filled; the order depends on the items alone."""
    order = sorted(range(len(items)), key=lambda at: (len(items[at].aligned.ids), at))
    held: list[Item] = []
    for at in order:
        length = len(items[at].aligned.ids)
        if held and ((len(held) + 1) * length > TOKENS or (len(held) + 1) * length**2 > PAIRS):
            yield make_batch(held, pad_id, causal)
            held = []
        held.append(items[at])
    if held:
        yield make_batch(held, pad_id, causal)


def make_batch(items: Sequence[Item], pad_id: int, causal: bool) -> Batch:
    """The tensors of these sentences."""
    lengths = [len(item.aligned.ids) for item in items]
    longest, widest = max(lengths), max(len(item.aligned.units) for item in items)
    ids = np.full((len(items), longest), pad_id, dtype=np.int64)
    members = np.zeros((len(items), longest, widest), dtype=np.float32)
    special = np.zeros((len(items), longest), dtype=np.float32)
    for number, item in enumerate(items):
        ids[number, : lengths[number]] = item.aligned.ids
        special[number, : lengths[number]] = item.aligned.special
        units = item.aligned.units
        members[number, [t for unit in units for t in unit], [at for at, unit in enumerate(units) for _ in unit]] = 1
    padding = np.arange(longest) < np.array(lengths)[:, None]
    means = members.transpose(0, 2, 1) / np.maximum(members.sum(axis=1), 1)[:, :, None]
    return Batch(
        ids=torch.from_numpy(ids),
        padding=None if padding.all() else torch.from_numpy(padding),
        members=torch.from_numpy(members),
        means=torch.from_numpy(np.ascontiguousarray(means)),
        special=torch.from_numpy(special),
        units=torch.tensor([len(item.aligned.units) for item in items]),
        **_questions(items, widest, causal),
    )


def _questions(items: Sequence[Item], widest: int, causal: bool) -> dict[str, Any]:
    """The cases, and the rows that they look at, each of them once."""
    asked = [(number, case) for number, item in enumerate(items) for case in item.cases]
    rows: dict[tuple[int, int, frozenset[int], bool], int] = {}
    names = [(number, case.source, case.candidates, case.looked_at) for number, case in asked]
    case_row = [rows.setdefault(name, len(rows)) for name in names]
    firsts = _firsts(case_row, len(rows))
    allowed, right = masks_of(
        [case for _, case in asked], widest, [len(items[n].aligned.units) for n, _ in asked], causal
    )
    looked_at = [name[3] for name in rows]
    return {
        "row_sentence": torch.tensor([name[0] for name in rows], dtype=torch.int64),
        "row_unit": torch.tensor([name[1] for name in rows], dtype=torch.int64),
        "allowed": torch.from_numpy(allowed[firsts]),
        "looked_at": torch.tensor(looked_at) if any(looked_at) else None,
        "case_row": torch.tensor(case_row, dtype=torch.int64),
        "case_key": torch.tensor([key for item in items for key in item.keys], dtype=torch.int64),
        "right": torch.from_numpy(right),
        "shuffled": torch.tensor([case.shuffled for _, case in asked], dtype=torch.int64),
    }


def _firsts(case_row: Sequence[int], rows: int) -> list[int]:
    """For each row the first case that looks at it."""
    firsts = [-1] * rows
    for case, row in enumerate(case_row):
        if firsts[row] < 0:
            firsts[row] = case
    return firsts
