"""How weights begin, by kind: as the papers of the families say."""

import math

import torch
from torch import nn

from headwise.attention.multihead import MultiHeadAttention
from headwise.attention.positions import LearnedPositions, RelativeBuckets
from headwise.transformer.block import Block
from headwise.transformer.config import ModelConfig


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Fill every weight of a model that has a `config`; norms begin with ones, biases with zeros, cells as torch's."""
    config: ModelConfig = model.config  # pyright: ignore[reportAssignmentType]
    if next(model.parameters()).is_meta:
        return
    fill = {"normal": _normal, "normal_by_depth": _normal_by_depth, "fan_in": _fan_in, "xavier": _xavier}
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]
            nn.init.zeros_(module.bias)
    fill[config.initialisation](model, config)


def _normal(model: nn.Module, config: ModelConfig) -> None:
    """Everything from one bell curve (Devlin et al. 2019; Touvron et al. 2023)."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | LearnedPositions | RelativeBuckets):
            nn.init.normal_(module.weight, std=config.deviation)


def _normal_by_depth(model: nn.Module, config: ModelConfig) -> None:
    """The same, and what is added to the stream is scaled by 1/√(additions) (Radford et al. 2019, section 2.3)."""
    _normal(model, config)
    for block in model.modules():
        if isinstance(block, Block):
            deviation = config.deviation / math.sqrt(2 * config.layers)
            mixer = block.mixer if block.attention is None else block.attention
            assert mixer is not None
            nn.init.normal_(mixer.output.weight, std=deviation)
            nn.init.normal_(block.feedforward.down.weight, std=deviation)


def _fan_in(model: nn.Module, config: ModelConfig) -> None:
    """Scores are not divided by √d, so queries begin that much smaller (Raffel et al. 2020; Mesh TensorFlow)."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=config.deviation * module.in_features**-0.5)
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=config.deviation)
        if isinstance(module, RelativeBuckets):
            nn.init.normal_(module.weight, std=config.deviation * config.dim**-0.5)
    for attention in model.modules():
        if isinstance(attention, MultiHeadAttention):
            small = config.deviation * (attention.dim * attention.head_dim) ** -0.5
            nn.init.normal_(attention.query.weight, std=small)


def _xavier(model: nn.Module, config: ModelConfig) -> None:
    """Glorot and Bengio 2010 for matrices; embeddings of deviation 1/√dim (Vaswani et al. 2017, section 3.4)."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
        if isinstance(module, nn.Embedding | LearnedPositions | RelativeBuckets):
            nn.init.normal_(module.weight, std=config.dim**-0.5)
