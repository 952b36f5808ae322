"""The bar at the terminal: step, loss, tokens per second, time left."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """A line that moves on a terminal; elsewhere, a plain line every so often."""

    def __init__(self, steps: int, begun: int, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.steps, self.shown = steps, shown
        self.console = Console(stderr=True, highlight=False)
        self._moving = shown and self.console.is_terminal
        columns: Any = [
            TextColumn("step {task.completed:,}/{task.total:,}"),
            BarColumn(bar_width=None),
            TextColumn("loss {task.fields[loss]} · {task.fields[speed]} tokens/s ·"),
            TimeElapsedColumn(),
            TextColumn("· left"),
            TimeRemainingColumn(),
        ]
        self._progress = Progress(*columns, console=self.console, disable=not self._moving, expand=True)
        self._task = self._progress.add_task("", total=steps, completed=begun, loss="–", speed="–")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def move(self, step: int, loss: float | None = None, speed: float | None = None, left: float | None = None) -> None:
        """One step further; with a loss, that is shown too."""
        if loss is None or speed is None:
            self._progress.update(self._task, completed=step)
            return
        self._progress.update(self._task, completed=step, loss=f"{loss:.3f}", speed=f"{speed:,.0f}")
        if self.shown and not self._moving:
            told = f" · {_time(left)} left" if left is not None else ""
            print(f"step {step:,}/{self.steps:,} · loss {loss:.3f} · {speed:,.0f} tokens/s{told}", file=sys.stderr)

    def tell(self, text: str) -> None:
        """A line above the bar."""
        if self.shown:
            self.console.print(text, markup=False, soft_wrap=True)


def _time(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


def say(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr, flush=True)
