"""The loop: batches in, steps of the optimiser, a look at what is not learned from, checkpoints."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwise.errors import TrainingError
from headwise.training.distributed import Processes, clip
from headwise.training.evaluate import evaluate
from headwise.training.layouts import IGNORED, Batch, Rows
from headwise.training.learner import Learner, choose_kernels
from headwise.training.metrics import Metrics
from headwise.training.model import make_model
from headwise.training.optimiser import learning_rate, make_optimiser
from headwise.training.plan import make_plan, share
from headwise.training.prepare import Prepared
from headwise.training.progress import Bar
from headwise.training.recipe import Recipe
from headwise.training.samples import write_samples
from headwise.training.signals import Stop
from headwise.training.state import Position, load_checkpoint, recover, save_best, save_checkpoint


class Loop:
    """One run: a recipe, its data, and a directory."""

    def __init__(self, recipe: Recipe, prepared: Prepared, out: Path, processes: Processes, shown: bool) -> None:
        self.recipe, self.prepared, self.out, self.processes, self.shown = recipe, prepared, out, processes, shown
        self.model: Any = make_model(recipe, prepared.tokenizer).to(processes.device)
        self.half = in_bfloat16(recipe, processes.device)
        choose_kernels(self.model, self.half)
        self.learner = processes.wrap(Learner(self.model, recipe.optimiser.label_smoothing), recipe.sharded)
        self.optimiser = make_optimiser(self.model, recipe.optimiser)
        # Each process drops other numbers.
        torch.manual_seed(recipe.seed + processes.rank)
        self.lengths = np.sum([tokens.lengths for tokens in prepared.train.values()], axis=0)
        self.steps = recipe.run.steps or recipe.run.epochs * len(make_plan(recipe, prepared.train, 0))
        self.position = self._begin()
        self._saved = self.position.step

    def _begin(self) -> Position:
        if self.processes.first:
            recover(self.out / "last")
            recover(self.out / "best")
        self.processes.wait()
        if not (self.out / "last").exists():
            return Position()
        return load_checkpoint(self.out / "last", self.model, self.optimiser, self.processes)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or the validation loss has stopped falling."""
        patience = self.recipe.run.patience
        return self.position.step >= self.steps or bool(patience and self.position.without_gain >= patience)

    def run(self) -> bool:
        """Go on to the end; False where somebody stopped it before."""
        metrics = Metrics(self.out, self.position.step) if self.processes.first else None
        with Stop() as stop, Bar(self.steps, self.position.step, self.shown and self.processes.first) as bar:
            self._tell_start(bar)
            window = _Window()
            for rows in self._batches():
                begun = time.perf_counter()
                loss, norm, stopped = self._learn(rows, stop.wanted)
                self.position.seconds += time.perf_counter() - begun
                self._note(window, loss, norm, rows, time.perf_counter() - begun, bar, metrics)
                if self.position.step % self.recipe.run.evaluate_every == 0 or self.position.step == self.steps:
                    self._look(bar, metrics)
                if stopped or self.position.step % self.recipe.run.checkpoint_every == 0 or self.finished:
                    self._save()
                if stopped and not self.finished:
                    break
        if metrics is not None:
            metrics.plot()
            metrics.close()
        return self.finished

    def _batches(self) -> Iterator[Rows]:
        """From where the run stands, epoch after epoch."""
        position = self.position
        while not self.finished:
            plan = make_plan(self.recipe, self.prepared.train, position.epoch)
            while position.batch < len(plan) and not self.finished:
                yield plan[position.batch]
            if position.batch >= len(plan):
                position.epoch, position.batch = position.epoch + 1, 0

    def _learn(self, rows: Rows, stop: bool) -> tuple[float, float, bool]:
        """One step; gives the loss per token, the gradient's length and whether some process was asked to stop."""
        position, processes, recipe = self.position, self.processes, self.recipe
        step, parts = position.step + 1, recipe.batch.accumulate
        batches = [self._part(rows, part * processes.count + processes.rank) for part in range(parts)]
        count, stopped = processes.sum(sum(int((one.labels != IGNORED).sum()) for one in batches), float(stop))
        rate = learning_rate(step, self.steps, recipe.optimiser)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        total = torch.zeros((), dtype=torch.float64, device=processes.device)
        for number, batch in enumerate(batches):
            with processes.gathering(self.learner, last=number == parts - 1):
                with self.autocast():
                    loss = self.learner(batch.inputs, batch.labels)
                # Processes average their gradients, and the sum over all of them is wanted.
                (loss * (processes.count / max(count, 1))).backward()
            total += loss.detach()
        norm = clip(self.model.parameters(), recipe.optimiser.clip)
        mean = processes.sum(float(total))[0] / max(count, 1)
        if not math.isfinite(mean) or not math.isfinite(norm):
            raise TrainingError(self._diverged(step, mean, norm))
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        position.step, position.batch = step, position.batch + 1
        position.tokens += self._tokens(rows)
        return mean, norm, stopped > 0

    def _part(self, rows: Rows, part: int) -> Batch:
        """One part of a batch of all processes."""
        own, counts = share(rows, part, self.recipe.batch.accumulate * self.processes.count)
        batch = self.prepared.layout.collate(own, self.prepared.train, self.position.epoch)
        if not counts:
            batch.labels.fill_(IGNORED)
        return batch.to(self.processes.device)

    def autocast(self) -> AbstractContextManager[Any]:
        """Products in bfloat16 where the recipe and the processor allow it."""
        return torch.autocast(self.processes.device.type, dtype=torch.bfloat16, enabled=self.half)

    def _look(self, bar: Bar, metrics: Metrics | None) -> None:
        """How well it does on what it does not learn from; the best so far is kept."""
        with self.autocast():
            found = evaluate(self.learner, self.recipe, self.prepared, self.processes)
        position = self.position
        better = position.best is None or found["validation_loss"] < position.best
        if better:
            position.best, position.best_step, position.without_gain = found["validation_loss"], position.step, 0
            save_best(self.out / "best", self.model, self.processes)
        else:
            position.without_gain += 1
        if metrics is None:
            return
        bar.tell(f"step {position.step:,}: " + " · ".join(f"{name} {value:.4g}" for name, value in found.items()))
        metrics.add(position.step, **found, best=better)
        metrics.plot()
        if not self.recipe.sharded:
            self._write_samples(bar)

    def _write_samples(self, bar: Bar) -> None:
        self.model.eval()
        longest = self.recipe.data.longest_target
        samples = write_samples(self.model, self.prepared, self.recipe.run.samples, longest)
        self.model.train()
        with (self.out / "samples.jsonl").open("a", encoding="utf-8") as file:
            for sample in samples:
                file.write(json.dumps({"step": self.position.step, **sample}, ensure_ascii=False) + "\n")
        for sample in samples[:1]:
            bar.tell(f"  {sample['source'][:160]} → {sample['written'][:160]}")

    def _save(self) -> None:
        if self._saved != self.position.step:
            save_checkpoint(self.out / "last", self.model, self.optimiser, self.position, self.processes)
            self._saved = self.position.step

    def _note(
        self, window: _Window, loss: float, norm: float, rows: Rows, seconds: float, bar: Bar, metrics: Metrics | None
    ) -> None:
        """One step's figures; every so many steps a line of them."""
        window.add(loss, self._tokens(rows), seconds)
        step = self.position.step
        if step % self.recipe.run.log_every and step != self.steps:
            bar.move(step)
            return
        mean, speed = window.mean(), window.speed()
        bar.move(step, mean, speed, (self.steps - step) * window.seconds / len(window.losses))
        if metrics is not None:
            rate = self.optimiser.param_groups[0]["lr"]
            metrics.add(
                step,
                loss=mean,
                learning_rate=rate,
                gradient=norm,
                tokens=self.position.tokens,
                tokens_per_second=round(speed, 1),
                seconds=round(self.position.seconds, 2),
            )
        window.clear()

    def _tokens(self, rows: Rows) -> int:
        return int(self.lengths[[one for row in rows for one in row]].sum())

    def _tell_start(self, bar: Bar) -> None:
        model, rows = self.model, self.prepared.about["rows"]
        whole, learning = (sum(p.numel() for p in model.parameters() if p.requires_grad or every) for every in (1, 0))
        kind = "bfloat16" if self.half else "float32"
        shown = f"{whole:,}" if whole == learning else f"{whole:,} ({learning:,} of them learn)"
        bar.tell(
            f"{shown} parameters · {kind} on {self.processes.device} · {rows['train']:,} rows to learn from, "
            f"{rows['validation']:,} to validate · {int(self.lengths.sum()):,} tokens an epoch"
        )
        about = self.prepared.about
        for field, told in (("cut", "texts were cut to their longest length"), ("divided", "texts were divided")):
            if about[field]:
                bar.tell(f"{about[field]:,} {told}")
        if about["bad"]:
            bar.tell(f"left out {about['bad']:,} bad rows: {'; '.join(about['first_bad'])}")
        if self.position.step:
            bar.tell(f"going on from step {self.position.step:,}")

    def _diverged(self, step: int, loss: float, norm: float) -> str:
        stands = f"the checkpoint of step {self._saved:,} stands in {self.out / 'last'}"
        good = stands if (self.out / "last").exists() else "no checkpoint was written before"
        return f"step {step}: the loss is {loss} and its gradient's length {norm}; {good}; lower the learning rate"


class _Window:
    """The steps since the last line."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.losses: list[float] = []
        self.tokens, self.seconds = 0, 0.0

    def add(self, loss: float, tokens: int, seconds: float) -> None:
        self.losses.append(loss)
        self.tokens += tokens
        self.seconds += seconds

    def mean(self) -> float:
        return sum(self.losses) / len(self.losses)

    def speed(self) -> float:
        return self.tokens / max(self.seconds, 1e-9)


def in_bfloat16(recipe: Recipe, device: torch.device) -> bool:
    """Whether products are computed in bfloat16: where the recipe says so, or the processor is made for it."""
    if recipe.precision != "auto":
        return recipe.precision == "bfloat16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
