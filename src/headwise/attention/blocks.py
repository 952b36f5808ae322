"""Exact attention by blocks of queries and keys with a running softmax (Milakov and Gimelshein 2018; Dao et al. 2022).

Memory grows with the length and not with its square, forward and backward; keys out of a window's reach are never read.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.utils.checkpoint import checkpoint

from headwise.attention.blocks_gradient import Terms, gradients
from headwise.attention.equation import attention_steps
from headwise.attention.fused import sdpa
from headwise.attention.masks import Mask
from headwise.attention.positions import DistanceBias, bias_tensor

QUERIES = 256
"""Queries in a block."""
KEYS = 1024
"""Keys in a block."""
NEAR = 256
"""Keys in a piece, and queries in a block, when a window keeps most keys out of reach."""


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
    if not query.numel() or not key.shape[2]:
        return attention_steps(query, key, value, mask, bias, scale, dropout).mixed
    graded = torch.is_grad_enabled()
    trained = graded and _is_trained(bias)
    learning = trained or (graded and (query.requires_grad or key.requires_grad or value.requires_grad))
    if mask.window is not None and mask.window <= 4 * KEYS and not dropout and not trained:
        return _within_window(query, key, value, mask, bias, scale)
    if learning and not trained and not dropout and _runs_as_written():
        terms = Terms(mask, bias, scale, (QUERIES, KEYS))
        return cast(Tensor, _WithGradient.apply(query, key, value, terms))
    return _by_blocks(query, key, value, mask, bias, scale, dropout, learning)[0]


class _WithGradient(torch.autograd.Function):
    """Keeps the inputs, the output and one number a row; the way back computes the weights again."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, terms: Terms) -> Tensor:
        mixed, logs = _by_blocks(query, key, value, terms.mask, terms.bias, terms.scale, 0.0, learning=False)
        ctx.save_for_backward(query, key, value, mixed, logs)
        ctx.terms = terms
        return mixed

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *pulled: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        query, key, value, mixed, logs = ctx.saved_tensors
        found = gradients(query, key, value, mixed, logs, pulled[0], ctx.terms)
        return (*(x.to(query.dtype) for x in found), None)


def _runs_as_written() -> bool:
    """Neither compiled nor mapped: there autograd follows the plain operations instead."""
    return not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()  # pyright: ignore


def _by_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    bias: Tensor | DistanceBias | None,
    scale: float,
    dropout: float,
    learning: bool,
) -> tuple[Tensor, Tensor]:
    """The mixed values, and the logarithm of each row's sum; `learning`: blocks are computed again on the way back."""
    queries, keys = query.shape[2], key.shape[2]
    # The tensors are split once: the gradient of a piece is a piece, where that of a slice is as long as the whole.
    pieces = list(zip(key.split(KEYS, dim=2), value.split(KEYS, dim=2), strict=True))
    done: list[tuple[Tensor, Tensor]] = []
    for first, part in zip(range(0, queries, QUERIES), query.split(QUERIES, dim=2), strict=True):
        rows = (first, first + part.shape[2])
        start, stop = mask.reach(*rows, queries, keys)
        first_piece = start // KEYS
        near = pieces[first_piece : -(-stop // KEYS)]
        arguments = (part, near, value.shape[3], mask, bias, scale, dropout, rows, first_piece * KEYS, (queries, keys))
        if learning:
            # The scores of a block are computed again on the way back instead of being kept.
            done.append(checkpoint(_block_of_queries, *arguments, use_reentrant=False, preserve_rng_state=dropout > 0))
        else:
            done.append(_block_of_queries(*arguments))
    mixed, logs = zip(*done, strict=True)
    return torch.cat(mixed, dim=2), torch.cat(logs, dim=2)


def _within_window(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, bias: Tensor | DistanceBias | None, scale: float
) -> Tensor:
    """Each block of queries meets the few keys in reach at once, in torch's fused attention."""
    queries, keys = query.shape[2], key.shape[2]
    key_pieces, value_pieces = key.split(NEAR, dim=2), value.split(NEAR, dim=2)
    mixed: list[Tensor] = []
    for first, part in zip(range(0, queries, NEAR), query.split(NEAR, dim=2), strict=True):
        rows = (first, first + part.shape[2])
        start, stop = mask.reach(*rows, queries, keys)
        near = slice(start // NEAR, max(-(-stop // NEAR), start // NEAR + 1))
        here = torch.cat(key_pieces[near], dim=2)
        columns = (near.start * NEAR, near.start * NEAR + here.shape[2])
        allowed = Mask(allowed=mask.tensor(queries, keys, query.device, rows, columns))
        terms = None if bias is None else bias_tensor(bias, queries, keys, rows, columns)
        mixed.append(sdpa(part, here, torch.cat(value_pieces[near], dim=2), allowed, terms, scale, 0.0))
    return torch.cat(mixed, dim=2)


def _block_of_queries(
    query: Tensor,
    pieces: list[tuple[Tensor, Tensor]],
    width: int,
    mask: Mask,
    bias: Tensor | DistanceBias | None,
    scale: float,
    dropout: float,
    rows: tuple[int, int],
    start: int,
    sizes: tuple[int, int],
) -> tuple[Tensor, Tensor]:
    """One block of queries against the keys in reach, piece by piece: the largest score, the sum, the mix so far."""
    batch, heads, count, dim = query.shape
    kind, exact = query.dtype, _working(query.dtype)
    largest = query.new_full((batch, heads, count, 1), -math.inf, dtype=exact)
    total = torch.zeros_like(largest)
    mixed = largest.new_zeros(batch, heads, count, width)
    for key, value in pieces:
        shared, near = key.shape[1], key.shape[2]
        # The queries of the heads that share a key head stand below one another, so that no key is copied.
        together = (batch, shared, heads // shared * count if shared else 0)
        columns = (start, start + near)
        start += near
        stacked = (query.to(exact) * scale).reshape(*together, dim)
        scores = (stacked @ key.to(exact).mT).reshape(batch, heads, count, near)
        if bias is not None:
            scores = scores + bias_tensor(bias, *sizes, rows, columns)
        allowed = mask.tensor(*sizes, query.device, rows, columns)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -math.inf)
        # Which score is subtracted does not change the result, so no gradient goes through it.
        highest = torch.maximum(largest, scores.detach().amax(dim=-1, keepdim=True))
        safe = highest.masked_fill(highest == -math.inf, 0)
        decay = (largest - safe).exp()
        weights = (scores - safe).exp()
        total = total * decay + weights.sum(dim=-1, keepdim=True)
        weights = drop(weights, dropout).reshape(*together, near)
        mixed = mixed * decay + (weights @ value.to(exact)).reshape(batch, heads, count, width)
        largest = highest
    nothing = total == 0
    logs = (largest + total.log()).masked_fill(nothing, math.inf)
    return (mixed / total.masked_fill(nothing, 1)).to(kind), logs.detach()


def _working(kind: torch.dtype) -> torch.dtype:
    """Half precision is computed in float32, as in the equation."""
    return torch.float32 if kind in (torch.float16, torch.bfloat16) else kind


def _is_trained(bias: Tensor | DistanceBias | None) -> bool:
    values = bias.values if isinstance(bias, DistanceBias) else bias
    return values is not None and values.requires_grad
