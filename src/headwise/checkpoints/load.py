"""`headwise.load`: a name, a directory, a file or a hub id becomes a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from headwise.attention.positions import Rotary
from headwise.attention.scaling import RotaryScaling
from headwise.checkpoints.fill import fill
from headwise.checkpoints.gguf import GGUFFile, open_gguf
from headwise.checkpoints.pack import fill_packed, is_packed
from headwise.checkpoints.registry import REGISTRY
from headwise.checkpoints.safetensors import open_safetensors, read_json
from headwise.checkpoints.sources import find
from headwise.checkpoints.tensors import TensorFile
from headwise.checkpoints.tokenizer import Tokenizer, open_tokenizer
from headwise.errors import CheckpointError
from headwise.families import gguf_names_of, names_of, read_config, read_gguf_config
from headwise.families.names import Names
from headwise.transformer.config import ModelConfig
from headwise.transformer.model import Decoder, Encoder, EncoderDecoder, build

DIVISORS = "rope_freqs.weight"
TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model")
PAIR = "source.spm"
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
    model = _open(name_or_path, _kind(dtype, weights), packed=weights == "packed")
    return model.to(device).eval() if device is not None else model.eval()


def load_for_writing(name_or_path: str | Path) -> Encoder | Decoder | EncoderDecoder:
    """The same with the weights in which it writes fastest: packed where the file is quantised, float32 elsewhere."""
    return _open(name_or_path, torch.float32, packed=None).eval()


def _open(name_or_path: str | Path, kind: torch.dtype, packed: bool | None) -> Encoder | Decoder | EncoderDecoder:
    path = find(name_or_path)
    config, file, names = open_checkpoint(path)
    tokenizer, generation = _tokenizer(path, file), _generation(path)
    model = _on_meta(file, config)
    if is_packed(file) if packed is None else packed:
        fill_packed(model, file, names)
    else:
        fill(model, file, names, kind)
    model.tie()
    model.tokenizer, model.generation = tokenizer, generation
    model.source = str(path)
    model.name = name_or_path if isinstance(name_or_path, str) and name_or_path in REGISTRY else None
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
    # Marian's pairs of sentencepiece models are not read, and no library turns them into a file that is.
    if (home / PAIR).exists() and not (home / TOKENIZER_FILES[0]).exists():
        return None
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
    if stack is None or DIVISORS not in file.names():
        return config
    if stack.positions.kind != "rotary" or stack.positions.scaling is not None:
        raise CheckpointError(file.path, DIVISORS, "wanted none beside other positions or another scaling")
    turned = stack.size_of_head // 2
    if file.shape(DIVISORS) != (turned,) or file.kind(DIVISORS) != "F32":
        problem = f"got {list(file.shape(DIVISORS))} of {file.kind(DIVISORS)}, wanted [{turned}] of F32"
        raise CheckpointError(file.path, DIVISORS, problem)
    divisors = file.read(DIVISORS)
    if not bool((divisors > 0.99).all()) or not bool(divisors.isfinite().all()):
        raise CheckpointError(file.path, DIVISORS, "wanted finite numbers from 1 on")
    scaling = _named(stack.positions.base, divisors)
    return replace(config, decoder=replace(stack, positions=replace(stack.positions, scaling=scaling)))


def _named(base: float, divisors: torch.Tensor) -> RotaryScaling:
    """Llama 3's scaling by its own name where these are its divisors, so that it can be saved again."""
    dims = 2 * len(divisors)
    llama3 = RotaryScaling("llama3", round(float(divisors.max()), 3), 8192, low=1.0, high=4.0)
    plain, _ = Rotary(dims, base).frequencies()
    stretched, _ = Rotary(dims, base, scaling=llama3).frequencies()
    if torch.allclose(plain / stretched, divisors, rtol=1e-4):
        return llama3
    return RotaryScaling("divided", 1.0, 8192, divisors=tuple(divisors.tolist()))


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
