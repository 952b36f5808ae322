"""The block of every family: attention or another mixer, perhaps attention to a memory, feed-forward; each added."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from headwise.attention.cache import KeyValueCache
from headwise.attention.masks import Mask
from headwise.attention.multihead import MultiHeadAttention
from headwise.attention.positions import DistanceBias, Rotation
from headwise.transformer.config import StackConfig
from headwise.transformer.feedforward import FeedForward
from headwise.transformer.mixers import make_mixer
from headwise.transformer.norms import make_norm


class Surroundings(NamedTuple):
    """What one block needs beside the tokens' vectors."""

    mask: Mask
    bias: Tensor | DistanceBias | None = None
    rotation: Rotation | None = None
    cache: KeyValueCache | None = None
    memory: Tensor | None = None
    memory_mask: Mask | None = None
    memory_cache: KeyValueCache | None = None


class Block(nn.Module):
    """pre: x + f(norm(x)); post: norm(x + f(x)); for attention, attention to the memory and feed-forward in turn."""

    def __init__(self, config: StackConfig, layer: int) -> None:
        super().__init__()
        self.pre = config.norm_place == "pre"
        self.mixer = make_mixer(config, layer)
        self.attention = _attention(config, layer) if self.mixer is None else None
        self.attention_norm = make_norm(config.norm, config.dim, config.epsilon)
        self.cross = _attention(config, layer) if config.cross else None
        self.cross_norm = make_norm(config.norm, config.dim, config.epsilon) if config.cross else None
        self.feedforward = FeedForward(
            config.dim,
            config.hidden,
            config.activation,
            config.gated,
            config.feedforward_bias,
            config.activation_dropout,
        )
        self.feedforward_norm = make_norm(config.norm, config.dim, config.epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, around: Surroundings) -> Tensor:
        """[batch, token, dim] -> [batch, token, dim]."""
        x = self._add(x, self.attention_norm, lambda y: self._look(y, around))
        if self.cross is not None and self.cross_norm is not None:
            x = self._add(x, self.cross_norm, lambda y: self._look_across(y, around))
        return self._add(x, self.feedforward_norm, self.feedforward)

    def _add(self, x: Tensor, norm: nn.Module, change: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return x + self.dropout(change(norm(x)))
        return norm(x + self.dropout(change(x)))

    def _look(self, x: Tensor, around: Surroundings) -> Tensor:
        if self.attention is None:
            assert self.mixer is not None
            return self.mixer(x, around.mask)
        return self.attention(x, mask=around.mask, bias=around.bias, rotation=around.rotation, cache=around.cache)

    def _look_across(self, x: Tensor, around: Surroundings) -> Tensor:
        assert self.cross is not None
        return self.cross(x, memory=around.memory, mask=around.memory_mask, cache=around.memory_cache)


def _attention(config: StackConfig, layer: int) -> MultiHeadAttention:
    scale = config.size_of_head**-0.5 if config.scale is None else config.scale
    return MultiHeadAttention(
        config.dim,
        config.heads,
        key_value_heads=config.key_value_heads,
        head_dim=config.head_dim,
        bias=config.attention_bias,
        output_bias=config.output_bias,
        dropout=config.attention_dropout,
        scale=scale / (layer + 1) if config.scale_by_layer else scale,
        query_norm=make_norm("rms", config.size_of_head, config.epsilon) if config.query_key_norm else None,
        key_norm=make_norm("rms", config.size_of_head, config.epsilon) if config.query_key_norm else None,
    )
