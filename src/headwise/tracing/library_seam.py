"""The seam of the transformers library: its registry of attention functions, where ours calls the one that was chosen.

A family is recorded if its attention asks the registry, as nearly all do. W_O is found by structure: it is the linear
layer whose input is the very memory that the attention function returned.
"""

import inspect
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from headwise.attention.masks import Mask
from headwise.tracing.library_terms import mask_and_bias
from headwise.tracing.tap import Call, Received, Tap, let_change, mine

_LOCK = threading.RLock()
_OPEN: dict[int, "LibrarySeam"] = {}
"""By id of the model: the seams that are open."""
_USERS: dict[str, int] = {}
"""By registered name: how many models use it now."""
_PREFIX = "headwise_"
_BESIDE = {"softcap": "scores bent by tanh", "s_aux": "a sink beside the keys"}
"""What some families do to the scores beside the equation."""


@contextmanager
def library_tapped(model: nn.Module, tap: Tap) -> "Generator[LibrarySeam]":
    """Let the tap see every attention of this model, and leave nothing behind."""
    with _LOCK:
        seam = _OPEN.get(id(model))
        if seam is None:
            seam = _OPEN[id(model)] = LibrarySeam(model)
        seam.taps.append(tap)
    try:
        yield seam
    finally:
        with _LOCK:
            seam.taps.remove(tap)
            if not seam.taps:
                del _OPEN[id(model)]
                seam.close()


class State(threading.local):
    """What is under way in one thread."""

    def __init__(self) -> None:
        self.stack: str | None = None
        """The stack that runs: encoder or decoder."""
        self.seen = 0
        """How many tokens its cache holds."""
        self.counts: dict[str, int] = {}
        """By mode: how many attentions have run since the stack began."""
        self.entered: dict[int, dict[str, Any]] = {}
        """By id of an attention module: what it was called with."""
        self.pending: tuple[Call, Tensor] | None = None
        """The call whose W_O has not come yet, and what its attention function returned."""
        self.terms: dict[Any, Any] = {}
        """Masks of this run, read once for all layers."""


class LibrarySeam:
    """The taps of one model, its hooks, and the names its configurations had."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.taps: list[Tap] = []
        self.state = State()
        self.modules = {id(module) for module in model.modules()}
        self._closing = ExitStack()
        with ExitStack() as undo:
            self._rename(undo)
            for module in model.modules():
                self._hook(module, undo)
            self._closing = undo.pop_all()

    def close(self) -> None:
        """Undo everything."""
        self._closing.close()

    def begin(self, stack: str, seen: int) -> None:
        """A stack begins to run in this thread."""
        state = self.state
        state.stack, state.seen, state.pending, state.terms = stack, seen, None, {}
        state.counts = {mode: n for mode, n in state.counts.items() if (mode == "encoder") != (stack == "encoder")}

    def end(self) -> None:
        """A stack has run: a call that still waits for its W_O has none."""
        self._flush()
        self.state.stack = None

    def attend(self, base: str, function: Any, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the chosen function as it was asked for; then edits, where there are any."""
        result = function(module, *args, **kwargs)
        self._flush()
        names = ("query", "key", "value", "attention_mask")
        given = dict(zip(names, args, strict=False)) | kwargs
        call = self._call(module, given)
        if call is None:
            return result
        call.kernel = base
        more = [name for name in _BESIDE if kwargs.get(name) is not None]
        call.problem = f"{more[0]} ({_BESIDE[more[0]]}), which is more than the equation shows" if more else None
        mixed: Tensor = result[0]
        call.received = self._received(module, given, mixed.transpose(1, 2), call)
        changed = let_change(call).transpose(1, 2)
        # The same numbers in one piece, so that the linear layer that reads them can be told by their place in memory.
        mixed = (changed if call.replaced or call.cuts else mixed).contiguous()
        self.state.pending = (call, mixed)
        return (mixed, *result[1:])

    def _call(self, module: nn.Module, given: dict[str, Any]) -> Call | None:
        state = self.state
        entered = state.entered.get(id(module), {})
        crossing = any(entered.get(name) is not None for name in ("key_value_states", "encoder_hidden_states"))
        causal = bool(getattr(module, "is_causal", False))
        mode = "cross" if crossing else state.stack or ("decoder" if causal else "encoder")
        layer = state.counts.get(mode, 0)
        state.counts[mode] = layer + 1
        taps = mine(self.taps, mode, layer)
        if not taps:
            return None
        x = next((value for value in entered.values() if isinstance(value, Tensor)), None)
        seen = state.seen if state.stack else max(0, given["key"].shape[2] - given["query"].shape[2])
        seen = 0 if mode == "encoder" else seen
        return Call(mode, layer, module, x if x is not None and x.ndim == 3 else None, seen, not seen, taps=taps)

    def _received(self, module: nn.Module, given: dict[str, Any], mixed: Tensor, call: Call) -> Received:
        query, key, value = given["query"], given["key"], given["value"]
        last = call.first + query.shape[2]
        mask, bias = mask_and_bias(module, given, call.mode, self.state.terms)
        if call.mode != "cross" and key.shape[2] > last:  # a cache with room for tokens to come
            key, value = key[:, :, :last], value[:, :, :last]
            mask = mask if mask.allowed is None else Mask(allowed=mask.allowed[..., :last])
            bias = None if bias is None else bias[..., :last]
        scale = given.get("scaling")
        scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
        return Received(query, key, value, mask, bias, scale, float(given.get("dropout") or 0.0), mixed)

    def _flush(self) -> None:
        """Finish the call that waits, without W_O."""
        pending, self.state.pending = self.state.pending, None
        if pending is not None:
            for tap in pending[0].taps:
                tap.finish(pending[0])

    def _hook(self, module: nn.Module, undo: ExitStack) -> None:
        """Hooks on what may be an attention, and on what may be a W_O."""
        if isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D":
            undo.callback(module.register_forward_hook(self._linear, prepend=True).remove)
        elif "attention" in type(module).__name__.lower():
            undo.callback(module.register_forward_pre_hook(self._enter, with_kwargs=True).remove)
            undo.callback(module.register_forward_hook(self._leave, prepend=True).remove)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names = inspect.signature(module.forward).parameters
        self.state.entered[id(module)] = dict(zip(names, args, strict=False)) | kwargs

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self.state.entered.pop(id(module), None)

    def _linear(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        pending = self.state.pending
        if pending is None or not args:
            return
        call, mixed = pending
        if args[0].data_ptr() == mixed.data_ptr() and args[0].numel() == mixed.numel():
            call.output_layer = module
            call.output = output.reshape(mixed.shape[0], mixed.shape[1], -1)
            self._flush()

    def _rename(self, undo: ExitStack) -> None:
        """Let every configuration of the model ask for our function in place of the one it names."""
        configs = {id(c): c for module in self.model.modules() if (c := getattr(module, "config", None)) is not None}
        for config in configs.values():
            base = getattr(config, "_attn_implementation_internal", None)
            if not isinstance(base, str):
                continue
            if base.startswith(_PREFIX):  # another model with the same configuration is being recorded
                base = base.removeprefix(_PREFIX)
            undo.callback(_registered(base))
            undo.callback(setattr, config, "_attn_implementation_internal", base)
            config._attn_implementation_internal = _PREFIX + base


def _registered(base: str) -> Any:
    """Register our function beside this one, with the same mask; returns what takes it away again."""
    from transformers import AttentionInterface, AttentionMaskInterface

    name = _PREFIX + base

    def attend(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        function = _function(module, base)
        seam = next((seam for seam in list(_OPEN.values()) if id(module) in seam.modules), None)
        if seam is None:
            return function(module, *args, **kwargs)
        return seam.attend(base, function, module, args, kwargs)

    def forget() -> None:
        with _LOCK:
            _USERS[name] -= 1
            if not _USERS[name]:
                del _USERS[name]
                # The library can register a name, and has no way to take it back.
                for interface in (AttentionInterface, AttentionMaskInterface):
                    vars(interface)["_global_mapping"].pop(name, None)

    with _LOCK:
        _USERS[name] = _USERS.get(name, 0) + 1
        AttentionInterface.register(name, attend)
        masks = AttentionMaskInterface()
        if base in masks:
            AttentionMaskInterface.register(name, masks[base])
    return forget


def _function(module: nn.Module, base: str) -> Any:
    """The attention function of this name, as the family's own file would find it."""
    for kind in type(module).__mro__:
        home = sys.modules[kind.__module__]
        registry: Any = getattr(home, "ALL_ATTENTION_FUNCTIONS", None)
        if registry is not None:
            return registry[base] if base != "eager" else home.eager_attention_forward
    raise KeyError(base)
