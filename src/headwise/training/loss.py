"""Cross-entropy over a large vocabulary, block by block: the scores of all positions never stand in memory at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

BLOCK = 1 << 25
"""Scores in a block at most: so many are multiplied at once."""
NEAR = 1 << 21
"""Scores whose softmax is taken at once, so that they stay in the processor's cache."""


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
        device = hidden.device.type
        half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        words, given = weight.detach().to(half or weight.dtype), hidden.detach().to(half or hidden.dtype)
        gradients = [
            torch.zeros_like(part, dtype=torch.float32) if needed and part is not None else None
            for part, needed in zip((hidden, weight, bias), ctx.needs_input_grad[:3], strict=True)
        ]
        total = hidden.new_zeros((), dtype=torch.float64)
        size = max(1, min(len(labels), BLOCK // weight.shape[0]))
        # One piece of memory for all blocks: the system gives new ones slowly.
        room = given.new_empty(size, weight.shape[0])
        with torch.autocast(device, enabled=False):
            for first in range(0, len(labels), size):
                place = slice(first, min(first + size, len(labels)))
                scores = torch.mm(given[place], words.T, out=room[: place.stop - first])
                total += _to_gradient(scores, bias, labels[place], smoothing)
                _learn(scores, given[place], words, place, gradients)
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


def _to_gradient(scores: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Tensor:
    """The loss of these positions; the scores become its gradient, softmax minus what is right."""
    words = scores.shape[1]
    near = max(1, min(len(labels), NEAR // words))
    exact, shares = (scores.new_empty(near, words, dtype=torch.float32) for _ in range(2))
    total = scores.new_zeros((), dtype=torch.float64)
    for some, right in zip(scores.split(near), labels.split(near), strict=True):
        at = right.unsqueeze(1)
        plain, share = exact[: len(some)].copy_(some), shares[: len(some)]
        if bias is not None:
            plain += bias
        torch.softmax(plain, 1, out=share)
        # The largest score and its share give the sum of all exponents without another pass over them.
        normal = plain.amax(1) - share.amax(1).log()
        mean = plain.mean(1) if smoothing else 0.0
        total += (normal - (1 - smoothing) * plain.gather(1, at).squeeze(1) - smoothing * mean).double().sum()
        if smoothing:
            share -= smoothing / words
        share.scatter_add_(1, at, share.new_full((len(some), 1), smoothing - 1))
        some.copy_(share)
    return total


def _learn(scores: Tensor, given: Tensor, words: Tensor, place: slice, gradients: list[Tensor | None]) -> None:
    """Add what a block gives to the gradients of hidden, weight and bias."""
    hidden, weight, bias = gradients
    if hidden is not None:
        hidden[place] = scores @ words
    if weight is not None and weight.dtype == scores.dtype:
        weight.addmm_(scores.T, given)
    elif weight is not None:
        weight += scores.T @ given
    if bias is not None:
        bias += scores.sum(0, dtype=torch.float32)
