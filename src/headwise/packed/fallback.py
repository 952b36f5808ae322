"""Products without a C compiler: torch's own 4-bit product for a few rows, widened weights for many."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from headwise.packed.blocks import PackedWeight
from headwise.packed.kinds import BLOCK

ROWS = 64
"""Torch's 4-bit product takes rows by so many."""


class Plane(NamedTuple):
    """Four bits of every value: torch's layout of them, and scale and value of 8 for each block."""

    values: Tensor
    ends: Tensor

    def product(self, x: Tensor) -> Tensor:
        """x bfloat16 [row, columns] -> bfloat16, with the rows that fill up."""
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.values, BLOCK, self.ends)


class TorchProduct:
    """x·Wᵀ for packed weights on top of each other; what torch needs is made at the first call and kept."""

    def __init__(self, weights: Sequence[PackedWeight], dtype: torch.dtype) -> None:
        self._weights, self._dtype = weights, dtype
        self.rows = sum(weight.rows for weight in weights)

    @property
    def in_place(self) -> bool:
        """Whether torch reads the blocks as they are; otherwise few rows are computed like many."""
        return self._dtype == torch.bfloat16 and hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu")

    def few(self, x: Tensor) -> Tensor:
        """x [row, columns] -> float32: each step reads the weights once, so that fewer bits are faster."""
        if not self.in_place:
            return self.many(x)
        x = x.bfloat16()
        y = self._planes[0].product(x).float()
        for plane in self._planes[1:]:
            y += plane.product(x)
        return y if y.shape[1] == self.rows else y[:, : self.rows]

    def many(self, x: Tensor) -> Tensor:
        """x [row, columns] -> float32."""
        return linear(x.to(self._dtype), self._widened).float()

    @cached_property
    def _widened(self) -> Tensor:
        return torch.cat([weight.dequantize(self._dtype) for weight in self._weights])

    @cached_property
    def _planes(self) -> list[Plane]:
        """One for four bits; eight are 16 · high + low, and need two."""
        parts = [_planes_of(weight) for weight in self._weights]
        if len({len(part) for part in parts}) > 1:
            raise ValueError("packed weights: those of one product must have equally many bits")
        return [_joined(planes) for planes in zip(*parts, strict=True)]


_Plain = tuple[Tensor, Tensor, Tensor]  # values from 0 to 15; for each block scale and value of 8


def _planes_of(weight: PackedWeight) -> list[_Plain]:
    """w = Σ over planes of scale · (value − 8) + middle."""
    values, scale, minimum = weight.parts()
    scale = scale.float()
    least = torch.zeros_like(scale) if minimum is None else minimum.float()
    least = least - weight.form.offset * scale
    if weight.form.bits == 4:
        return [(values, scale, least + 8 * scale)]
    return [(values & 15, scale, least + 8 * scale), ((values >> 4) + 8, 16 * scale, torch.zeros_like(scale))]


def _joined(parts: Sequence[_Plain]) -> Plane:
    values, scale, middle = (torch.cat(part) for part in zip(*parts, strict=True))
    ends = torch.stack([scale, middle], dim=-1).bfloat16()
    fill = -len(values) % ROWS
    operations: Any = torch.ops.aten
    return Plane(
        operations._convert_weight_to_int4pack_for_cpu(pad(values.int(), (0, 0, 0, fill)), 1),
        pad(ends, (0, 0, 0, 0, 0, fill)).transpose(0, 1).contiguous(),
    )
