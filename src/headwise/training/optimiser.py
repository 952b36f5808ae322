"""AdamW, and the learning rate of every step."""

from __future__ import annotations

import math

import torch
from torch import nn

from headwise.training.recipe import OptimiserRecipe


def make_optimiser(model: nn.Module, recipe: OptimiserRecipe) -> torch.optim.AdamW:
    """AdamW over what learns; matrices decay, norms and biases do not."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in learning if one.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [one for one in learning if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.epsilon,
        fused=True,
    )


def learning_rate(step: int, steps: int, recipe: OptimiserRecipe) -> float:
    """The rate of a step, counted from 1: warmed up in a line, then as the schedule says.

    cosine: down to `final` of it at the last step (Loshchilov and Hutter 2017); inverse-sqrt: √(warmup / step)
    (Vaswani et al. 2017, section 5.3).
    """
    top, warmup = recipe.learning_rate, recipe.warmup
    if step < warmup:
        return top * step / warmup
    if recipe.schedule == "inverse-sqrt":
        return top * math.sqrt(max(warmup, 1) / step)
    if recipe.schedule == "constant":
        return top
    done = (step - warmup) / max(steps - warmup, 1)
    return top * (recipe.final + (1 - recipe.final) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))
