"""Small inputs for attention, drawn from fixed seeds and ordered from small to large: what the laws are tried on."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

import torch
from torch import Tensor

MaskKind = Literal["no", "padding", "causal", "scattered", "empty-row"]


class Drawn(NamedTuple):
    """The tensors of one case: what an attention function is called with."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None


@dataclass(frozen=True)
class Case:
    """The sizes of one input, the kind of its mask and its dtype."""

    batch: int
    heads: int
    queries: int
    keys: int
    dim: int
    mask: MaskKind = "no"
    shared: int = 0
    """Heads of key and value; 0: as many as the query has."""
    dtype: torch.dtype = torch.float64

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        shared = f" sharing {self.shared}" if self.shared else ""
        sizes = f"batch {self.batch}, heads {self.heads}{shared}, queries {self.queries}, keys {self.keys}"
        return f"{sizes}, head_dim {self.dim}, {kind}, {self.mask} mask"

    @property
    def size(self) -> int:
        """How many numbers it takes to write the case down."""
        return self.batch * self.heads * (self.queries + 2 * self.keys) * self.dim

    @property
    def seed(self) -> int:
        """Depends on the sizes only, so that every run draws the same numbers."""
        return self.batch + 10 * self.heads + 100 * self.queries + 10_000 * self.keys + 1_000_000 * self.dim

    def draw(self) -> Drawn:
        """Normal numbers, and the mask."""
        random = torch.Generator().manual_seed(self.seed)
        shared = self.shared or self.heads
        query = torch.randn(self.batch, self.heads, self.queries, self.dim, generator=random, dtype=torch.float64)
        key = torch.randn(self.batch, shared, self.keys, self.dim, generator=random, dtype=torch.float64)
        value = torch.randn(self.batch, shared, self.keys, self.dim, generator=random, dtype=torch.float64)
        return Drawn(query.to(self.dtype), key.to(self.dtype), value.to(self.dtype), self._draw_mask(random))

    def _draw_mask(self, random: torch.Generator) -> Tensor | None:
        if self.mask == "no":
            return None
        if self.mask == "causal":
            return torch.ones(1, 1, self.queries, self.keys, dtype=torch.bool).tril(self.keys - self.queries)
        if self.mask == "padding":
            lengths = torch.randint(1, max(self.keys, 2), (self.batch, 1), generator=random)
            kept = torch.arange(self.keys) < lengths
            return kept[:, None, None, :].expand(self.batch, 1, self.queries, self.keys).clone()
        allowed = torch.rand(self.batch, self.heads, self.queries, self.keys, generator=random) < 0.6
        if self.mask == "scattered":
            seen = torch.randint(self.keys, (self.batch, self.heads, self.queries, 1), generator=random)
            return allowed.scatter(-1, seen, True)
        allowed[:, :, torch.randint(self.queries, (1,), generator=random)] = False
        return allowed


_ROWS_AND_HEADS = ((1, 1), (1, 2), (2, 2))
_SMALL = [Case(*both, *sizes) for both in _ROWS_AND_HEADS for sizes in product((1, 2, 3), (1, 2, 4), (1, 3))]
_LARGE = [Case(2, 4, 7, 11, 8), Case(1, 2, 70, 70, 16), Case(1, 2, 5, 90, 8), Case(1, 1, 300, 300, 4)]
SIZES = sorted([*_SMALL, *_LARGE], key=lambda case: case.size)
"""All sizes tried, the smallest first."""


def cases(*masks: MaskKind) -> list[Case]:
    """Every size with each of these masks, the smallest first; a causal mask needs as many keys as queries."""
    kinds: tuple[MaskKind, ...] = masks or ("no", "padding", "causal", "scattered")
    return [
        replace(case, mask=kind) for case in SIZES for kind in kinds if kind != "causal" or case.keys >= case.queries
    ]
