"""GGUF files: metadata as plain values, tensors dequantised piece by piece.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

# The header is read here and not by the gguf package: its reader trusts lengths, and took 1.6 s for SmolLM2's header.

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.checkpoints.tensors import PLAIN, Entry, FileBytes, check_layout, convert, elements, find, read_plain
from headwise.errors import CheckpointError

if TYPE_CHECKING:
    import torch

MAX_DIMENSIONS = 4
STRING, ARRAY, BOOL = 8, 9, 7
# Value types of the format: the letter that struct and array know them by.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", BOOL: "?", 10: "Q", 11: "q", 12: "d"}

# Kind numbers of the format: name, elements in a block, bytes of a block. The package has this table too, but takes
# 0.15 s to import; it dequantises the kinds that are not plain.
KINDS = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}
SIZES = {name: (block_bytes, block_elements) for name, block_elements, block_bytes in KINDS.values()}
QUANTISED = [name for name in SIZES if name not in PLAIN]


class _Header:
    """A cursor over the header that never believes a length before the file has the bytes."""

    def __init__(self, where: Path, data: mmap) -> None:
        self.where, self.data, self.at = where, data, 0

    def fail(self, field: str, problem: str) -> CheckpointError:
        return CheckpointError(self.where, field[:80], problem)

    def number(self, letter: str, field: str) -> Any:
        try:
            (value,) = struct.unpack_from("<" + letter, self.data, self.at)
        except struct.error:
            raise self.fail(field, f"the file ends at byte {len(self.data)}, inside this field") from None
        self.at += struct.calcsize("<" + letter)
        return value

    def need(self, count: int, size: int, field: str) -> None:
        """Refuse a count of things that cannot fit into what is left of the file."""
        if count * size > len(self.data) - self.at:
            raise self.fail(field, f"claims {count} items, more than the file's {len(self.data)} bytes can hold")

    def text(self, field: str) -> str:
        length = self.number("Q", field)
        self.need(length, 1, field)
        self.at += length
        try:
            return self.data[self.at - length : self.at].decode("utf-8")
        except UnicodeDecodeError:
            raise self.fail(field, "is not valid UTF-8") from None

    def texts(self, count: int, field: str) -> list[str]:
        """Many texts; a tight loop, because a vocabulary has hundreds of thousands."""
        self.need(count, 8, field)
        data, at, last, result = self.data, self.at, len(self.data), list[str]()
        unpack = struct.Struct("<Q").unpack_from
        try:
            for _ in range(count):
                (length,) = unpack(data, at)
                at += 8
                if length > last - at:
                    raise self.fail(field, f"a text of {length} bytes runs past the end of the file")
                result.append(data[at : at + length].decode("utf-8"))
                at += length
        except struct.error:
            raise self.fail(field, "the file ends inside this list") from None
        except UnicodeDecodeError:
            raise self.fail(field, f"text {len(result)} is not valid UTF-8") from None
        self.at = at
        return result

    def value(self, field: str) -> Any:
        kind = self.number("I", field)
        if kind == STRING:
            return self.text(field)
        if kind in NUMBERS:
            return self.number(NUMBERS[kind], field)
        if kind != ARRAY:
            raise self.fail(field, f"has the unknown value type {kind}")
        kind, count = self.number("I", field), self.number("Q", field)
        if kind == STRING:
            return self.texts(count, field)
        if kind not in NUMBERS:
            raise self.fail(field, f"is a list of value type {kind}; lists of numbers or texts are read")
        size = struct.calcsize("<" + NUMBERS[kind])
        self.need(count, size, field)
        self.at += count * size
        # An array of the numbers' own width: a list would take eight times the file's bytes.
        return array("B" if kind == BOOL else NUMBERS[kind], self.data[self.at - count * size : self.at])


def _read_metadata(header: _Header, count: int) -> dict[str, Any]:
    header.need(count, 13, "metadata count")
    metadata: dict[str, Any] = {}
    for index in range(count):
        key = header.text(f"metadata key {index}")
        if key in metadata:
            raise header.fail(key, "occurs twice")
        metadata[key] = header.value(key)
    return metadata


def _read_entry(header: _Header, index: int, alignment: int) -> Entry:
    name = header.text(f"tensor name {index}")
    dimensions = header.number("I", name)
    if dimensions > MAX_DIMENSIONS:
        raise header.fail(name, f"has {dimensions} dimensions; the format allows {MAX_DIMENSIONS}")
    shape = tuple(reversed([header.number("Q", name) for _ in range(dimensions)]))
    number, offset = header.number("I", name), header.number("Q", name)
    if number not in KINDS:
        raise header.fail(name, f"kind {number} is not one of {', '.join(SIZES)}")
    kind, block_elements, block_bytes = KINDS[number]
    count = elements(header.where, name, shape)
    if (shape[-1] if shape else 1) % block_elements:
        raise header.fail(name, f"rows of {shape[-1:]} elements are not whole blocks of {block_elements} ({kind})")
    if offset % alignment:
        raise header.fail(name, f"offset {offset} is not a multiple of the alignment {alignment}")
    return Entry(name, kind, shape, offset, offset + count // block_elements * block_bytes)


def _alignment(header: _Header, metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        raise header.fail("general.alignment", "must be a power of two up to 1048576")
    return alignment


class GGUFFile:
    """One GGUF file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = FileBytes(path)
        header = _Header(path, self._bytes.map)
        if self._bytes.map[:4] != b"GGUF":
            raise header.fail("magic", "the file does not begin with GGUF")
        header.at = 4
        version = header.number("I", "version")
        if version not in (2, 3):
            raise header.fail("version", f"{version} is not 2 or 3 (little-endian)")
        tensors, keys = header.number("Q", "tensor count"), header.number("Q", "metadata count")
        self.metadata: Mapping[str, Any] = _read_metadata(header, keys)
        alignment = _alignment(header, self.metadata)
        header.need(tensors, 24, "tensor count")
        relative: dict[str, Entry] = {}
        for index in range(tensors):
            entry = _read_entry(header, index, alignment)
            if entry.name in relative:
                raise header.fail(entry.name, "two tensors have this name")
            relative[entry.name] = entry
        base = -(-header.at // alignment) * alignment
        self._entries = {
            name: Entry(name, entry.kind, entry.shape, base + entry.start, base + entry.stop)
            for name, entry in relative.items()
        }
        check_layout(path, self._entries.values(), base, max(base, self._bytes.size), whole=False)

    def names(self) -> list[str]:
        """All tensors, in the header's order."""
        return list(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes in torch's order, rows first (the file has them turned round)."""
        return find(self.path, self._entries, name).shape

    def kind(self, name: str) -> str:
        """How the elements are stored, such as F32 or Q4_1."""
        return find(self.path, self._entries, name).kind

    def read(self, name: str, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The tensor: over the file's own bytes, or dequantised to dtype (float32 when none is given)."""
        entry = find(self.path, self._entries, name)
        if entry.kind in PLAIN:
            return read_plain(self._bytes, entry, dtype)
        import torch

        decode = _decoder(entry.kind)
        return convert(self._bytes, entry, SIZES[entry.kind], decode, dtype or torch.float32)

    def blocks(self, name: str) -> torch.Tensor:
        """The raw bytes of a quantised tensor, [rows, bytes of a row], over the mapped file."""
        entry = find(self.path, self._entries, name)
        flat = Entry(name, "U8", (entry.stop - entry.start,), entry.start, entry.stop)
        rows = elements(self.path, name, entry.shape[:-1])
        return read_plain(self._bytes, flat, None).view(rows, -1 if rows else 0)


def _decoder(kind: str) -> Any:
    """Bytes of whole blocks to float32 values, by the gguf package."""
    import numpy
    import torch
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    number = GGMLQuantizationType[kind]

    def decode(piece: bytearray) -> torch.Tensor:
        # One long row: the package works on 16 rows at a time, which is slow for short ones.
        row = numpy.frombuffer(piece, dtype=numpy.uint8).reshape(1, -1)
        with numpy.errstate(all="ignore"):
            return torch.from_numpy(dequantize(row, number))

    return decode


def open_gguf(path: str | Path) -> GGUFFile:
    """Open a GGUF file and check its header."""
    return GGUFFile(Path(path))
