"""Where records are copied to: large pieces of memory of their own, in pages as large as the system has, used again.

Kept as they are, the tensors of a run would scatter the memory of the model, which had to get new pieces all the time.
Most of what that costs a short run is the system's: it clears and hands out memory by 4 KB at the first touch, 2,700
times for 128 tokens of MiniLM, and by 2 MB where it is asked to. What is never touched takes no memory. Memory that was
used before is had at once: 72 MB for 128 tokens of SmolLM2 took 79 ms to fill when new, and 5 when not.

A long run leaves some 100 MB of freed pieces in the allocator (2,048 tokens of SmolLM2), which stay beside the record.
So at the end of a stack it is asked to give them back, when so much was kept that the time for it does not show.
"""

import ctypes
import mmap
import weakref
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

FIRST, MOST = 1 << 24, 1 << 26
"""Bytes of the first slab, and of the largest; each is twice as large as the one before."""
MUCH = 1 << 28
"""Bytes of one run, from which on what it freed is given back: the next run has to get it again."""
_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)
"""Known to Linux alone."""
_FREE = getattr(mmap, "MADV_FREE", None)
"""What the system may take when it needs memory, and else leaves as it is."""
_SPARE: list[Any] = []
"""Memory of slabs that no trace holds any more, for the next recordings: at most `MUCH` bytes."""


class Slab:
    """Copies tensors one behind another, and begins a new slab when one is full."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)
        self._used = 0
        self._size = FIRST
        self._begun = 0
        """Bytes of all slabs since memory was given back."""

    def settle(self) -> None:
        """Give back what the run has freed, if much was kept since the last time."""
        if self._begun > MUCH:
            self._begun = 0
            _trim()

    def keep(self, x: Tensor) -> Tensor:
        """A copy that nobody else holds."""
        x = x.detach()
        if x.device.type != "cpu":
            return x.clone()
        count = prod(x.shape)
        if x.dtype != self._memory.dtype or self._used + count > self._memory.numel():
            self._begin(max(count * x.element_size(), self._size), x.dtype)
        strides = [1] * x.ndim
        for axis in range(x.ndim - 1, 0, -1):
            strides[axis - 1] = strides[axis] * x.shape[axis]
        piece = self._memory.as_strided(x.shape, strides, self._used)
        self._used += count
        return piece.copy_(x)

    def _begin(self, size: int, dtype: torch.dtype) -> None:
        with torch.inference_mode(False):  # so that runs of every mode may write to it
            self._memory = torch.from_numpy(_memory(size)).view(dtype)
        self._used = 0
        self._begun += size
        self._size = min(2 * self._size, MOST)


def _trim() -> None:
    """Known to the C library of Linux alone."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _memory(size: int) -> Any:
    """So many bytes; when nothing holds them any more, they are kept for the next recording."""
    for memory in [spare for spare in reversed(_SPARE) if len(spare) == size]:
        with suppress(ValueError):  # another thread has taken it
            _SPARE.remove(memory)
            return _watched(memory)
    if _HUGE is None:
        return np.empty(size, dtype=np.uint8)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without such pages
        memory.madvise(_HUGE)
    return _watched(memory)


def _watched(memory: Any) -> Any:
    """The bytes as an array, whose end gives them back."""
    array = np.frombuffer(memory, dtype=np.uint8)
    weakref.finalize(array, _give_back, memory).atexit = False
    return array


def _give_back(memory: Any) -> None:
    if sum(map(len, _SPARE)) + len(memory) <= MUCH:
        if _FREE is not None:
            memory.madvise(_FREE)
        _SPARE.append(memory)
