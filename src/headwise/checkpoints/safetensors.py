"""Safetensors files, single or sharded: a checked header, then tensors over the mapped bytes.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.checkpoints.tensors import (
    MAX_DIMENSIONS,
    PLAIN,
    Entry,
    FileBytes,
    TensorFile,
    check_layout,
    elements,
    find,
    read_plain,
)
from headwise.errors import CheckpointError

if TYPE_CHECKING:
    import torch

MAX_HEADER = 100_000_000
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


def parse_json(where: object, field: str, text: bytes, kind: type[CheckpointError] = CheckpointError) -> dict[str, Any]:
    """A JSON object in which no name occurs twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))
            raise kind(where, field, f"the name {twice[:80]!r} occurs twice")
        return result

    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise kind(where, field, f"is not valid JSON: {str(error)[:120]}") from error
    if not isinstance(value, dict):
        raise kind(where, field, "is not a JSON object")
    return value


def read_json(path: Path, kind: type[CheckpointError] = CheckpointError) -> dict[str, Any]:
    """The JSON object in a small file."""
    try:
        if path.stat().st_size > MAX_HEADER:
            raise kind(path, "file", f"is larger than {MAX_HEADER} bytes")
        text = path.read_bytes()
    except OSError as error:
        raise kind(path, "file", f"cannot be read: {error.strerror}") from error
    return parse_json(path, "file", text, kind)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _entry(where: Path, name: str, field: object, first: int) -> Entry:
    if not isinstance(field, dict) or set(field) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(where, name, "must have dtype, shape and data_offsets, and nothing else")
    kind, shape, offsets = field["dtype"], field["shape"], field["data_offsets"]
    if not isinstance(kind, str) or kind not in PLAIN:
        raise CheckpointError(where, name, f"dtype {str(kind)[:40]!r} is not one of {', '.join(PLAIN)}")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise CheckpointError(where, name, "shape must be a list of sizes")
    if len(shape) > MAX_DIMENSIONS:
        raise CheckpointError(where, name, f"has {len(shape)} dimensions; at most {MAX_DIMENSIONS} are read")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise CheckpointError(where, name, "data_offsets must be two positions")
    needed = elements(where, name, shape) * PLAIN[kind][0]
    if offsets[1] - offsets[0] != needed:
        problem = f"shape {shape} of {kind} needs {needed} bytes, data_offsets give {offsets[1] - offsets[0]}"
        raise CheckpointError(where, name, problem)
    return Entry(name, kind, tuple(shape), first + offsets[0], first + offsets[1])


class SafetensorsFile:
    """One safetensors file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = FileBytes(path)
        if self._bytes.size < 8:
            raise CheckpointError(path, "header length", f"the file has only {self._bytes.size} bytes")
        length = int.from_bytes(self._bytes.map[:8], "little")
        if length > min(MAX_HEADER, self._bytes.size - 8):
            raise CheckpointError(path, "header length", f"{length} bytes, but the file has {self._bytes.size}")
        header = parse_json(path, "header", self._bytes.map[8 : 8 + length])
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise CheckpointError(path, "__metadata__", "must map names to text")
        self.metadata: Mapping[str, str] = metadata
        self._entries = {name: _entry(path, name, field, 8 + length) for name, field in header.items()}
        check_layout(path, self._entries.values(), 8 + length, self._bytes.size, whole=True)

    def names(self) -> list[str]:
        """All tensors, in the header's order."""
        return list(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes, rows first."""
        return find(self.path, self._entries, name).shape

    def kind(self, name: str) -> str:
        """How the elements are stored, such as F32 or BF16."""
        return find(self.path, self._entries, name).kind

    def read(self, name: str, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The tensor over the file's own bytes, or a copy in another dtype."""
        return read_plain(self._bytes, find(self.path, self._entries, name), dtype)


class ShardedFile:
    """Several safetensors files and the index that says which holds what."""

    def __init__(self, index: Path) -> None:
        self.path = index.parent
        content = read_json(index)
        places = content.get("weight_map")
        if not isinstance(places, dict) or not places:
            raise CheckpointError(index, "weight_map", "must map the names of tensors to files")
        for name, file in places.items():
            if not isinstance(file, str) or not file.endswith(".safetensors") or set(file) & set("/\\:\0"):
                problem = f"{str(file)[:80]!r} is not the name of a .safetensors file in this directory"
                raise CheckpointError(index, f"weight_map: {name[:80]}", problem)
        shards = {file: SafetensorsFile(self.path / file) for file in sorted(set(places.values()))}
        for file, shard in shards.items():
            for name in shard.names():
                if places.get(name) != file:
                    raise CheckpointError(shard.path, name, f"{INDEX} does not place this tensor here")
        for name, file in places.items():
            find(shards[file].path, shards[file]._entries, name)  # pyright: ignore[reportPrivateUsage]
        self._shard_of = {name: shards[file] for name, file in places.items()}
        about = content.get("metadata", {})
        self.metadata: Mapping[str, Any] = about if isinstance(about, dict) else {}

    def _shard(self, name: str) -> SafetensorsFile:
        if name not in self._shard_of:
            raise CheckpointError(self.path / INDEX, name, "no tensor of this name is in the index")
        return self._shard_of[name]

    def names(self) -> list[str]:
        """All tensors, in the index's order."""
        return list(self._shard_of)

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes, rows first."""
        return self._shard(name).shape(name)

    def kind(self, name: str) -> str:
        """How the elements are stored, such as F32 or BF16."""
        return self._shard(name).kind(name)

    def read(self, name: str, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The tensor over its shard's own bytes, or a copy in another dtype."""
        return self._shard(name).read(name, dtype)


def open_safetensors(path: str | Path) -> TensorFile:
    """Open a .safetensors file, an index, or the directory that holds one of them."""
    path = Path(path)
    if not path.is_dir():
        return ShardedFile(path) if path.name.endswith(".index.json") else SafetensorsFile(path)
    if (path / SINGLE).exists():
        return SafetensorsFile(path / SINGLE)
    if (path / INDEX).exists():
        return ShardedFile(path / INDEX)
    found = sorted(file.name for file in path.glob("*.safetensors"))
    if len(found) != 1:
        what = ", ".join(found[:5]) or "no .safetensors file"
        raise CheckpointError(path, "weights", f"found {what}; expected {SINGLE}, {INDEX} or exactly one file")
    return SafetensorsFile(path / found[0])
