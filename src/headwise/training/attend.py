"""The equation for training in bfloat16 on a CPU, where torch's fused attention is slow on the way back."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn.functional import dropout as drop

from headwise.attention.kernels import KERNELS
from headwise.attention.masks import Mask
from headwise.attention.positions import DistanceBias, bias_tensor

MOST = 1 << 27
"""Scores that may stand in memory; above it the fused attention is used."""


def written_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    bias: Tensor | DistanceBias | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """softmax(QKᵀ·scale + bias, masked)·V: products as given, the softmax in float32."""
    queries, keys = query.shape[2], key.shape[2]
    nothing_to_see = mask.padding is not None or mask.may_leave_nothing(queries, keys)
    if query.shape[0] * query.shape[1] * queries * keys > MOST or query.shape[1] != key.shape[1]:
        return KERNELS["sdpa"](query, key, value, mask, bias, scale, dropout)
    scores = ((query * scale) @ key.mT).float()
    if bias is not None:
        scores = scores + bias_tensor(bias, queries, keys)
    allowed = mask.tensor(queries, keys, query.device)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
        if nothing_to_see:
            # A row that may see nothing gives zeros, and no 0/0 on the way back.
            empty = ~allowed.any(-1, keepdim=True)
            weights = scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
            return drop(weights, dropout).to(value.dtype) @ value
    return drop(scores.softmax(-1), dropout).to(value.dtype) @ value
