"""What it costs to read n words: the time, and the memory that is held at once."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode  # pyright: ignore[reportPrivateUsage]
from torch.utils._pytree import tree_leaves  # pyright: ignore[reportPrivateUsage]

from headwise.transformer.model import Decoder


@dataclass(frozen=True)
class Reading:
    """One text of so many words, read from the first to the last."""

    tokens: int
    seconds: float
    """Of the processor, the median of several readings."""
    bytes: int
    """Held at once at most, the weights not counted."""


def read_costs(
    model: Decoder, lengths: Sequence[int], seed: int = 0, repeats: int = 3, tick: Callable[[], None] = lambda: None
) -> tuple[Reading, ...]:
    """The costs at each length, without gradients, as when a trained model is used."""
    model = model.eval()
    readings: list[Reading] = []
    for length in lengths:
        ids = torch.randint(0, model.config.vocabulary, (1, length), generator=Generator().manual_seed(seed))
        with torch.no_grad():
            held = peak_bytes(lambda ids=ids: model.hidden(ids), model)
            times = [_seconds(lambda ids=ids: model.hidden(ids)) for _ in range(repeats)]
        readings.append(Reading(length, median(times), held))
        tick()
    return tuple(readings)


def peak_bytes(call: Callable[[], object], model: torch.nn.Module) -> int:
    """The most bytes of tensors alive at once while this runs; scratch within one fused operation is not seen."""
    with _Alive(list(model.parameters())) as alive:
        call()
    return alive.peak


def _seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


class _Alive(TorchDispatchMode):
    """Counts the memory of every tensor that an operation returns, from then until nobody holds it."""

    def __init__(self, apart: list[Tensor]) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._apart = {tensor.untyped_storage().data_ptr() for tensor in apart}
        self._held: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        self.peak = max(self.peak, self.now)
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        place, size = storage.data_ptr(), storage.nbytes()
        if place in self._held or place in self._apart or not size:
            return

        def gone(_: object) -> None:
            self.now -= size
            del self._held[place]

        self.now += size
        self._held[place] = weakref.ref(storage, gone)
