"""DecodeStep: one more token for each text of a batch, in one call of the C kernel or in few operations of torch."""

import ctypes
from typing import Any

import torch
from torch import Tensor, nn

from headwise.packed import native
from headwise.packed.levels import LEVELS, level
from headwise.packed.plan import CannotPlan, Plan
from headwise.packed.structs import Cache
from headwise.packed.torch_step import TorchStep

READ_AT_ONCE = 256
"""Tokens of a prompt that one call reads: their numbers stay near, and Ctrl-C is heard in between."""


class DecodeStep:
    """read(ids, padding, cache) gives the scores of the next word, and step(ids, cache) those after one token more.

    Both keep the keys and values, as the modules would. Where the C kernel cannot be used, `reason` says why, and the
    modules run; the cache is the same, so both may take turns. The weights are looked up when the step is made: make it
    anew after exchanging a module.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.reason: str | None = None
        """Why the modules run; None where the C kernel does."""
        self._level = level()
        self._turns = Turns(model.decoder.rotary)
        self._plan: Plan | None = None
        self._torch: TorchStep | None = None
        try:
            if self._level == "torch":
                self._torch = TorchStep(model)
            else:
                self._plan = Plan(model)
        except CannotPlan as problem:
            self.reason = str(problem)

    @torch.inference_mode()
    def read(self, ids: Tensor, padding: Tensor | None, cache: Any) -> Tensor:
        """ids [batch, token] into an empty cache; padding as the model takes it -> logits [batch, vocabulary]."""
        filling = _filling(ids, padding) if self._plan is not None and self._plan.packed and not cache.seen else None
        if self._plan is None or filling is None or not self._suits(ids.shape[1]):
            hidden = self.model.hidden(ids, padding, cache)
            # Only the last token's scores are wanted; those of all would be the largest tensor of the run.
            return self.model.head(hidden[:, -1:])[:, -1]
        config = self._plan.config
        like = torch.empty(len(ids), config.shared_heads, 0, config.size_of_head)
        caches = _caches([(layer, *layer.open(ids.shape[1], padding, like)) for layer in cache.layers], like)
        logits = torch.empty(len(ids), self.model.config.vocabulary)
        for row, first in enumerate(filling):
            self._read_row(self._plan, caches, row, ids[row, first:], first, logits[row])
        cache.advance(ids.shape[1], padding)
        return logits

    def _read_row(self, plan: Plan, caches: Any, row: int, ids: Tensor, filling: int, logits: Tensor) -> None:
        x = self._embed(ids, torch.arange(len(ids)))
        cosine, sine = self._turns.all(len(ids))
        for done in range(0, len(ids), READ_AT_ONCE):
            count = min(READ_AT_ONCE, len(ids) - done)
            code = native.kernel().headwise_read(
                ctypes.byref(plan.decoder),
                caches,
                ctypes.c_long(row),
                ctypes.c_long(filling),
                ctypes.c_long(done),
                ctypes.c_long(count),
                ctypes.c_void_p(x[done:].data_ptr()),
                ctypes.c_void_p(cosine[done:].data_ptr()),
                ctypes.c_void_p(sine[done:].data_ptr()),
                ctypes.c_void_p(logits.data_ptr() if done + count == len(ids) else None),
                torch.get_num_threads(),
                LEVELS[self._level],
            )
            native.check_code(code)

    @torch.inference_mode()
    def __call__(self, ids: Tensor, cache: Any) -> Tensor:
        """ids [batch], the tokens that were chosen last -> logits [batch, vocabulary]."""
        suits = self._suits(cache.seen + 1) and _holds_floats(cache, len(ids))
        if suits and self._plan is not None:
            return self._native(self._plan, ids, cache)
        if suits and self._torch is not None and self._torch.suits(len(ids)):
            return self._few(self._torch, ids, cache)
        return self.model(ids[:, None], cache=cache)[:, -1]

    def _suits(self, length: int) -> bool:
        """Whether nobody watches or trains, and the text is not longer than the model allows."""
        if self.model.training:
            return False
        if not all(isinstance(block.attention.kernel, str) for block in self.model.decoder.blocks):
            return False
        positions = self.model.decoder.config.positions
        return positions.kind != "learned" or length <= positions.count  # the modules have the error to say

    def _few(self, step: TorchStep, ids: Tensor, cache: Any) -> Tensor:
        places = torch.tensor([cache.seen]) if cache.kept is None else cache.kept
        cosine, sine, _ = self._turns.at(places, cache.seen)
        logits = step(self._embed(ids, places), torch.atleast_2d(cosine), torch.atleast_2d(sine), cache.layers)
        cache.advance(1, None)
        return logits

    def _native(self, plan: Plan, ids: Tensor, cache: Any) -> Tensor:
        places = torch.tensor([cache.seen]) if cache.kept is None else cache.kept
        x = self._embed(ids, places)
        cosine, sine, stride = self._turns.at(places, cache.seen)
        logits = x.new_empty(len(ids), self.model.config.vocabulary)
        like = torch.empty(len(ids), plan.config.shared_heads, 0, plan.config.size_of_head)
        code = native.kernel().headwise_step(
            ctypes.byref(plan.decoder),
            _caches([(layer, *layer.open(1)) for layer in cache.layers], like),
            ctypes.c_long(len(ids)),
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(cosine.data_ptr()),
            ctypes.c_void_p(sine.data_ptr()),
            ctypes.c_long(stride),
            ctypes.c_void_p(logits.data_ptr()),
            torch.get_num_threads(),
            LEVELS[self._level],
        )
        native.check_code(code)
        cache.advance(1, None)
        return logits

    def _embed(self, ids: Tensor, places: Tensor) -> Tensor:
        """The tokens' vectors as the stack makes them, [batch, dim]."""
        stack = self.model.decoder
        x = self.model.embedding(ids)
        if stack.config.embedding_scale != 1:
            x = x * stack.config.embedding_scale
        if stack.positions is not None:
            x = x + stack.positions(places)
        if stack.embedding_norm is not None:
            x = stack.embedding_norm(x)
        return x.clone() if isinstance(self.model.embedding, nn.Embedding) else x.contiguous()


class Turns:
    """The rotations of all positions so far, looked up instead of computed."""

    def __init__(self, rotary: Any) -> None:
        self._rotary = rotary
        self._cosine = self._sine = torch.empty(0, 0)

    def at(self, places: Tensor, last: int) -> tuple[Tensor, Tensor, int]:
        """cos and sin for each row, and how far apart the rows are; none is beyond `last`."""
        if self._rotary is None:
            return self._cosine, self._sine, 0
        cosine, sine = self.all(last + 1)
        if len(places) == 1:
            place = int(places)
            return cosine[place], sine[place], 0
        return cosine[places], sine[places], cosine.shape[1]

    def all(self, count: int) -> tuple[Tensor, Tensor]:
        """cos and sin for the first `count` positions, and perhaps some more."""
        if self._rotary is not None and count > len(self._cosine):
            rotation = self._rotary(torch.arange(max(256, 2 * count)))
            self._cosine, self._sine = rotation.cosine[0, 0].contiguous(), rotation.sine[0, 0].contiguous()
        return self._cosine, self._sine


def _filling(ids: Tensor, padding: Tensor | None) -> list[int] | None:
    """How much filling stands before each row's tokens; None where it stands elsewhere or a row has no token."""
    if ids.device.type != "cpu" or not ids.shape[1]:
        return None
    if padding is None:
        return [0] * len(ids)
    counts = padding.sum(1)
    first = ids.shape[1] - counts
    behind = torch.arange(ids.shape[1]) >= first[:, None]
    return first.tolist() if bool(counts.all()) and torch.equal(behind, padding) else None


def _holds_floats(cache: Any, batch: int) -> bool:
    """Whether there are float32 keys of a prompt."""
    if not cache.seen:
        return False
    keys = cache.layers[0].keys
    return keys.dtype == torch.float32 and keys.device.type == "cpu" and keys.shape[0] == batch


def _caches(layers: list[tuple[Any, Tensor, Tensor]], like: Tensor) -> Any:
    """Where C finds the keys and values of each layer, after the sizes were compared; the last token is new."""
    caches = (Cache * len(layers))()
    for place, (layer, keys, values) in zip(caches, layers, strict=True):
        for buffer in (keys, values):
            got, wanted = list(buffer.shape), list(like.shape)
            if [*got[:2], got[3]] != [*wanted[:2], wanted[3]] or not buffer.is_contiguous():
                raise ValueError(f"cache: holds {got}, wanted that of this model and batch")
        place.keys, place.values = keys.data_ptr(), values.data_ptr()
        place.capacity, place.length = keys.shape[2], layer.length - 1
        if layer.padding is not None:
            place.allowed = layer.padding.data_ptr()
    return caches
