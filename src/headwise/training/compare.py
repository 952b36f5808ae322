"""Attention beside convolution and recurrence: equal models, the same tasks, and what each of them costs."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from headwise.errors import HeadwiseError
from headwise.training.compare_cost import Reading, read_costs
from headwise.training.compare_learn import Effort, Learned, learn
from headwise.training.compare_models import Shape, matched, parameters
from headwise.training.compare_paths import path_length, reach
from headwise.training.compare_tasks import Agreement, Copying, Recall, Task
from headwise.training.compare_text import ordinary_text, text_tasks
from headwise.transformer.config import MIXERS, Mixer
from headwise.transformer.model import Decoder

TaskName = Literal["recall", "copying", "agreement", "text", "little text"]
TASKS: tuple[TaskName, ...] = get_args(TaskName)
EFFORTS: dict[TaskName, Effort] = {
    "recall": Effort(steps=800, rate=1e-3),
    "copying": Effort(steps=600, rate=2e-3),
    "agreement": Effort(steps=200, rate=2e-3),
    "text": Effort(steps=500, rate=4e-3),
    "little text": Effort(steps=300, rate=2e-3),
}
"""The same for every mixer."""


@dataclass(frozen=True)
class Wanted:
    """What is compared, and how thoroughly."""

    mixers: Sequence[Mixer] = MIXERS
    tasks: Sequence[TaskName] = TASKS
    distances: Sequence[int] = (8, 16, 32, 64, 128)
    lengths: Sequence[int] = (512, 1024, 2048, 4096, 8192)
    steps: int | None = None
    """Of every training; None: as many as each task is known to need."""
    text: Path | None = None
    shape: Shape = field(default_factory=Shape)
    seed: int = 0

    def check(self) -> None:
        """Raise an error where it asks for what there is not."""
        _check(self)

    def effort(self, task: TaskName) -> Effort:
        """How long this task is trained."""
        return EFFORTS[task] if self.steps is None else replace(EFFORTS[task], steps=self.steps)

    def ticks(self) -> int:
        """How often progress is told."""
        each = sum(self.effort(task).steps for task in self.tasks) + len(self.lengths)
        return each * len(self.mixers)


@dataclass(frozen=True)
class TaskResult:
    """What every mixer learned of one task."""

    name: TaskName
    chance: float
    steps: int
    parameters: Mapping[str, int]
    learned: Mapping[str, Learned]


@dataclass(frozen=True)
class Comparison:
    """All that was measured, by the name of the mixer."""

    wanted: Wanted
    tasks: tuple[TaskResult, ...]
    reading: Mapping[str, tuple[Reading, ...]]
    paths: Mapping[str, Mapping[int, int | None]]
    reach: Mapping[str, int | None]

    def models(self, task: TaskName) -> dict[str, Decoder]:
        """The trained models of one task; none where it was not asked for."""
        return {name: own.model for found in self.tasks if found.name == task for name, own in found.learned.items()}

    def seconds_per_token(self) -> dict[str, float]:
        """How long one token of training took, over all tasks."""
        return {
            mixer: sum(task.learned[mixer].seconds for task in self.tasks)
            / sum(task.learned[mixer].tokens for task in self.tasks)
            for mixer in self.wanted.mixers
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON and for the views."""
        return {
            "about": _about(self.wanted),
            "mixers": list(self.wanted.mixers),
            "reach": dict(self.reach),
            "tasks": [_task_as_dict(task) for task in self.tasks],
            "training_seconds_per_token": self.seconds_per_token(),
            "reading": {mixer: [asdict(point) for point in points] for mixer, points in self.reading.items()},
            "paths": {
                mixer: [{"distance": distance, "mixings": steps} for distance, steps in found.items()]
                for mixer, found in self.paths.items()
            },
        }


def compare(wanted: Wanted, tick: Callable[[str], None] = lambda what: None) -> Comparison:
    """Train every mixer on every task and measure what it costs; `tick` hears what is under way."""
    wanted.check()
    with _one_thread():
        return _compare(wanted, tick)


@contextmanager
def _one_thread() -> Generator[None]:
    """Models so small gain little from a second thread, and lose much by waiting for it where others compute too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _compare(wanted: Wanted, tick: Callable[[str], None]) -> Comparison:
    pairs = _tasks(wanted)
    results = tuple(_compare_on(name, task, held_out, wanted, tick) for name, (task, held_out) in pairs.items())
    configs = {mixer: matched(mixer, 97, wanted.shape) for mixer in wanted.mixers}
    reading: dict[str, tuple[Reading, ...]] = {}
    for mixer, config in configs.items():
        torch.manual_seed(wanted.seed)
        what = f"{mixer}: reading"
        reading[mixer] = read_costs(Decoder(config), wanted.lengths, wanted.seed, tick=lambda what=what: tick(what))
    stacks = {mixer: config.stacks["decoder"] for mixer, config in configs.items()}
    paths = {mixer: {apart: path_length(stack, apart) for apart in _apart(wanted)} for mixer, stack in stacks.items()}
    return Comparison(wanted, results, reading, paths, {mixer: reach(stack) for mixer, stack in stacks.items()})


def _compare_on(name: TaskName, task: Task, held_out: Task, wanted: Wanted, tick: Callable[[str], None]) -> TaskResult:
    effort = wanted.effort(name)
    configs = {mixer: matched(mixer, len(task.words), wanted.shape) for mixer in wanted.mixers}
    learned: dict[str, Learned] = {}
    for mixer, config in configs.items():
        what = f"{mixer}: {name}"
        learned[mixer] = learn(
            config, task, held_out, wanted.distances, effort, wanted.seed, tick=lambda what=what: tick(what)
        )
    counts = {mixer: parameters(config) for mixer, config in configs.items()}
    return TaskResult(name, task.chance, effort.steps, counts, learned)


def _tasks(wanted: Wanted) -> dict[TaskName, tuple[Task, Task]]:
    """What is learned from, and what is judged by."""
    found: dict[TaskName, tuple[Task, Task]] = {}
    made: dict[TaskName, Task] = {"recall": Recall(), "copying": Copying(), "agreement": Agreement()}
    texts = text_tasks(ordinary_text(wanted.text)) if {"text", "little text"} & set(wanted.tasks) else None
    for name in wanted.tasks:
        if name in made:
            found[name] = (made[name], made[name])
        elif texts is not None:
            found[name] = (texts.whole if name == "text" else texts.little, texts.held_out)
    return found


def _apart(wanted: Wanted) -> list[int]:
    """Distances by doubling, from two neighbours to the ends of the longest text that is read."""
    longest = max(*wanted.lengths, *wanted.distances)
    return [1 << power for power in range(longest.bit_length()) if 1 << power <= longest]


def _check(wanted: Wanted) -> None:
    for option, got, known in (("--mixers", wanted.mixers, MIXERS), ("--tasks", wanted.tasks, TASKS)):
        for name in got:
            if name not in known:
                raise HeadwiseError(f"{option}: got {name!r}, wanted one or more of {', '.join(known)}")
        if not got or len(set(got)) < len(got):
            raise HeadwiseError(f"{option}: got {', '.join(got) or 'none'}, wanted each of them once")
    if wanted.text is not None:
        ordinary_text(wanted.text)
    if wanted.steps is not None and wanted.steps < 1:
        raise HeadwiseError(f"--steps: got {wanted.steps}, wanted at least 1")
    if list(wanted.distances) != sorted(set(wanted.distances)) or not wanted.distances or wanted.distances[0] < 4:
        raise HeadwiseError(f"distances: got {list(wanted.distances)}, wanted growing numbers from 4 on")


def _about(wanted: Wanted) -> dict[str, Any]:
    return {
        "headwise": version("headwise"),
        "torch": str(torch.__version__),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "threads": 1,
        "seed": wanted.seed,
        "shape": asdict(wanted.shape),
        "text": "the help topics of Python" if wanted.text is None else wanted.text.name,
    }


def _task_as_dict(task: TaskResult) -> dict[str, Any]:
    return {
        "name": task.name,
        "chance": task.chance,
        "steps": task.steps,
        "parameters": dict(task.parameters),
        "tokens": {mixer: own.tokens for mixer, own in task.learned.items()},
        "training_seconds": {mixer: own.seconds for mixer, own in task.learned.items()},
        "curves": {mixer: [asdict(point) for point in own.points] for mixer, own in task.learned.items()},
        "loss": {mixer: [round(loss, 4) for loss in own.losses] for mixer, own in task.learned.items()},
    }
