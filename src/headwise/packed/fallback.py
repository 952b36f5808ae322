"""Products without a C compiler: torch's own 4-bit product for a few rows, widened weights for many."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from headwise.packed.blocks import PackedWeight
from headwise.packed.kinds import BLOCK

ROWS = 64
"""Torch's 4-bit product takes rows by so many."""


class TorchProduct:
    """x·Wᵀ for one packed weight; what torch needs is made at the first call and kept."""

    def __init__(self, weight: PackedWeight, dtype: torch.dtype) -> None:
        self._weight, self._dtype = weight, dtype

    def few(self, x: Tensor) -> Tensor:
        """x float32 [row, columns]: each step reads the weights once, so that fewer bits are faster."""
        if self._four_bits is None:
            return self.many(x)
        blocks, ends = self._four_bits
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x.bfloat16(), blocks, BLOCK, ends).float()

    def many(self, x: Tensor) -> Tensor:
        """x float32 [row, columns]."""
        return linear(x.to(self._dtype), self._widened).float()

    @cached_property
    def _widened(self) -> Tensor:
        return self._weight.dequantize(self._dtype)

    @cached_property
    def _four_bits(self) -> tuple[Tensor, Tensor] | None:
        """Torch's layout of the values, and scale and value of 8 for each block; None where torch cannot."""
        operations: Any = torch.ops.aten
        form = self._weight.form
        known = hasattr(operations, "_weight_int4pack_mm_for_cpu")
        if form.bits != 4 or self._dtype != torch.bfloat16 or self._weight.rows % ROWS or not known:
            return None
        values, scale, minimum = self._weight.parts()
        middle = torch.zeros_like(scale) if minimum is None else minimum.float() + 8 * scale.float()
        ends = torch.stack([scale.float(), middle.float()], dim=-1).bfloat16().transpose(0, 1).contiguous()
        return operations._convert_weight_to_int4pack_for_cpu(values.int(), 1), ends
