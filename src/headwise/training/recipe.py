"""Recipes: what a run is made of, as frozen dataclasses. docs/training.md describes them field by field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Task = Literal["language-model", "summarize", "translate", "masked-words"]
PAIRS: tuple[Task, ...] = ("summarize", "translate")
MATRICES = ("query", "key", "value", "output", "up", "gate", "down")


def _from(default: Any, low: float, high: float = 1e15) -> Any:
    """A number that must lie between these."""
    return field(default=default, metadata={"low": low, "high": high})


def _share(default: float) -> Any:
    return _from(default, 0.0, 0.999)


@dataclass(frozen=True)
class AdapterRecipe:
    """Low-rank adapters (Hu et al. 2022): the checkpoint stands still, and W + scale·B·A is learned."""

    rank: int = _from(16, 1, 4096)
    scale: float = _from(2.0, 1e-6, 1e6)
    on: tuple[str, ...] = MATRICES


@dataclass(frozen=True)
class ModelRecipe:
    """Where the model begins: a preset or the task's own shape, or a checkpoint."""

    preset: str | None = None
    checkpoint: str | None = None
    layers: int | None = _from(None, 1, 2048)
    dim: int | None = _from(None, 1, 1 << 20)
    heads: int | None = _from(None, 1, 1 << 16)
    hidden: int | None = _from(None, 1, 1 << 22)
    dropout: float | None = _share(None)  # type: ignore[arg-type]
    context: int | None = _from(None, 2, 1 << 22)
    adapters: AdapterRecipe | None = None


@dataclass(frozen=True)
class TokenizerRecipe:
    """Which tokens there are: a byte-level BPE trained on the data, or the checkpoint's."""

    vocabulary: int | None = _from(None, 261, 1 << 24)


@dataclass(frozen=True)
class DataRecipe:
    """Which rows are read, how long they may be, and which of them are kept from training."""

    source: str | int = "source"
    target: str | int = "target"
    text: str | int = "text"
    made: Literal["reverse"] | None = None
    rows: int = _from(20000, 10, 100_000_000)
    shortest: int = _from(2, 1, 1000)
    longest: int = _from(12, 1, 1000)
    longest_source: int = _from(256, 1, 1 << 22)
    longest_target: int = _from(128, 1, 1 << 22)
    length: int = _from(256, 2, 1 << 22)
    separator: str = "<sep>"
    prefix: str = ""
    masked: float = _from(0.15, 0.001, 0.999)
    validation: float = _share(0.01)
    test: float = _share(0.0)


@dataclass(frozen=True)
class BatchRecipe:
    """How many tokens one step learns from, and in how many parts they are computed."""

    tokens: int = _from(4096, 1, 1 << 30)
    accumulate: int = _from(1, 1, 1 << 20)


@dataclass(frozen=True)
class OptimiserRecipe:
    """AdamW (Loshchilov and Hutter 2019) and its schedule."""

    learning_rate: float = _from(5e-4, 1e-12, 100.0)
    schedule: Literal["cosine", "inverse-sqrt", "constant"] = "cosine"
    warmup: int = _from(100, 0)
    final: float = _from(0.1, 0.0, 1.0)
    weight_decay: float = _from(0.01, 0.0, 10.0)
    beta1: float = _share(0.9)
    beta2: float = _from(0.98, 0.0, 0.999999)
    epsilon: float = _from(1e-8, 1e-20, 1.0)
    clip: float = _from(1.0, 0.0)
    label_smoothing: float = _share(0.0)


@dataclass(frozen=True)
class RunRecipe:
    """How long it lasts, and how often it looks around."""

    steps: int = _from(0, 0)
    epochs: int = _from(0, 0)
    evaluate_every: int = _from(500, 1)
    checkpoint_every: int = _from(500, 1)
    log_every: int = _from(10, 1)
    evaluate_rows: int = _from(1000, 1)
    patience: int = _from(0, 0)
    samples: int = _from(4, 0, 1000)


@dataclass(frozen=True)
class Recipe:
    """A whole training run."""

    task: Task
    seed: int = _from(1, 0, 1 << 62)
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    sharded: bool = False
    model: ModelRecipe = field(default_factory=ModelRecipe)
    tokenizer: TokenizerRecipe = field(default_factory=TokenizerRecipe)
    data: DataRecipe = field(default_factory=DataRecipe)
    batch: BatchRecipe = field(default_factory=BatchRecipe)
    optimiser: OptimiserRecipe = field(default_factory=OptimiserRecipe)
    run: RunRecipe = field(default_factory=RunRecipe)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns that this task reads, by what they are to it."""
        if self.task in PAIRS:
            return {"source": self.data.source, "target": self.data.target}
        return {"text": self.data.text}

    @property
    def packed(self) -> bool:
        """Whether several texts stand in one row: a decoder keeps them apart by their numbers."""
        return self.task in ("language-model", "summarize")
