"""Exact attention by blocks of queries and keys with a running softmax (Milakov and Gimelshein 2018; Dao et al. 2022).

Memory grows with the length and not with its square, forward and backward; keys out of a window's reach are never read.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.utils.checkpoint import checkpoint

from headwise.attention.masks import Mask
from headwise.attention.positions import DistanceBias, bias_tensor

QUERIES = 256
"""Queries in a block."""
KEYS = 1024
"""Keys in a block."""


def blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    bias: Tensor | DistanceBias | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """softmax(QKᵀ·scale + bias, masked)·V, a block of queries at a time."""
    queries, keys = query.shape[2], key.shape[2]
    if not queries:
        return query.new_zeros(*query.shape[:3], value.shape[3])
    learning = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    learning = learning or (torch.is_grad_enabled() and _is_trained(bias))
    mixed: list[Tensor] = []
    for first in range(0, queries, QUERIES):
        rows = (first, min(first + QUERIES, queries))
        reach = mask.reach(*rows, queries, keys)
        part = query[:, :, rows[0] : rows[1]]
        arguments = (part, key, value, mask, bias, scale, dropout, rows, reach, queries)
        if learning:
            # The scores of a block are computed again on the way back instead of being kept.
            mixed.append(checkpoint(_block_of_queries, *arguments, use_reentrant=False, preserve_rng_state=dropout > 0))
        else:
            mixed.append(_block_of_queries(*arguments))
    return torch.cat(mixed, dim=2)


def _block_of_queries(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    bias: Tensor | DistanceBias | None,
    scale: float,
    dropout: float,
    rows: tuple[int, int],
    reach: tuple[int, int],
    queries: int,
) -> Tensor:
    """One block of queries against the keys in reach, block by block: the largest score, the sum, the mix so far."""
    batch, heads, count, dim = query.shape
    shared, keys = key.shape[1], key.shape[2]
    group = heads // shared if shared else 1
    kind = query.dtype
    # The queries of the heads that share a key head stand below one another, so that no key is copied.
    stacked = (query * scale).reshape(batch, shared, group * count, dim)

    largest = stacked.new_full((batch, heads, count, 1), -math.inf, dtype=_working(kind))
    total = torch.zeros_like(largest)
    mixed = largest.new_zeros(batch, heads, count, value.shape[3])
    for start in range(reach[0], reach[1], KEYS):
        columns = (start, min(start + KEYS, reach[1]))
        width = columns[1] - columns[0]
        scores = (stacked @ key[:, :, columns[0] : columns[1]].mT).reshape(batch, heads, count, width)
        scores = scores.to(largest.dtype)
        if bias is not None:
            scores = scores + bias_tensor(bias, queries, keys, rows, columns)
        allowed = mask.tensor(queries, keys, query.device, rows, columns)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -math.inf)
        # Which score is subtracted does not change the result, so no gradient goes through it.
        highest = torch.maximum(largest, scores.detach().amax(dim=-1, keepdim=True))
        safe = highest.masked_fill(highest == -math.inf, 0)
        decay = (largest - safe).exp()
        weights = (scores - safe).exp()
        total = total * decay + weights.sum(dim=-1, keepdim=True)
        weights = drop(weights, dropout).to(kind).reshape(batch, shared, group * count, width)
        part = (weights @ value[:, :, columns[0] : columns[1]]).reshape(batch, heads, count, -1)
        mixed = mixed * decay + part
        largest = highest
    return (mixed / total.masked_fill(total == 0, 1)).to(kind)


def _working(kind: torch.dtype) -> torch.dtype:
    return torch.float32 if kind in (torch.float16, torch.bfloat16) else kind


def _is_trained(bias: Tensor | DistanceBias | None) -> bool:
    values = bias.values if isinstance(bias, DistanceBias) else bias
    return values is not None and values.requires_grad
