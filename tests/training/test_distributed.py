"""Two processes on one machine learn what one process learns: DDP, and FSDP2 where each holds a share."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_runs import REVERSE, changed, weights

import headwise
from headwise.training.recipe_file import make_recipe, write_recipe

# No dropout: each process draws other numbers. Batches in two parts each, the last of an epoch too small for four.
RECIPE = changed(
    REVERSE,
    model={"dropout": 0.0},
    batch={"tokens": 512, "accumulate": 2},
    run={"steps": 12, "evaluate_every": 6, "checkpoint_every": 6, "log_every": 1},
)


def losses(out: Path) -> list[float]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line.get("loss", line.get("validation_loss")) for line in lines]


def two(recipe: Path, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as a user gives it, on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    return subprocess.run(
        [sys.executable, *launch, f"--master-port={port}", "-m", "headwise", "train", recipe, "--out", out, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run on one process."""
    out = tmp_path_factory.mktemp("runs") / "alone"
    headwise.train(RECIPE, out=out, quiet=True)
    return out


@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_two_processes_learn_what_one_learns(tmp_path: Path, alone: Path, sharded: bool) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(write_recipe(make_recipe({**RECIPE, "sharded": sharded})))
    done = two(recipe, tmp_path / "two")
    assert done.returncode == 0, done.stderr
    assert losses(tmp_path / "two") == pytest.approx(losses(alone), abs=2e-5)
    one, both = weights(alone / "last"), weights(tmp_path / "two" / "last")
    assert one.keys() == both.keys()
    # A key's bias adds the same to every score of a row, so its gradient is rounding alone, which AdamW makes large.
    for name in [name for name in one if not name.endswith("k_proj.bias")]:
        torch.testing.assert_close(both[name], one[name], rtol=0, atol=1e-4)
    # The finished run is not begun again, and its checkpoint is a model like any other.
    assert two(recipe, tmp_path / "two").returncode == 0
    assert isinstance(headwise.load(tmp_path / "two" / "best"), headwise.EncoderDecoder)
