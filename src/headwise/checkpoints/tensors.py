"""What a file of weights offers: names, shapes, kinds, and tensors that are read without copying the file."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headwise.errors import CheckpointError

if TYPE_CHECKING:
    import torch

MAX_DIMENSIONS = 8
MAX_ELEMENTS = 2**62
# Elements converted at a time: large enough for vector speed, small enough to stay in the processor's cache.
PIECE = 1 << 18
# Elements copied at a time: for more, torch wakes its threads, and on a busy machine waits longer than it copies.
COPIED = 1 << 15

# Bytes of one element, and the name of its type in torch.
PLAIN: Mapping[str, tuple[int, str]] = {
    "F64": (8, "float64"),
    "F32": (4, "float32"),
    "F16": (2, "float16"),
    "BF16": (2, "bfloat16"),
    "F8_E4M3": (1, "float8_e4m3fn"),
    "F8_E5M2": (1, "float8_e5m2"),
    "I64": (8, "int64"),
    "I32": (4, "int32"),
    "I16": (2, "int16"),
    "I8": (1, "int8"),
    "U64": (8, "uint64"),
    "U32": (4, "uint32"),
    "U16": (2, "uint16"),
    "U8": (1, "uint8"),
    "BOOL": (1, "bool"),
}


class TensorFile(Protocol):
    """Weights in a file, by name; shapes in torch's order, rows first."""

    @property
    def path(self) -> Path: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...

    def names(self) -> list[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def kind(self, name: str) -> str: ...

    def read(self, name: str, dtype: torch.dtype | None = None) -> torch.Tensor: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor: its name, kind and shape, and where its bytes lie in the file."""

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    stop: int


class FileBytes:
    """The bytes of a file, mapped: nothing is read before somebody asks for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise CheckpointError(path, "file", "is not a regular file")
                if status.st_size == 0:
                    raise CheckpointError(path, "file", "is empty")
                # Copy-on-write, so that a tensor over these bytes may be written to and the file stays as it is.
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise CheckpointError(path, "file", f"cannot be opened: {error}") from error
        self.size = len(self.map)

    def pieces(self, start: int, stop: int, step: int) -> Iterator[bytearray]:
        """The bytes from start to stop, step at a time, read past the mapping so that they do not stay in memory."""
        with self.path.open("rb", buffering=0) as file:
            file.seek(start)
            while start < stop:
                piece = bytearray(min(step, stop - start))
                if file.readinto(piece) != len(piece):
                    raise CheckpointError(self.path, "file", "became shorter while it was read")
                start += len(piece)
                yield piece


def elements(where: object, name: str, shape: Iterable[int]) -> int:
    """How many elements a shape has, refusing one that no memory could hold."""
    count, guard = 1, 1
    for size in shape:
        guard *= max(size, 1)
        count *= size
        if size < 0 or guard > MAX_ELEMENTS:
            raise CheckpointError(where, name, "has a shape with a negative size or too many elements")
    return count


def check_layout(where: object, entries: Iterable[Entry], first: int, last: int, whole: bool) -> None:
    """Every tensor lies between first and last and no two overlap; with `whole`, no byte is left over."""
    end = first
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.stop)):
        if entry.start < first or entry.stop > last:
            problem = f"its bytes {entry.start}..{entry.stop} lie outside the file's data {first}..{last}"
            raise CheckpointError(where, entry.name, problem + " (is the file complete?)")
        if entry.start < end:
            raise CheckpointError(where, entry.name, f"its bytes {entry.start}..{entry.stop} overlap another tensor's")
        if whole and entry.start > end:
            raise CheckpointError(where, entry.name, f"bytes {end}..{entry.start} before it belong to no tensor")
        end = entry.stop
    if whole and end != last:
        raise CheckpointError(where, "data", f"bytes {end}..{last} belong to no tensor")


def find(where: object, entries: Mapping[str, Entry], name: str) -> Entry:
    """The entry of this name, or an error that says it is missing."""
    entry = entries.get(name)
    if entry is None:
        raise CheckpointError(where, name, "no tensor of this name is in the file")
    return entry


def read_plain(source: FileBytes, entry: Entry, dtype: torch.dtype | None) -> torch.Tensor:
    """A tensor over the file's own bytes, or a copy in another dtype."""
    import torch

    size, type_name = PLAIN[entry.kind]
    own: torch.dtype = getattr(torch, type_name)
    if dtype is not None and dtype != own:
        return convert(source, entry, (size, 1), lambda piece: torch.frombuffer(piece, dtype=own), dtype)
    if entry.start == entry.stop:
        return torch.empty(entry.shape, dtype=own)
    if entry.start % size:  # torch expects aligned elements; a file need not have them
        return torch.frombuffer(bytearray(source.map[entry.start : entry.stop]), dtype=own).view(entry.shape)
    count = (entry.stop - entry.start) // size
    return torch.frombuffer(source.map, dtype=own, count=count, offset=entry.start).view(entry.shape)


def convert(
    source: FileBytes,
    entry: Entry,
    block: tuple[int, int],
    decode: Callable[[bytearray], torch.Tensor],
    dtype: torch.dtype,
) -> torch.Tensor:
    """A new tensor filled piece by piece; `block` is the bytes and the elements of the smallest unit."""
    import torch

    block_bytes, block_elements = block
    result = torch.empty(entry.shape, dtype=dtype)
    flat = result.view(-1)
    done = 0
    for piece in source.pieces(entry.start, entry.stop, max(1, PIECE // block_elements) * block_bytes):
        for values in decode(piece).view(-1).split(COPIED):
            flat[done : done + len(values)] = values
            done += len(values)
    return result
