"""Tensors of a file to parameters of a model and back, by the family's table: strict both ways."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from headwise.checkpoints.tensors import TensorFile
from headwise.errors import CheckpointError
from headwise.families.names import Names, Rule, Sinusoids

INTEGERS = ("I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")


def match(model: nn.Module, file: TensorFile, names: Names) -> dict[str, Rule]:
    """The rule for each tensor of the file that is used; raises where file and model do not fit."""
    found = file.names()
    present = {names.current(name): name for name in found}
    if len(present) != len(found):
        twice = next(name for name in found if present[names.current(name)] != name)
        raise CheckpointError(file.path, twice[:120], "is there under its older and its newer name")
    prefixed = bool(names.prefix) and any(name.startswith(names.prefix) for name in found)
    rules = names.rules(prefixed)
    for name, theirs in present.items():
        if name not in rules and name not in names.ties and not any(fnmatchcase(name, p) for p in names.ignored):
            raise CheckpointError(file.path, theirs[:120], "unknown tensor: this architecture has none of that name")
    for name, rule in rules.items():
        if name not in present and not rule.optional:
            raise CheckpointError(file.path, name, "missing tensor")
    used = {present[name]: rule for name, rule in rules.items() if name in present}
    for name, rule in used.items():
        wanted = rule.shape([tuple(parameter(model, ours).shape) for ours in rule.parameters])
        if file.shape(name) != wanted:
            raise CheckpointError(file.path, name, f"has the shape {list(file.shape(name))}, wanted {list(wanted)}")
        if file.kind(name) in INTEGERS:
            raise CheckpointError(file.path, name, f"holds {file.kind(name)}, and a weight is no whole number")
    return used


def fill(model: nn.Module, file: TensorFile, names: Names, dtype: torch.dtype) -> None:
    """Give every parameter its tensor; a tensor too many, too few or of another shape is refused before any is read."""
    used = match(model, file, names)
    for theirs, rule in used.items():
        for ours, tensor in zip(rule.parameters, rule.read(file.read(theirs, dtype)), strict=True):
            place(model, ours, tensor)
    fill_absent(model, names, dtype)
    check_repeated(model, file, names, used)


def check_repeated(model: nn.Module, file: TensorFile, names: Names, used: Mapping[str, Rule]) -> None:
    """What a file holds a second time, or what can be computed, must be the same there."""
    for theirs in file.names():
        rule = used.get(theirs)
        if rule is None and theirs in names.ties:
            own = parameter(model, names.ties[theirs])
            if file.shape(theirs) != own.shape or not torch.equal(file.read(theirs, own.dtype), own):
                raise CheckpointError(
                    file.path, theirs, f"differs from {names.ties[theirs]}, which it is said to repeat"
                )
        if rule is not None and not rule.parameters:
            difference = (file.read(theirs, torch.float32) - rule.write([])).abs().max()
            if not difference < 1e-2:  # files in half precision are as far off
                raise CheckpointError(
                    file.path, theirs, "is not the table of sines and cosines that this model computes"
                )


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
        if not isinstance(rule, Sinusoids) or rule.written
    }


def parameter(model: nn.Module, name: str) -> Tensor:
    """The parameter of this dotted name."""
    module, _, leaf = name.rpartition(".")
    return getattr(model.get_submodule(module), leaf)


def place(model: nn.Module, name: str, tensor: Tensor) -> None:
    """Make this tensor the parameter of this dotted name, without a copy."""
    module, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(module), leaf, nn.Parameter(tensor))
