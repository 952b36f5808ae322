"""Training one model on one task, and how often it is right at each distance."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator
from torch.nn.functional import cross_entropy

from headwise.training.compare_tasks import IGNORED, Batch, Task
from headwise.transformer.config import ModelConfig
from headwise.transformer.model import Decoder


@dataclass(frozen=True)
class Effort:
    """How long and how fast each model learns: the same for all."""

    steps: int
    rate: float
    tokens: int = 1024
    """Of one step, about."""
    asked: int = 2000
    """Answers that are judged at each distance, at least."""


@dataclass(frozen=True)
class Point:
    """What a model does at one distance."""

    distance: int
    """The longest link among these; the shortest is longer than the point before."""
    accuracy: float
    bits: float
    """−log₂ of the share the model gave to what came."""
    answers: int


@dataclass(frozen=True)
class Learned:
    """One model after its training on one task."""

    model: Decoder
    points: tuple[Point, ...]
    losses: tuple[float, ...]
    """In nats, of every step."""
    seconds: float
    """Of the processor: what the training computed, whatever else the machine did."""
    tokens: int


def learn(
    config: ModelConfig,
    task: Task,
    held_out: Task,
    distances: Sequence[int],
    effort: Effort,
    seed: int,
    tick: Callable[[], None] = lambda: None,
) -> Learned:
    """Train from a seed, the short links before the long ones, and judge on examples that were not seen."""
    torch.manual_seed(seed)
    model = Decoder(config)
    generator = Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=effort.rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _share(step, effort.steps))
    losses: list[float] = []
    seconds, tokens = 0.0, 0
    for step in range(effort.steps):
        batch = _draw(task, _distance(distances, step / effort.steps, generator), effort.tokens, generator)
        begun = time.process_time()
        optimiser.zero_grad()
        loss = _loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        seconds += time.process_time() - begun
        tokens += batch.ids.numel()
        losses.append(float(loss.detach()))
        tick()
    points = judge(model.eval(), held_out, distances, effort, seed + 1)
    return Learned(model, points, tuple(losses), seconds, tokens)


def judge(model: Decoder, task: Task, distances: Sequence[int], effort: Effort, seed: int) -> tuple[Point, ...]:
    """How often the model is right, by how long the link is: up to the first distance, up to the second, and so on."""
    generator = Generator().manual_seed(seed)
    edges = torch.tensor(distances)
    right, bits, count = (torch.zeros(len(distances), dtype=torch.float64) for _ in range(3))
    for distance in distances:
        asked = 0
        while asked < effort.asked:
            batch = _draw(task, distance, effort.tokens, generator)
            at = batch.targets != IGNORED
            with torch.inference_mode():
                logits, targets = model(batch.ids)[at], batch.targets[at]
            level = torch.bucketize(batch.distances[at], edges).clamp(max=len(distances) - 1)
            count += torch.bincount(level, minlength=len(distances))
            right += torch.bincount(level, (logits.argmax(-1) == targets).double(), len(distances))
            bits += torch.bincount(level, cross_entropy(logits, targets, reduction="none").double(), len(distances))
            asked += len(targets)
    return tuple(
        Point(distance, float(right[at] / count[at]), float(bits[at] / count[at]) / math.log(2), int(count[at]))
        for at, distance in enumerate(distances)
        if count[at]
    )


def _loss(model: Decoder, batch: Batch) -> torch.Tensor:
    return cross_entropy(model(batch.ids).flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)


def _draw(task: Task, distance: int, tokens: int, generator: Generator) -> Batch:
    """As many rows as make about so many tokens."""
    length = task.draw(distance, 1, Generator().manual_seed(0)).ids.shape[1]
    return task.draw(distance, max(1, tokens // length), generator)


def _distance(distances: Sequence[int], done: float, generator: Generator) -> int:
    """Any of those that are open: one more opens with each part of the first half."""
    open_now = min(len(distances), 1 + int(2 * done * len(distances)))
    return distances[int(torch.randint(0, open_now, (), generator=generator))]


def _share(step: int, steps: int) -> float:
    """A short way up, then down along a cosine."""
    up = max(1, steps // 20)
    if step < up:
        return (step + 1) / up
    return 0.5 * (1 + math.cos(math.pi * (step - up) / max(1, steps - up)))
