"""Normalisation: the mean and the spread, or the spread only."""

from typing import Literal

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) · weight (Zhang and Sennrich 2019)."""

    def __init__(self, dim: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """The spread is taken over the last axis, in float32 at least."""
        return nn.functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


def make_norm(kind: Literal["layer", "rms"], dim: int, epsilon: float) -> nn.Module:
    """The norm of this kind: "layer" (Ba et al. 2016) or "rms"."""
    return nn.LayerNorm(dim, eps=epsilon) if kind == "layer" else RMSNorm(dim, epsilon)
