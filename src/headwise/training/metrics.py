"""What is measured on the way: metrics.jsonl, TensorBoard where it is installed, and the plot of the loss."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwise.training.plot import Curve, draw

FILE = "metrics.jsonl"


class Metrics:
    """One JSON object a line; what stands after the checkpoint that a run goes on from comes again, and is dropped."""

    def __init__(self, directory: Path, step: int) -> None:
        self.directory = directory
        self.path = directory / FILE
        kept = [line for line in read_metrics(directory) if line["step"] <= step]
        part = self.path.with_name(f".{FILE}.part")
        part.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        part.replace(self.path)
        self._board = _board(directory)

    def add(self, step: int, **values: Any) -> None:
        """One line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(name, value, step)

    def plot(self) -> None:
        """The loss over the steps, as loss.svg, and as loss.png where matplotlib is installed."""
        lines = read_metrics(self.directory)
        curves = [_curve(lines, "loss", "training"), _curve(lines, "validation_loss", "validation")]
        draw(self.directory / "loss", [curve for curve in curves if curve.points], "step", "loss per token")

    def close(self) -> None:
        """Everything is written."""
        if self._board is not None:
            self._board.close()


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """The lines so far; one that a kill cut off is left out."""
    try:
        text = (directory / FILE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    lines: list[dict[str, Any]] = []
    for line in text.splitlines():
        try:
            fields = json.loads(line)
        except ValueError:
            continue
        if isinstance(fields, dict) and type(fields.get("step")) is int:
            lines.append(fields)
    return lines


def _curve(lines: list[dict[str, Any]], field: str, name: str) -> Curve:
    points = [(float(line["step"]), float(line[field])) for line in lines if _is_number(line, field)]
    return Curve(name, points)


def _is_number(line: Mapping[str, Any], field: str) -> bool:
    return isinstance(line.get(field), int | float)


def _board(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory / "tensorboard"))  # type: ignore[no-untyped-call]
