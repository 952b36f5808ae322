"""A stack of equal blocks, the positions that go in, and the mask, bias and rotation that all blocks share."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from headwise.attention.masks import Mask
from headwise.attention.positions import (
    ALiBi,
    DistanceBias,
    LearnedPositions,
    RelativeBuckets,
    Rotary,
    Rotation,
    SinusoidalPositions,
)
from headwise.errors import ContextError
from headwise.transformer.block import Block, Surroundings
from headwise.transformer.cache import ModelCache, token_positions
from headwise.transformer.config import StackConfig
from headwise.transformer.embedding import make_embedding
from headwise.transformer.norms import make_norm


class Stack(nn.Module):
    """Embeddings in, vectors out."""

    def __init__(self, config: StackConfig, token_types: int = 0) -> None:
        super().__init__()
        self.config = config
        self.positions = _added_positions(config)
        self.rotary = _rotary(config)
        self.buckets = _buckets(config)
        self.token_types = make_embedding(token_types, config.dim) if token_types else None
        self.embedding_norm = make_norm(config.norm, config.dim, config.epsilon) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout if config.embedding_dropout is None else config.embedding_dropout)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = make_norm(config.norm, config.dim, config.epsilon) if config.final_norm else None

    def forward(
        self,
        x: Tensor,
        *,
        padding: Tensor | None = None,
        documents: Tensor | None = None,
        token_types: Tensor | None = None,
        cache: ModelCache | None = None,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
    ) -> Tensor:
        """Embeddings [batch, token, dim] to vectors of the same shape; padding: True for tokens, False for filling."""
        check_padding("padding", padding, x)
        check_documents(documents, x, cache)
        places = self._places(x, padding, documents, cache)
        x = self._embed(x, places, token_types)
        seen = 0
        if cache is not None:
            cache.check()
            seen = cache.seen
        around = Surroundings(
            mask=Mask(causal=self.config.causal, padding=padding, documents=documents),
            bias=self._bias(x, seen),
            rotation=self._rotation(x, places, seen, documents),
            memory=memory,
            memory_mask=Mask(padding=memory_padding),
        )
        for layer, block in enumerate(self.blocks):
            x = block(x, self._around(around, layer, cache))
        if cache is not None:
            cache.advance(x.shape[1], padding)
        return x if self.norm is None else self.norm(x)

    def _around(self, around: Surroundings, layer: int, cache: ModelCache | None) -> Surroundings:
        """What this layer sees: its own window and its own caches."""
        window = self.config.window(layer)
        if window is not None:
            around = around._replace(mask=replace(around.mask, window=window))
        if cache is not None:
            cross = cache.cross[layer] if cache.cross else None
            around = around._replace(cache=cache.layers[layer], memory_cache=cross)
        return around

    def _embed(self, x: Tensor, places: Tensor, token_types: Tensor | None) -> Tensor:
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if self.token_types is not None:
            kinds = token_types if token_types is not None else places.new_zeros(1, 1)
            x = x + self.token_types(kinds)
        if self.positions is not None:
            x = x + self.positions(places).to(x.dtype)
        return self.dropout(x if self.embedding_norm is None else self.embedding_norm(x))

    def _places(self, x: Tensor, padding: Tensor | None, documents: Tensor | None, cache: ModelCache | None) -> Tensor:
        """The position of each token, [token] or [batch, token]."""
        seen, kept = (0, None) if cache is None else (cache.seen, cache.kept)
        if documents is not None:
            places = _within_documents(documents)
        else:
            places = token_positions(x.shape[1], padding, x.device, seen, kept)
        count = self.config.positions.count
        # No position is beyond the number of tokens, filling included; the largest is looked up only where that is.
        if self.config.positions.kind == "learned" and seen + x.shape[1] > count:
            longest = int(places.max()) + 1 if places.numel() else 0
            if longest > count:
                raise ContextError(f"the text has {longest} tokens, and the model allows {count}")
        return places

    def _rotation(self, x: Tensor, places: Tensor, seen: int, documents: Tensor | None) -> Rotation | None:
        if self.rotary is None:
            return None
        length: int | Tensor = seen + x.shape[1]
        scaling = self.config.positions.scaling
        if scaling is not None and scaling.kind == "dynamic" and places.ndim == 2:
            # The angles depend on how long the text is; each row, and each text packed in one, has its own length.
            length = places.amax(1, keepdim=True) + 1 if documents is None else _document_lengths(places)
        return self.rotary(places, x.dtype, length)

    def _bias(self, x: Tensor, seen: int) -> DistanceBias | None:
        if isinstance(self.buckets, RelativeBuckets):
            return self.buckets(x.shape[1], seen + x.shape[1])
        if isinstance(self.buckets, ALiBi):
            return self.buckets(x.shape[1], seen + x.shape[1], x.device)
        return None


def check_padding(name: str, padding: Tensor | None, x: Tensor) -> None:
    """Padding is [batch, token], True where there is a token."""
    if padding is None:
        return
    if padding.dtype != torch.bool or padding.shape != x.shape[:2]:
        kind = str(padding.dtype).removeprefix("torch.")
        raise ValueError(f"{name}: got shape {list(padding.shape)} of {kind}, wanted {list(x.shape[:2])} of bool")


def check_documents(documents: Tensor | None, x: Tensor, cache: ModelCache | None) -> None:
    """Documents are [batch, token] integers, and are not continued from a cache."""
    if documents is None:
        return
    if documents.dtype not in (torch.int64, torch.int32) or documents.shape != x.shape[:2]:
        kind = str(documents.dtype).removeprefix("torch.")
        raise ValueError(f"documents: got shape {list(documents.shape)} of {kind}, wanted {list(x.shape[:2])} of int64")
    if cache is not None:
        raise ValueError("documents: got them beside a cache, wanted one of the two")


def _within_documents(documents: Tensor) -> Tensor:
    """Positions that begin anew with each document of a row."""
    indices = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    first = torch.ones_like(documents, dtype=torch.bool)
    first[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return indices - torch.where(first, indices, 0).cummax(1).values


def _document_lengths(places: Tensor) -> Tensor:
    """How many tokens the document of each token has, given the positions within documents."""
    indices = torch.arange(places.shape[1], device=places.device).expand_as(places)
    last = torch.ones_like(places, dtype=torch.bool)
    last[:, :-1] = places[:, 1:] == 0
    ends = torch.where(last, indices, places.shape[1]).flip(1).cummin(1).values.flip(1)
    return places.gather(1, ends) + 1


def _added_positions(config: StackConfig) -> nn.Module | None:
    positions = config.positions
    if positions.kind == "learned":
        return LearnedPositions(positions.count, config.dim, positions.offset)
    if positions.kind == "sinusoidal":
        return SinusoidalPositions(config.dim, positions.base, positions.layout)
    return None


def _rotary(config: StackConfig) -> Rotary | None:
    positions = config.positions
    if positions.kind != "rotary":
        return None
    return Rotary(config.size_of_head, positions.base, positions.dims, positions.scaling)


def _buckets(config: StackConfig) -> nn.Module | None:
    positions = config.positions
    if positions.kind == "buckets":
        return RelativeBuckets(config.heads, positions.buckets, positions.farthest, both_sides=not config.causal)
    return ALiBi(config.heads) if positions.kind == "alibi" else None
