"""`headwise.save`: a directory that `headwise.load` and the reference library open."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from headwise.checkpoints.fill import collect
from headwise.checkpoints.safetensors import SINGLE
from headwise.errors import CheckpointError
from headwise.families import is_body, names_of, write_config
from headwise.transformer.model import Model


def save(model: Model, directory: str | Path) -> Path:
    """Write config.json, the weights as safetensors, and the tokenizer where the model has one.

    Each file appears under its name only when it is whole.
    """
    directory = Path(directory)
    fields = write_config(model.config) | {"dtype": str(model.embedding.weight.dtype).removeprefix("torch.")}
    tensors = collect(model, names_of(model.config), is_body(model.config))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        part = directory / f".{SINGLE}.{os.getpid()}.part"
        try:
            save_file(tensors, part, metadata={"format": "pt"})
            part.replace(directory / SINGLE)
        finally:
            part.unlink(missing_ok=True)
        if model.tokenizer is not None:
            model.tokenizer.save(directory)
        if model.generation:
            write_json(directory / "generation_config.json", model.generation)
        write_json(directory / "config.json", fields)
    except OSError as error:
        raise CheckpointError(directory, "file", f"cannot be written: {error.strerror or error}") from error
    return directory


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Write under a temporary name and rename."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
