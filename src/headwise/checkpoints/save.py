"""`headwise.save`: a directory that `headwise.load` and the reference library open."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from headwise.checkpoints.fill import collect
from headwise.checkpoints.safetensors import INDEX, SINGLE
from headwise.errors import CheckpointError
from headwise.families import is_body, names_of, settle, write_config
from headwise.transformer.model import Model


def save(model: Model, directory: str | Path) -> Path:
    """Write config.json, the weights as safetensors, and the tokenizer where the model has one.

    Each file appears under its name only when it is whole, the weights before the configuration that makes the
    directory a model. A configuration that no architecture of the reference library computes is refused.
    """
    directory = Path(directory)
    config = settle(model.config)
    tensors = collect(model, names_of(config), is_body(config))
    dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if (directory / INDEX).exists():
            raise CheckpointError(
                directory, INDEX, "holds the weights of another model in pieces; wanted a new directory"
            )
        _write_tensors(directory / SINGLE, tensors)
        if model.tokenizer is not None:
            model.tokenizer.save(directory)
        if model.generation:
            write_json(directory / "generation_config.json", model.generation)
        write_json(directory / "config.json", write_config(config) | {"dtype": dtype})
    except OSError as error:
        raise CheckpointError(directory, "file", f"cannot be written: {error.strerror or error}") from error
    return directory


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write under a temporary name and rename."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        save_file(dict(tensors), part, metadata={"format": "pt"})
        part.replace(path)
    except SafetensorError as error:
        raise CheckpointError(path, "file", f"cannot be written: {str(error)[:200]}") from error
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Write under a temporary name and rename."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
