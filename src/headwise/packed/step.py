"""DecodeStep: one more token for each text of a batch, through the whole decoder in one call of the C kernel."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from headwise.packed import native
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
        self._level = native.level()
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
        keys = cache.layers[0].keys
        return keys.dtype == torch.float32 and keys.device.type == "cpu" and keys.shape[0] == len(ids)

    def _native(self, plan: Plan, ids: Tensor, cache: Any) -> Tensor:
        stack = self.model.decoder
        x = self.model.embedding(ids[:, None])
        places = stack._places(x, None, None, cache)
        x = stack._embed(x, places, None).float().contiguous()
        rotation = stack._rotation(x, places, cache.seen)
        logits = x.new_empty(len(ids), self.model.config.vocabulary)
        cosine = sine = x
        if rotation is not None:
            cosine, sine = rotation.cosine.contiguous(), rotation.sine.contiguous()
        code = native.kernel().headwise_step(
            ctypes.byref(plan.decoder),
            _caches(cache.layers, len(ids), plan),
            ctypes.c_long(len(ids)),
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(cosine.data_ptr()),
            ctypes.c_void_p(sine.data_ptr()),
            ctypes.c_long(0 if cosine.shape[0] == 1 else cosine.shape[-1]),
            ctypes.c_void_p(logits.data_ptr()),
            torch.get_num_threads(),
            native.LEVELS[self._level],
        )
        native.check_code(code)
        cache.advance(1, None)
        return logits


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
