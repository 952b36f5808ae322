"""PackedLinear and PackedEmbedding: nn.Linear and nn.Embedding whose weights stay in 4- and 8-bit blocks."""

from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from headwise.packed import native
from headwise.packed.blocks import PackedWeight
from headwise.packed.fallback import TorchProduct
from headwise.packed.levels import level

FEW = 16
"""Rows up to which torch reads the blocks in place; for more, widened weights are faster."""


class Packed(nn.Module):
    """A module with a packed matrix, which `weight` widens."""

    def __init__(self, weight: PackedWeight) -> None:
        super().__init__()
        self.packed = weight

    @property
    def weight(self) -> Tensor:
        """The matrix in float32, made anew at each call."""
        return widened(self.packed, torch.float32)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """A saved model has the widened matrix, so that everything can read it."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = self.weight


class PackedLinear(Packed):
    """x·Wᵀ + b, where x is rounded to int8 by blocks and meets the blocks as they are."""

    def __init__(self, weight: PackedWeight, bias: Tensor | None = None) -> None:
        super().__init__(weight)
        if bias is not None and bias.shape != (weight.rows,):
            raise ValueError(f"bias: got shape {list(bias.shape)}, wanted [{weight.rows}]")
        self.out_features, self.in_features = weight.rows, weight.columns
        bias = None if bias is None else bias.detach().float().contiguous()
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        if x.shape[-1] != self.in_features:
            raise ValueError(f"x: got shape {list(x.shape)}, wanted [..., {self.in_features}]")
        if _needs_exactness(x):
            bias = None if self.bias is None else self.bias.to(x.device, x.dtype)
            return linear(x, widened(self.packed, x.dtype).to(x.device), bias)
        rows = x.detach().reshape(-1, self.in_features).float().contiguous()
        y = self._product(rows).view(*x.shape[:-1], self.out_features)
        return y if y.dtype == x.dtype else y.to(x.dtype)

    @property
    def rounding(self) -> str:
        """What x, and without the kernel the weight too, is rounded to."""
        return "int8" if level() != "torch" else str(fast_dtype()).removeprefix("torch.")

    def _product(self, x: Tensor) -> Tensor:
        """x float32 [row, in_features]."""
        which = level()
        if which != "torch":
            return native.products([native.weight_struct(self.packed, self.bias)], x, which)[0]
        y = self.torch_product.few(x) if len(x) <= FEW else self.torch_product.many(x)
        return y if self.bias is None else y + self.bias

    @cached_property
    def torch_product(self) -> TorchProduct:
        """The product without a compiler, laid out once."""
        return TorchProduct([self.packed], fast_dtype())

    def extra_repr(self) -> str:
        """The sizes and the kind, for print(layer)."""
        return f"in_features={self.in_features}, out_features={self.out_features}, kind={self.packed.kind}"


class PackedEmbedding(Packed):
    """The rows of a packed matrix, looked up by number and widened to float32."""

    def __init__(self, weight: PackedWeight) -> None:
        super().__init__(weight)
        self.num_embeddings, self.embedding_dim = weight.rows, weight.columns

    def forward(self, ids: Tensor) -> Tensor:
        """[...] -> [..., embedding_dim]."""
        which = level()
        if which == "torch":
            return self.packed.rows_at(ids)
        flat = ids.reshape(-1).long().contiguous()
        return native.widen(self.packed, torch.float32, which, flat).view(*ids.shape, self.embedding_dim)

    def extra_repr(self) -> str:
        """The sizes and the kind, for print(embedding)."""
        return f"{self.num_embeddings}, {self.embedding_dim}, kind={self.packed.kind}"


def widened(weight: PackedWeight, dtype: torch.dtype) -> Tensor:
    """The matrix in `dtype`, by the kernel where there is one."""
    which = level()
    if which == "torch" or dtype not in (torch.float32, torch.bfloat16):
        return weight.dequantize(dtype)
    return native.widen(weight, dtype, which)


@cache
def fast_dtype() -> torch.dtype:
    """What large products are fastest in: bfloat16 where the processor multiplies it, float32 elsewhere."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.bfloat16 if supported() else torch.float32


def _needs_exactness(x: Tensor) -> bool:
    """Whether rounding x is out of the question: gradients flow through it, or it is float64, or elsewhere."""
    return (torch.is_grad_enabled() and x.requires_grad) or x.dtype == torch.float64 or x.device.type != "cpu"
