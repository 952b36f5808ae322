"""Engines: a model that reads its prompts once and then takes one token of each row at a time."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from headwise.packed.step import DecodeStep
from headwise.transformer.model import Decoder, EncoderDecoder, pad

MOST_ROOM = 1024
"""Tokens that a cache makes room for beforehand; beyond it grows."""


class Engine(Protocol):
    """What beams and drafts ask of a model; scores are [row, vocabulary]."""

    def start(self) -> Tensor:
        """Read the prompts; the scores of the first new token."""
        ...

    def step(self, ids: Tensor) -> Tensor:
        """Take the tokens chosen, one of each row; the scores of the next."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was; rows may repeat or be left out."""
        ...


class DecoderEngine:
    """A decoder: prompts of different lengths are filled up on the left, and no token sees the filling."""

    def __init__(self, model: Decoder, prompts: list[list[int]], room: int) -> None:
        self._model = model
        self._prompts = prompts
        self._step = DecodeStep(model)
        self._cache = model.new_cache(max(map(len, prompts)) + min(room, MOST_ROOM))

    @torch.inference_mode()
    def start(self) -> Tensor:
        ids, padding = pad(self._prompts, self._model.config.pad_id or 0, self._model.device, left=True)
        return self._step.read(ids, None if bool(padding.all()) else padding, self._cache)

    def step(self, ids: Tensor) -> Tensor:
        return self._step(ids, self._cache)

    @torch.inference_mode()
    def keep(self, rows: Tensor) -> None:
        self._cache.reorder(rows)


class EncoderDecoderEngine:
    """An encoder-decoder: the sources are read by the encoder, and every target begins with `begin`."""

    def __init__(self, model: EncoderDecoder, sources: list[list[int]], begin: tuple[int, ...], room: int) -> None:
        self._model = model
        self._begin = begin
        ids, padding = pad(sources, model.config.pad_id or 0, model.device)
        self._ids = ids
        self._source_of = torch.arange(len(sources), device=ids.device)
        self._padding = None if bool(padding.all()) else padding
        self._memory: Tensor | None = None
        self._cache = model.new_cache(len(begin) + min(room, MOST_ROOM))

    @torch.inference_mode()
    def start(self) -> Tensor:
        self._memory = self._model.encode(self._ids, self._padding)
        begin = torch.tensor(self._begin, device=self._ids.device).expand(self._ids.shape[0], -1)
        return self._scores(begin)

    @torch.inference_mode()
    def step(self, ids: Tensor) -> Tensor:
        return self._scores(ids[:, None])

    @torch.inference_mode()
    def keep(self, rows: Tensor) -> None:
        before, self._source_of = self._source_of, self._source_of[rows]
        if torch.equal(before, self._source_of):
            # Beams change places within their source: what was read of it stays where it is.
            for layer in self._cache.layers:
                layer.reorder(rows)
            return
        self._cache.reorder(rows)
        self._memory = None if self._memory is None else self._memory.index_select(0, rows)
        self._padding = None if self._padding is None else self._padding.index_select(0, rows)

    def _scores(self, target: Tensor) -> Tensor:
        assert self._memory is not None
        hidden = self._model.hidden(target, self._memory, self._padding, None, self._cache)
        return self._model.head(hidden[:, -1:])[:, -1]
