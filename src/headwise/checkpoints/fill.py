"""Tensors of a file to parameters of a model and back, by the family's table: strict both ways."""

from __future__ import annotations

from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from headwise.checkpoints.tensors import TensorFile
from headwise.errors import CheckpointError
from headwise.families.names import Names, Rule


def match(model: nn.Module, file: TensorFile, names: Names) -> dict[str, Rule]:
    """The rule for each tensor of the file that is used; raises where file and model do not fit."""
    found = file.names()
    prefixed = bool(names.prefix) and any(name.startswith(names.prefix) for name in found)
    rules = names.rules(prefixed)
    for name in found:
        if name not in rules and name not in names.ties and not any(fnmatchcase(name, p) for p in names.ignored):
            raise CheckpointError(file.path, name[:120], "unknown tensor: this architecture has none of that name")
    present = set(found)
    for name, rule in rules.items():
        if name not in present and not rule.optional:
            raise CheckpointError(file.path, name, "missing tensor")
    used = {name: rule for name, rule in rules.items() if name in present}
    for name, rule in used.items():
        wanted = rule.shape([tuple(parameter(model, ours).shape) for ours in rule.parameters])
        if file.shape(name) != wanted:
            raise CheckpointError(file.path, name, f"has the shape {list(file.shape(name))}, wanted {list(wanted)}")
    return used


def fill(model: nn.Module, file: TensorFile, names: Names, dtype: torch.dtype) -> None:
    """Give every parameter its tensor; a tensor too many, too few or of another shape is refused before any is read."""
    used = match(model, file, names)
    for theirs, rule in used.items():
        for ours, tensor in zip(rule.parameters, rule.read(file.read(theirs, dtype)), strict=True):
            place(model, ours, tensor)
    fill_absent(model, names, dtype)
    for theirs, ours in names.ties.items():
        repeated = theirs in file.names() and theirs not in used
        if repeated and not torch.equal(file.read(theirs, dtype), parameter(model, ours)):
            raise CheckpointError(file.path, theirs, "differs from the embedding that it is said to repeat")


def fill_absent(model: nn.Module, names: Names, dtype: torch.dtype) -> None:
    """Zeros for what a file may leave out."""
    for rule in (*names.base, *names.head):
        for ours in rule.parameters if rule.optional else ():
            if parameter(model, ours).is_meta:
                place(model, ours, torch.zeros(parameter(model, ours).shape, dtype=dtype))


def collect(model: nn.Module, names: Names, body: bool) -> dict[str, Tensor]:
    """The tensors of a file, from the parameters of a model."""
    rules = {rule.theirs: rule for rule in names.base} if body else names.rules(prefixed=True)
    return {
        theirs: rule.write([parameter(model, ours).detach() for ours in rule.parameters]).contiguous()
        for theirs, rule in rules.items()
    }


def parameter(model: nn.Module, name: str) -> Tensor:
    """The parameter of this dotted name."""
    module, _, leaf = name.rpartition(".")
    return getattr(model.get_submodule(module), leaf)


def place(model: nn.Module, name: str, tensor: Tensor) -> None:
    """Make this tensor the parameter of this dotted name, without a copy."""
    module, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(module), leaf, nn.Parameter(tensor))
