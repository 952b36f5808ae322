"""What a model is, from the headers of its files alone: no weight is read and torch is not imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headwise.checkpoints.gguf import open_gguf
from headwise.checkpoints.safetensors import open_safetensors, read_json
from headwise.checkpoints.tensors import TensorFile, elements
from headwise.families import read_config, read_gguf_config
from headwise.transformer.config import ModelConfig

# Counters and masks that some files hold beside the weights.
_COUNTERS = ("I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")


@dataclass(frozen=True)
class Description:
    """A model's configuration and what its files hold."""

    path: Path
    config: ModelConfig
    parameters: int
    kinds: Mapping[str, int]
    """How many parameters are stored as F32, BF16, Q4_1, ..."""
    size: int
    """Bytes of the files of weights."""
    licence: str | None


def describe(path: Path) -> Description:
    """The model at a path that `sources.find` gave."""
    if path.suffix.lower() == ".gguf":
        file = open_gguf(path)
        shapes = {name: file.shape(name) for name in file.names()}
        config = read_gguf_config(file.metadata, path, shapes)
        licence = file.metadata.get("general.license")
        return _description(path, file, config, [path], licence if isinstance(licence, str) else None)
    home = path if path.is_dir() else path.parent
    tensors = open_safetensors(path)
    config = read_config(read_json(home / "config.json"), home / "config.json", tensors.names())
    files = [tensors.path] if tensors.path.is_file() else list(home.glob("*.safetensors"))
    return _description(path, tensors, config, files, None)


def _description(
    path: Path, file: TensorFile, config: ModelConfig, files: list[Path], licence: str | None
) -> Description:
    kinds: Counter[str] = Counter()
    for name in file.names():
        kind = file.kind(name)
        if kind not in _COUNTERS:
            kinds[kind] += elements(path, name, file.shape(name))
    size = sum(file.stat().st_size for file in files)
    return Description(path, config, kinds.total(), dict(kinds.most_common()), size, licence)
