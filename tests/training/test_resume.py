"""A run that is killed goes on and ends as if it never was, bit for bit; what goes wrong ends clearly."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tiny_runs import REVERSE, changed, command, pairs, weights

import headwise
from headwise.errors import DataError, RecipeError, TrainingError
from headwise.training.recipe_file import make_recipe, write_recipe


def recipe_file(path: Path, **tables: object) -> Path:
    path.write_text(write_recipe(make_recipe(changed(REVERSE, **tables))))
    return path


def step_of(out: Path) -> int:
    try:
        return json.loads((out / "last" / "training" / "state.json").read_text())["step"]
    except (OSError, ValueError):
        return 0


def figures(out: Path) -> list[tuple[object, ...]]:
    """What metrics.jsonl says of the learning, without how fast it was."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line.get("loss"), line.get("validation_loss")) for line in lines]


def kill_after(process: subprocess.Popen[str], out: Path, step: int) -> None:
    """SIGKILL as soon as a checkpoint of this step is there; the run is then somewhere in the steps after it."""
    while process.poll() is None and step_of(out) < step:
        time.sleep(0.002)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_killed_twice_and_started_again_it_ends_bit_for_bit_equal(tmp_path: Path) -> None:
    recipe = recipe_file(tmp_path / "recipe.toml", run={"steps": 60})
    whole = command(recipe, "--out", tmp_path / "whole")
    out = tmp_path / "killed"
    for step in (4, 20):
        kill_after(command(recipe, "--out", out), out, step)
    last = command(recipe, "--out", out)
    for process, told in ((last, "going on from step"), (whole, "rows to learn from")):
        out_text, err = process.communicate(timeout=120)
        assert process.returncode == 0, out_text + err
        assert told in err
    for name in ("last", "best"):
        one, other = weights(tmp_path / "whole" / name), weights(out / name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    lines = [
        [json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("whole", "killed")
    ]
    plain = [[(line["step"], line.get("loss"), line.get("validation_loss")) for line in run] for run in lines]
    assert plain[0] == plain[1]


def test_a_kill_between_the_two_renames_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    recipe = changed(REVERSE, run={"steps": 8})
    headwise.train(recipe, out=tmp_path / "run", quiet=True)
    wanted = weights(tmp_path / "run" / "last")
    (tmp_path / "run" / "last").rename(tmp_path / "run" / ".last.old")
    (tmp_path / "run" / ".last.part").mkdir()
    assert headwise.train(recipe, out=tmp_path / "run", quiet=True).steps == 8
    found = weights(tmp_path / "run" / "last")
    assert all(torch.equal(wanted[key], found[key]) for key in wanted)
    assert sorted(path.name for path in (tmp_path / "run").glob(".last*")) == []


def test_ctrl_c_ends_between_two_steps_after_a_checkpoint(tmp_path: Path) -> None:
    recipe = recipe_file(tmp_path / "recipe.toml", run={"steps": 100000, "evaluate_every": 100000})
    process = command(recipe, "--out", tmp_path / "run")
    while step_of(tmp_path / "run") < 4 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    told = next(line for line in err.splitlines() if line.startswith("stopped after step"))
    assert step_of(tmp_path / "run") == int(told.split()[3].rstrip(";").replace(",", ""))
    assert "Traceback" not in err + out


def test_a_loss_that_is_no_number_ends_the_run_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    recipe = changed(
        REVERSE,
        optimiser={"learning_rate": 100.0, "warmup": 0, "schedule": "constant", "clip": 0.0, "epsilon": 1e-20},
        run={"steps": 4000, "checkpoint_every": 1, "evaluate_every": 4000},
        model={"layers": 4},
    )
    with pytest.raises(TrainingError, match=r"step \d+: the loss is .* the checkpoint of step \d+ stands in .*/last"):
        headwise.train(recipe, out=tmp_path / "run", quiet=True)
    kept = weights(tmp_path / "run" / "last")
    assert all(bool(tensor.isfinite().all()) for tensor in kept.values())


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from headwise.cli import main
main(sys.argv[2:])
"""


def test_a_disk_that_is_full_ends_the_run_in_one_line(tmp_path: Path) -> None:
    """The system itself refuses to write more, as on a full disk; the checkpoint before it still opens."""
    recipe, out = recipe_file(tmp_path / "recipe.toml"), tmp_path / "run"
    headwise.train(changed(REVERSE, run={"steps": 8}), out=out, quiet=True)
    before = weights(out / "last")
    (out / "recipe.toml").write_text(recipe.read_text())
    size = (out / "last" / "model.safetensors").stat().st_size
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(size // 2), "train", str(recipe), "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("headwise:")]
    assert "cannot be written" in line
    after = weights(out / "last")
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert not list(out.glob(".last*"))
    assert headwise.load(out / "last").config.dim == 32
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_another_recipe_is_refused_by_the_field_that_differs(tmp_path: Path) -> None:
    headwise.train(changed(REVERSE, run={"steps": 2}), out=tmp_path / "run", quiet=True)
    with pytest.raises(
        RecipeError, match=r"recipe.toml: run.steps: the run that is there has 2, not 3; choose another"
    ):
        headwise.train(changed(REVERSE, run={"steps": 3}), out=tmp_path / "run", quiet=True)


def test_other_data_are_refused_where_a_run_has_begun(tmp_path: Path) -> None:
    recipe = {**changed(REVERSE, run={"steps": 2}), "data": {"validation": 0.2}}
    file = pairs(tmp_path / "pairs.jsonl")
    headwise.train(recipe, file, tmp_path / "run", quiet=True)
    before = (tmp_path / "run" / "tokens" / "train.source.ids").read_bytes()
    pairs(file, count=50)
    with pytest.raises(DataError, match="was begun with other data; choose another --out"):
        headwise.train(recipe, file, tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "tokens" / "train.source.ids").read_bytes() == before


def test_two_processes_never_train_in_one_directory(tmp_path: Path) -> None:
    import fcntl

    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TrainingError, match="another process trains in it"):
            headwise.train(REVERSE, out=tmp_path / "run", quiet=True)
