"""Checkpoints: a directory that opens as a model, and beside it all that the run needs to go on as if never stopped."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headwise.checkpoints.save import save, write_json
from headwise.errors import CheckpointError
from headwise.training.adapters import merged
from headwise.training.distributed import Processes, like, whole
from headwise.transformer.model import build

MOMENTS = ("exp_avg", "exp_avg_sq", "step")
TRAINING = "training"
"""The folder of a checkpoint that only the run itself reads."""


@dataclass
class Position:
    """Where a run stands."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch that were learned from."""
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    without_gain: int = 0
    """Evaluations since the best one."""
    history: list[float] = field(default_factory=list[float])


def save_checkpoint(
    directory: Path, model: Any, optimiser: torch.optim.Optimizer, position: Position, processes: Processes
) -> None:
    """Write a checkpoint in the place of the one that is there: under another name first, and then renamed."""
    tensors = {f"weight.{name}": whole(tensor.detach()) for name, tensor in _learning(model)}
    weights = {name.removeprefix("weight."): tensor for name, tensor in tensors.items()} if _sharded(model) else None
    for name, parameter in _learning(model):
        for moment in MOMENTS:
            if moment in (state := optimiser.state.get(parameter, {})):
                tensors[f"{moment}.{name}"] = whole(state[moment])
    for kind, state in random_states(processes).items():
        for rank, one in enumerate(processes.gather(state)):
            tensors[f"random.{kind}.{rank}"] = one
    if processes.first:
        with replacing(directory) as part:
            save_model(part, model, weights)
            (part / TRAINING).mkdir()
            _write(part / TRAINING / "state.safetensors", tensors)
            write_json(part / TRAINING / "state.json", asdict(position) | {"processes": processes.count})
    processes.wait()


def save_best(directory: Path, model: Any, processes: Processes) -> None:
    """The model alone."""
    weights = {name: whole(tensor.detach()) for name, tensor in _learning(model)} if _sharded(model) else None
    if processes.first:
        with replacing(directory) as part:
            save_model(part, model, weights)
    processes.wait()


def save_model(directory: Path, model: Any, weights: Mapping[str, Tensor] | None = None) -> None:
    """The model as everything else opens it, adapters merged; `weights`: where it holds only shares of them."""
    if weights is None:
        with merged(model):
            save(model, directory)
        return
    full = build(model.config)
    with torch.no_grad():
        for name, parameter in full.named_parameters():
            parameter.copy_(weights[name])
    full.tokenizer, full.generation = model.tokenizer, model.generation
    save(full, directory)


def load_checkpoint(directory: Path, model: Any, optimiser: torch.optim.Optimizer, processes: Processes) -> Position:
    """Go on where the checkpoint stands."""
    where = directory / TRAINING
    try:
        fields = json.loads((where / "state.json").read_text(encoding="utf-8"))
        tensors = load_file(where / "state.safetensors")
        if fields.pop("processes") != processes.count:
            raise CheckpointError(where, "processes", "the run was begun with another number of them")
        position = Position(**fields)
        with torch.no_grad():
            for name, parameter in _learning(model):
                parameter.copy_(like(tensors[f"weight.{name}"], parameter))
                moments = {moment: tensors.get(f"{moment}.{name}") for moment in MOMENTS}
                optimiser.state[parameter] = {
                    moment: like(value.clone(), parameter) if value.ndim else value.to(parameter.device)
                    for moment, value in moments.items()
                    if value is not None
                }
        for kind in random_states(processes):
            _set_random(kind, tensors[f"random.{kind}.{processes.rank}"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(where, "state", f"cannot be read: {' '.join(str(error).split())[:160]}") from error
    return position


def random_states(processes: Processes) -> dict[str, Tensor]:
    """The generators that dropout draws from."""
    states = {"cpu": torch.get_rng_state()}
    if processes.device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _set_random(kind: str, state: Tensor) -> None:
    if kind == "cpu":
        torch.set_rng_state(state)
    else:
        torch.cuda.set_rng_state(state)


@contextmanager
def replacing(directory: Path) -> Generator[Path]:
    """A new directory under a temporary name, which takes the old one's place when all of it is on the disk."""
    part, old = _names(directory)
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        yield part
        for path in part.rglob("*"):
            _to_disk(path)
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):
            directory.rename(old)
        part.rename(directory)
        _to_disk(directory.parent)
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}; the one before it stands"
        raise CheckpointError(directory, "checkpoint", problem) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def recover(directory: Path) -> None:
    """After a kill between two renames: the older checkpoint is the good one."""
    part, old = _names(directory)
    if not directory.exists() and old.exists():
        old.rename(directory)
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _names(directory: Path) -> tuple[Path, Path]:
    return directory.with_name(f".{directory.name}.part"), directory.with_name(f".{directory.name}.old")


def _to_disk(path: Path) -> None:
    """Wait until it would survive the machine."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    try:
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise CheckpointError(path, "file", f"cannot be written: {str(error)[:160]}") from error


def _learning(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, one) for name, one in model.named_parameters() if one.requires_grad)


def _sharded(model: nn.Module) -> bool:
    return any(hasattr(parameter, "full_tensor") for parameter in model.parameters())
