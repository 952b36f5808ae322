"""Weights of a GGUF file kept in their 4- and 8-bit blocks: modules that compute with them replace the plain ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headwise.checkpoints.fill import fill_absent, match, parameter, place
from headwise.checkpoints.gguf import GGUFFile
from headwise.checkpoints.tensors import TensorFile
from headwise.errors import UnsupportedError
from headwise.families.names import Names, Rule
from headwise.packed.blocks import KINDS, PackedWeight
from headwise.packed.linear import PackedEmbedding, PackedLinear
from headwise.transformer.model import Model


def is_packed(file: TensorFile) -> bool:
    """Whether a file has blocks that can be computed with as they are."""
    return isinstance(file, GGUFFile) and any(file.kind(name) in KINDS for name in file.names())


def fill_packed(model: Model, file: TensorFile, names: Names) -> None:
    """Give every parameter its tensor; matrices in 4- and 8-bit blocks stay as they are, the others become float32."""
    if not isinstance(file, GGUFFile) or not is_packed(file):
        known = ", ".join(KINDS)
        raise UnsupportedError(f"{file.path}: weights='packed' needs a GGUF file with blocks of kind {known}")
    packed: dict[str, PackedWeight] = {}
    for theirs, rule in match(model, file, names).items():
        if file.kind(theirs) in KINDS and _is_matrix(model, rule):
            packed |= _weights(model, file, theirs, rule)
        else:
            for ours, tensor in zip(rule.parameters, rule.read(file.read(theirs, torch.float32)), strict=True):
                place(model, ours, tensor)
    fill_absent(model, names, torch.float32)
    for ours, weight in packed.items():
        _exchange(model, ours.removesuffix(".weight"), weight)
    if model.config.tied and isinstance(model.embedding, PackedEmbedding):
        _exchange(model, "head.words", model.embedding.packed)


def _is_matrix(model: Model, rule: Rule) -> bool:
    owners = [model.get_submodule(ours.rpartition(".")[0]) for ours in rule.parameters]
    return all(isinstance(owner, nn.Linear | nn.Embedding) for owner in owners)


def _weights(model: Model, file: GGUFFile, theirs: str, rule: Rule) -> dict[str, PackedWeight]:
    """The blocks of each parameter; a rule that moves rows moves rows of blocks just the same."""
    blocks = rule.read(file.blocks(theirs))
    shapes = [tuple(parameter(model, ours).shape) for ours in rule.parameters]
    return {
        ours: PackedWeight.from_blocks(part.contiguous(), file.kind(theirs), (shape[0], shape[1]))
        for ours, part, shape in zip(rule.parameters, blocks, shapes, strict=True)
    }


def _exchange(model: Model, name: str, weight: PackedWeight) -> None:
    """Put the packed module where the plain one stands, with its bias."""
    parent, _, leaf = name.rpartition(".")
    old = model.get_submodule(name)
    bias: Tensor | None = getattr(old, "bias", None)
    new = PackedEmbedding(weight) if isinstance(old, nn.Embedding) else PackedLinear(weight, bias)
    setattr(model.get_submodule(parent), leaf, new)
