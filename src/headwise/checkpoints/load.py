"""`headwise.load`: a name, a directory, a file or a hub id becomes a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from headwise.attention.scaling import RotaryScaling
from headwise.checkpoints.fill import fill
from headwise.checkpoints.gguf import GGUFFile, open_gguf
from headwise.checkpoints.pack import fill_packed, is_packed
from headwise.checkpoints.safetensors import open_safetensors, read_json
from headwise.checkpoints.sources import find
from headwise.checkpoints.tensors import TensorFile
from headwise.checkpoints.tokenizer import Tokenizer, open_tokenizer
from headwise.errors import CheckpointError
from headwise.families import gguf_names_of, names_of, read_config, read_gguf_config
from headwise.families.names import Names
from headwise.transformer.config import ModelConfig
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder, build

TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model", "source.spm")
Weights = Literal["float32", "bfloat16", "float16", "packed"]


def load(
    name_or_path: str | Path,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    weights: Weights | None = None,
) -> Encoder | Decoder | EncoderDecoder:
    """The model of a registered name ("minilm"), a directory, a .gguf file or a hub id ("org/name"), ready to run.

    Weights become float32, or `dtype`; `weights="packed"` keeps a GGUF file's 4- and 8-bit blocks as they are.
    """
    model = _open(find(name_or_path), _kind(dtype, weights), packed=weights == "packed")
    return model.to(device).eval() if device is not None else model.eval()


def load_for_writing(name_or_path: str | Path) -> Encoder | Decoder | EncoderDecoder:
    """The same with the weights in which it writes fastest: packed where the file is quantised, float32 elsewhere."""
    return _open(find(name_or_path), torch.float32, packed=None).eval()


def _open(path: Path, kind: torch.dtype, packed: bool | None) -> Encoder | Decoder | EncoderDecoder:
    config, file, names = open_checkpoint(path)
    model = _on_meta(file, config)
    if is_packed(file) if packed is None else packed:
        fill_packed(model, file, names)
    else:
        fill(model, file, names, kind)
    model.tie()
    model.tokenizer = _tokenizer(path, file)
    model.generation = _generation(path)
    model.source = str(path)
    return model


def open_checkpoint(path: Path) -> tuple[ModelConfig, TensorFile, Names]:
    """The configuration, the open file of weights and the table between them; no weight is read."""
    if path.suffix == ".gguf":
        file = open_gguf(path)
        config = read_gguf_config(file.metadata, path, {name: file.shape(name) for name in file.names()})
        config = _with_divisors(config, file)
        return config, file, gguf_names_of(config)
    home = path if path.is_dir() else path.parent
    tensors = open_safetensors(path)
    raw = read_json(home / "config.json")
    config = read_config(raw, home / "config.json", tensors.names())
    return config, tensors, names_of(config)


def _tokenizer(path: Path, file: TensorFile) -> Tokenizer | None:
    """The tokenizer that came with the weights; None where none did."""
    if isinstance(file, GGUFFile):
        return open_tokenizer(file) if "tokenizer.ggml.model" in file.metadata else None
    home = path if path.is_dir() else path.parent
    return open_tokenizer(home) if any((home / name).exists() for name in TOKENIZER_FILES) else None


def _kind(dtype: torch.dtype | None, weights: Weights | None) -> torch.dtype:
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if weights is not None and weights not in (*kinds, "packed"):
        raise ValueError(f"weights: got {weights!r}, wanted packed, float32, bfloat16 or float16")
    named = kinds.get(weights or "")
    if dtype is not None and weights is not None and dtype != named:
        raise ValueError(f"dtype: got {dtype} beside weights={weights!r}, wanted one of the two")
    kind = dtype or named or torch.float32
    if not kind.is_floating_point:
        raise ValueError(f"dtype: got {kind}, wanted a floating-point one")
    return kind


def _with_divisors(config: ModelConfig, file: GGUFFile) -> ModelConfig:
    """Llama 3's stretched angles stand in a tensor of their own."""
    stack = config.decoder
    if stack is None or "rope_freqs.weight" not in file.names():
        return config
    turned = (stack.positions.dims or stack.size_of_head) // 2
    divisors = file.read("rope_freqs.weight", torch.float32)
    if divisors.shape != (turned,) or not bool((divisors >= 1).all()):
        raise CheckpointError(file.path, "rope_freqs.weight", f"wanted {turned} numbers from 1 on")
    scaling = RotaryScaling("divided", 1.0, config.context, divisors=tuple(divisors.tolist()))
    return replace(config, decoder=replace(stack, positions=replace(stack.positions, scaling=scaling)))


def _on_meta(file: TensorFile, config: ModelConfig) -> Encoder | Decoder | EncoderDecoder:
    """The model without memory for its weights; a file that cannot hold so many layers is refused before."""
    layers = sum(stack.layers for stack in config.stacks.values())
    if layers * 4 > len(file.names()):
        problem = f"the configuration has {layers} layers, and the file only {len(file.names())} tensors"
        raise CheckpointError(file.path, "layers", problem)
    with torch.device("meta"):
        return build(config)


def _generation(path: Path) -> Mapping[str, Any]:
    """The model's own settings for writing, from generation_config.json."""
    settings = (path if path.is_dir() else path.parent) / "generation_config.json"
    return read_json(settings) if path.suffix != ".gguf" and settings.exists() else {}
