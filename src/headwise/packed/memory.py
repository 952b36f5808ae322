"""Memory for weights in huge pages, where the system has them: reading 100 MB a token through small ones is slower."""

import mmap
import weakref

import torch
from torch import Tensor

CHUNK = 1 << 25
ALIGNMENT = 64

_open: weakref.ref[mmap.mmap] | None = None
_used = 0


def weight_memory(size: int) -> Tensor:
    """An uninitialised uint8 tensor; small ones share a chunk, which is freed with the last of them."""
    global _open, _used
    if size == 0:
        return torch.empty(0, dtype=torch.uint8)
    chunk = None if _open is None else _open()
    if chunk is None or _used + size > len(chunk):
        chunk = mmap.mmap(-1, max(size, CHUNK), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            chunk.madvise(mmap.MADV_HUGEPAGE)
        _open, _used = weakref.ref(chunk), 0
    tensor = torch.frombuffer(chunk, dtype=torch.uint8, count=size, offset=_used)
    _used += -(-size // ALIGNMENT) * ALIGNMENT
    return tensor
