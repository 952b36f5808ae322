"""The seam: while a tap is open, an attention's `kernel` is a Seam that calls the same kernel and lets the taps see it.

Several taps may be open at once, from several threads, and close in any order; after the last one the module is as
it was.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn

from headwise.attention.kernels import explain_kernel, find_kernel
from headwise.attention.masks import Mask
from headwise.attention.multihead import MultiHeadAttention
from headwise.attention.positions import DistanceBias
from headwise.errors import HeadwiseError
from headwise.tracing.tap import Call, Received, Tap, let_change, mine

_LOCK = threading.RLock()
_ARGUMENTS = ("x", "memory", "mask", "bias", "rotation", "cache")


class SeamPlace(NamedTuple):
    """Where an attention stands; None for a mode that its first call will tell."""

    mode: str | None
    layer: int
    module: MultiHeadAttention


def places_of(model: nn.Module) -> list[SeamPlace]:
    """The attentions of one of our models, or of any module that is built of MultiHeadAttention."""
    if hasattr(model, "attentions"):
        places = [SeamPlace(*place) for place in model.attentions()]  # type: ignore[operator]
        return [place for place in places if isinstance(place.module, MultiHeadAttention)]  # pyright: ignore[reportUnnecessaryIsInstance]
    found = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    return [SeamPlace(None, layer, module) for layer, module in enumerate(found)]


@contextmanager
def tapped(places: list[SeamPlace], tap: Tap) -> Generator[None]:
    """Let the tap see these attentions, and leave nothing behind."""
    opened: list[Seam] = []
    try:
        for place in places:
            opened.append(_open(place, tap))
        yield
    finally:
        for seam in opened:
            seam.remove(tap)


def _open(place: SeamPlace, tap: Tap) -> "Seam":
    with _LOCK:
        kernel = place.module.kernel
        seam = kernel if isinstance(kernel, Seam) else Seam(place)
        seam.taps.append(tap)
        return seam


class Seam:
    """Stands where the kernel of one attention stood, and calls it."""

    def __init__(self, place: SeamPlace) -> None:
        self.place = place
        self.kernel: str | Callable[..., Tensor] = place.module.kernel
        self.taps: list[Tap] = []
        self.calls: dict[int, Call] = {}
        """By thread: the call that is under way."""
        self.crossed: dict[int, int] = {}
        """By thread: how many queries have looked at this memory before."""
        self.handles = [
            place.module.register_forward_pre_hook(self._begin, with_kwargs=True),
            place.module.register_forward_hook(self._end, prepend=True),
        ]
        _put_kernel(place.module, self)

    def remove(self, tap: Tap) -> None:
        """Close one tap; the last one restores the kernel, unless somebody has put another one there since."""
        with _LOCK:
            self.taps.remove(tap)
            if self.taps:
                return
            for handle in self.handles:
                handle.remove()
            if self.place.module.kernel is self:
                _put_kernel(self.place.module, self.kernel)

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask,
        bias: Tensor | DistanceBias | None,
        scale: float,
        dropout: float,
    ) -> Tensor:
        """The same kernel on the same tensors; then edits, where there are any."""
        mixed = find_kernel(self.kernel)(query, key, value, mask, bias, scale, dropout)
        if threading.get_ident() not in self.calls:
            return mixed
        call = self.calls[threading.get_ident()]
        if self.place.mode is None and call.mode != "cross":
            call.mode = "decoder" if mask.causal else "encoder"
        call.kernel = self._name(query, key, mask, bias)
        call.received = Received(query, key, value, mask, bias, scale, dropout, mixed)
        return let_change(call)

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = dict(zip(_ARGUMENTS, args, strict=False)) | kwargs
        cache, crossing = given.get("cache"), given.get("memory") is not None
        mode = self.place.mode or ("cross" if crossing else "encoder")
        taps = mine(self.taps, mode, self.place.layer)
        if not taps:
            self.calls.pop(threading.get_ident(), None)
            return
        seen = 0 if cache is None else cache.seen
        fresh, first = not seen, self.crossed.get(threading.get_ident(), 0) if crossing and seen else seen
        call = Call(mode, self.place.layer, module, given["x"], first, fresh, taps=taps)
        call.output_layer = self.place.module.output
        self.calls[threading.get_ident()] = call

    def _end(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        call = self.calls.pop(threading.get_ident(), None)
        if call is None or call.received is None:
            return
        if call.mode == "cross":
            self.crossed[threading.get_ident()] = call.last
        call.output = output
        for tap in call.taps:
            tap.finish(call)

    def _name(self, query: Tensor, key: Tensor, mask: Mask, bias: Tensor | DistanceBias | None) -> str:
        if not isinstance(self.kernel, str):
            return getattr(self.kernel, "__name__", type(self.kernel).__name__)
        return f"{explain_kernel(query, key, mask, bias).name} (auto)" if self.kernel == "auto" else self.kernel


def _put_kernel(module: nn.Module, kernel: Any) -> None:
    """Exchange the attribute, also where a kernel is a module of its own."""
    del module.kernel
    module.kernel = kernel


def check_layers(layers: Any, available: set[int]) -> set[int] | None:
    """The layers that are wanted, None for all; an error that says which there are."""
    if layers is None:
        return None
    wanted = set(layers)
    for layer in sorted(wanted):
        if layer not in available:
            raise HeadwiseError(f"layers: got {layer}, this model has the layers {min(available)} to {max(available)}")
    return wanted
