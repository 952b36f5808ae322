"""The equation, as named steps: softmax(QKᵀ/√d + bias, masked)·V (Vaswani et al. 2017, section 3.2.1)."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from headwise.attention.masks import Mask, as_mask
from headwise.attention.positions import DistanceBias, bias_tensor


class AttentionSteps(NamedTuple):
    """Every intermediate of attention, [batch, head, query, key] but for `mixed`, [batch, head, query, dim]."""

    products: Tensor
    """q·k for every pair of a query and a key."""
    scaled: Tensor
    """The products divided by √d, with the position bias added."""
    masked: Tensor
    """The same, with -∞ where the query may not look."""
    weights: Tensor
    """The softmax over the keys: each row sums to one, or is zero where nothing may be seen."""
    mixed: Tensor
    """weights·V: for each query the weighted sum of the values, called z in the courses."""


def attention_steps(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | Tensor | None = None,
    bias: Tensor | DistanceBias | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> AttentionSteps:
    """Compute softmax(QKᵀ/√d + bias, masked)·V step by step, for tensors [batch, head, token, head_dim]."""
    kind = query.dtype
    query, key, value = _precise(query), _precise(key), _precise(value)
    key, value = _for_every_head(key, query), _for_every_head(value, query)
    queries, keys, dim = query.shape[-2], key.shape[-2], query.shape[-1]

    products = query @ key.mT
    scaled = products * (1 / math.sqrt(dim) if scale is None else scale)
    if bias is not None:
        scaled = scaled + bias_tensor(bias, queries, keys)
    allowed = as_mask(mask).tensor(queries, keys, query.device)
    masked = scaled if allowed is None else scaled.masked_fill(~allowed, -math.inf)
    weights = masked.softmax(dim=-1) if allowed is None else _softmax_of_allowed(masked, allowed)
    mixed = drop(weights, dropout) @ value

    return AttentionSteps(*(step.to(kind) for step in (products, scaled, masked, weights, mixed)))


def _softmax_of_allowed(masked: Tensor, allowed: Tensor) -> Tensor:
    """The softmax over the keys; a row that may attend to nothing gives zeros, and gradients that are zeros."""
    something = allowed.any(dim=-1, keepdim=True)
    return masked.masked_fill(~something, 0).softmax(dim=-1).masked_fill(~something, 0)


def _precise(x: Tensor) -> Tensor:
    """Half precision is computed in float32, so that large products do not overflow."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _for_every_head(x: Tensor, query: Tensor) -> Tensor:
    """Repeat the shared keys or values, so that each query head finds its own (Ainslie et al. 2023)."""
    group = query.shape[1] // x.shape[1] if x.shape[1] else 1
    return x if group == 1 else x.repeat_interleave(group, dim=1)
