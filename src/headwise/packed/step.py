"""DecodeStep: one more token for each text of a batch, through the whole decoder in one call of the C kernel."""

import ctypes
from typing import Any

import torch
from torch import Tensor, nn

from headwise.packed import native
from headwise.packed.levels import LEVELS, level
from headwise.packed.plan import CannotPlan, Plan
from headwise.packed.structs import Cache


class DecodeStep:
    """step(ids, cache) gives the scores of the next word and keeps the keys and values, as the modules would.

    Where the C step cannot be used, `reason` says why, and the modules run; the cache is the same, so both may take
    turns. The weights are looked up when the step is made: make it anew after exchanging a module.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.reason: str | None = None
        """Why the modules run; None where the C kernel does."""
        self._level = level()
        self._turns = Turns(model.decoder.rotary)
        self._plan: Plan | None = None
        try:
            if self._level == "torch":
                raise CannotPlan("there is no C kernel")
            self._plan = Plan(model)
        except CannotPlan as problem:
            self.reason = str(problem)

    @torch.inference_mode()
    def __call__(self, ids: Tensor, cache: Any) -> Tensor:
        """ids [batch], the tokens that were chosen last -> logits [batch, vocabulary]."""
        if self._plan is None or not self._suits(ids, cache):
            return self.model(ids[:, None], cache=cache)[:, -1]
        return self._native(self._plan, ids, cache)

    def _suits(self, ids: Tensor, cache: Any) -> bool:
        """Whether nobody watches or trains, and the cache holds the float32 keys of a prompt."""
        if self.model.training or not cache.seen:
            return False
        if not all(isinstance(block.attention.kernel, str) for block in self.model.decoder.blocks):
            return False
        positions = self.model.decoder.config.positions
        if positions.kind == "learned" and cache.seen >= positions.count:
            return False  # the modules have the error to say
        keys = cache.layers[0].keys
        return keys.dtype == torch.float32 and keys.device.type == "cpu" and keys.shape[0] == len(ids)

    def _native(self, plan: Plan, ids: Tensor, cache: Any) -> Tensor:
        places = torch.tensor([cache.seen]) if cache.kept is None else cache.kept
        x = self._embed(ids, places)
        cosine, sine, stride = self._turns.at(places, cache.seen)
        logits = x.new_empty(len(ids), self.model.config.vocabulary)
        code = native.kernel().headwise_step(
            ctypes.byref(plan.decoder),
            _caches(cache.layers, len(ids), plan),
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
        if last >= len(self._cosine):
            rotation = self._rotary(torch.arange(max(256, 2 * last)))
            self._cosine, self._sine = rotation.cosine[0, 0].contiguous(), rotation.sine[0, 0].contiguous()
        if len(places) == 1:
            place = int(places)
            return self._cosine[place], self._sine[place], 0
        return self._cosine[places], self._sine[places], self._cosine.shape[1]


def _caches(layers: list[Any], batch: int, plan: Plan) -> Any:
    """Where C finds the keys and values, after room was made for one more and the sizes were compared."""
    config = plan.config
    wanted = (batch, config.shared_heads, config.size_of_head)
    caches = (Cache * len(layers))()
    for place, layer in zip(caches, layers, strict=True):
        keys, values = layer.open_next()
        for buffer in (keys, values):
            if (buffer.shape[0], buffer.shape[1], buffer.shape[3]) != wanted or not buffer.is_contiguous():
                raise ValueError(f"cache: holds {list(buffer.shape)}, wanted that of this model and batch")
        place.keys, place.values = keys.data_ptr(), values.data_ptr()
        place.capacity, place.length = keys.shape[2], layer.length - 1
        if layer.padding is not None:
            place.allowed = layer.padding.data_ptr()
    return caches
