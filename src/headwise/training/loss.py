"""Cross-entropy over a large vocabulary, block by block: the scores of all positions never stand in memory at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

BLOCK = 1 << 25
"""Scores in a block at most."""


def cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0
) -> Tensor:
    """The sum over positions of -log softmax(hidden·Wᵀ + bias)[label], for hidden [position, dim].

    With smoothing ε the right word's share is 1 - ε and all words share ε (Szegedy et al. 2016). The gradients are
    computed with the scores, so that these are needed once only.
    """
    result: Tensor = _BlockedCrossEntropy.apply(hidden, weight, bias, labels, smoothing)  # type: ignore[assignment]
    return result


class _BlockedCrossEntropy(Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
    ) -> Tensor:
        kind = torch.get_autocast_dtype(hidden.device.type) if torch.is_autocast_enabled(hidden.device.type) else None
        words, given = weight.detach().to(kind or weight.dtype), hidden.detach().to(kind or hidden.dtype)
        wanted = list(ctx.needs_input_grad[:3])
        gradients = [
            torch.zeros_like(part, dtype=torch.float32) if need and part is not None else None
            for part, need in zip((hidden, weight, bias), wanted, strict=True)
        ]
        total = hidden.new_zeros((), dtype=torch.float64)
        size = max(1, BLOCK // weight.shape[0])
        with torch.autocast(hidden.device.type, enabled=False):
            for first in range(0, len(labels), size):
                place = slice(first, first + size)
                scores = given[place] @ words.T
                scores = scores.float() if bias is None else scores.float() + bias
                total += _block(scores, labels[place], smoothing)
                if any(wanted):
                    _learn(scores.to(words.dtype), given[place], words, place, gradients)
        ctx.save_for_backward(*gradients)
        ctx.kinds = hidden.dtype, weight.dtype
        return total.float()

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        kinds = (*ctx.kinds, torch.float32)
        parts = zip((hidden, weight, bias), kinds, strict=True)
        return (*(None if part is None else part.mul_(gradient).to(kind) for part, kind in parts), None, None)


def _block(scores: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The loss of these positions; the scores become its gradient."""
    words = scores.shape[1]
    rows = torch.arange(len(labels), device=labels.device)
    right = scores[rows, labels]
    mean = scores.mean(1) if smoothing else right
    normal = scores.logsumexp(1)
    loss = (normal - (1 - smoothing) * right - smoothing * mean).double().sum()
    scores.sub_(normal.unsqueeze(1)).exp_()
    if smoothing:
        scores.sub_(smoothing / words)
    scores[rows, labels] -= 1 - smoothing
    return loss


def _learn(scores: Tensor, given: Tensor, words: Tensor, place: slice, gradients: list[Tensor | None]) -> None:
    """Add what a block gives to the gradients of hidden, weight and bias."""
    hidden, weight, bias = gradients
    if hidden is not None:
        hidden[place] = scores @ words
    if weight is not None:
        weight += scores.T @ given
    if bias is not None:
        bias += scores.sum(0, dtype=torch.float32)
