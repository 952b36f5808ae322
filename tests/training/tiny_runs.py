"""Runs that last seconds: tiny models on rows made on the fly or written here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

REVERSE: dict[str, Any] = {
    "task": "translate",
    "precision": "float32",
    "model": {"layers": 1, "dim": 32, "heads": 2, "dropout": 0.1},
    "tokenizer": {"vocabulary": 261},
    "data": {"made": "reverse", "rows": 300, "validation": 0.1},
    "batch": {"tokens": 512},
    "optimiser": {"learning_rate": 1e-3, "warmup": 4},
    "run": {"steps": 24, "evaluate_every": 8, "checkpoint_every": 4, "log_every": 2, "samples": 1},
}


def changed(base: dict[str, Any], **tables: Any) -> dict[str, Any]:
    """The recipe with some fields of its tables replaced."""
    merged = {name: {**base.get(name, {}), **new} if isinstance(new, dict) else new for name, new in tables.items()}
    return {**base, **merged}


def weights(checkpoint: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint."""
    return load_file(checkpoint / "model.safetensors")


def pairs(path: Path, count: int = 60) -> Path:
    """A file of pairs: a few words, and the last of them."""
    names = ["ada", "bo", "cy", "dot", "eve", "fay", "gus", "hal"]
    with path.open("w") as file:
        for number in range(count):
            words = [names[(number * step + step) % 8] for step in (1, 3, 5, 7)] + [str(number)]
            file.write(json.dumps({"source": " ".join(words), "target": words[1]}) + "\n")
    return path


def command(*words: object, **environment: str) -> subprocess.Popen[str]:
    """`headwise train` in a process of its own, with one thread."""
    return subprocess.Popen(
        [sys.executable, "-m", "headwise", "train", *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
