"""Models that differ only in the mixer and have equally many parameters: the width is solved for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headwise.transformer.config import Mixer, ModelConfig, Positions, StackConfig
from headwise.transformer.model import Decoder

TOLERANCE = 0.05


@dataclass(frozen=True)
class Shape:
    """The model with attention, which the others are made equal to."""

    dim: int = 64
    layers: int = 2
    heads: int = 2
    filter_width: int = 12


def config_of(mixer: Mixer, dim: int, vocabulary: int, shape: Shape) -> ModelConfig:
    """A small language model; attention gets rotary positions, the others know the order from their structure."""
    stack = StackConfig(
        layers=shape.layers,
        dim=dim,
        heads=shape.heads,
        hidden=4 * dim,
        causal=True,
        mixer=mixer,
        filter_width=shape.filter_width,
        positions=Positions(kind="rotary" if mixer == "attention" else "none"),
    )
    return ModelConfig(vocabulary=vocabulary, decoder=stack, initialisation="xavier")


def matched(mixer: Mixer, vocabulary: int, shape: Shape) -> ModelConfig:
    """The configuration with this mixer whose number of parameters is nearest to that with attention."""
    measure = config_of("attention", shape.dim, vocabulary, shape)
    if mixer == "attention":
        return measure
    wanted = parameters(measure)
    low, high = 1, 4 * shape.dim
    while high - low > 1:
        middle = (low + high) // 2
        fits = parameters(config_of(mixer, middle, vocabulary, shape)) <= wanted
        low, high = (middle, high) if fits else (low, middle)
    found = [config_of(mixer, dim, vocabulary, shape) for dim in (low, high)]
    best = min(found, key=lambda config: abs(parameters(config) - wanted))
    if abs(parameters(best) / wanted - 1) > TOLERANCE:
        raise ValueError(f"dim: got {shape.dim}, too small to make {mixer} equal in parameters within {TOLERANCE:.0%}")
    return best


def parameters(config: ModelConfig) -> int:
    """How many numbers are learned."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Decoder(config).parameters())
