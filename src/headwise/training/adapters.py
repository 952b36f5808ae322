"""Low-rank adapters (Hu et al. 2022): W + scale·B·A, where W stands still; merged into W when the model is saved."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from headwise.training.recipe import AdapterRecipe
from headwise.transformer.block import Block


class Adapted(nn.Linear):
    """A linear layer and its adapter; B begins as zeros, so that nothing changes at first."""

    def __init__(self, linear: nn.Linear, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.scale = scale
        self.lower = nn.Parameter(torch.empty(rank, linear.in_features))
        self.raised = nn.Parameter(torch.zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.lower, a=5**0.5)

    def forward(self, input: Tensor) -> Tensor:
        """x·Wᵀ + scale·(x·Aᵀ)·Bᵀ."""
        whole = nn.functional.linear(input, self.weight, self.bias)
        return whole + self.scale * nn.functional.linear(nn.functional.linear(input, self.lower), self.raised)

    def product(self) -> Tensor:
        """What the adapter adds to the matrix."""
        return self.scale * (self.raised @ self.lower)


def add_adapters(model: nn.Module, recipe: AdapterRecipe) -> None:
    """Put an adapter on these matrices of every block; everything else stands still."""
    model.requires_grad_(False)
    for block in [module for module in model.modules() if isinstance(module, Block)]:
        for module in list(block.modules()):
            for name in recipe.on:
                linear = getattr(module, name, None)
                if type(linear) is nn.Linear:
                    setattr(module, name, Adapted(linear, recipe.rank, recipe.scale))


@contextmanager
def merged(model: nn.Module) -> Generator[None]:
    """Adapters added to their matrices for the while; afterwards the matrices are what they were, bit for bit."""
    adapted = [module for module in model.modules() if isinstance(module, Adapted)]
    kept = [module.weight.detach().clone() for module in adapted]
    with torch.no_grad():
        for module in adapted:
            module.weight += module.product()
    try:
        yield
    finally:
        with torch.no_grad():
            for module, weight in zip(adapted, kept, strict=True):
                module.weight.copy_(weight)
