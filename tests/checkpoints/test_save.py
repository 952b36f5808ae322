"""Saving: whole files or none, whatever stands in the way, and only what can be read again."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_models import CONFIGS, run, saved

import headwise
from headwise.errors import CheckpointError, UnsupportedError
from headwise.transformer.model import build


def test_over_an_older_model(tmp_path: Path) -> None:
    saved("llama", tmp_path)
    torch.manual_seed(5)
    model = build(CONFIGS["llama"]).eval()
    headwise.save(model, tmp_path)
    assert torch.equal(run(headwise.load(tmp_path)), run(model))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_over_the_directory_it_came_from(tmp_path: Path) -> None:
    """The weights are mapped from the very file that is replaced."""
    model = headwise.load(saved("llama", tmp_path))
    before = run(model)
    headwise.save(model, tmp_path)
    assert torch.equal(run(model), before)
    assert torch.equal(run(headwise.load(tmp_path)), before)


def test_into_a_place_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(CheckpointError, match="taken: file: cannot be written"):
        headwise.save(build(CONFIGS["llama"]), tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


def test_beside_the_pieces_of_another_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(CheckpointError, match="in pieces; wanted a new directory"):
        headwise.save(build(CONFIGS["llama"]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors.index.json"]


FULL = """
import resource, sys
from pathlib import Path
import headwise
from headwise.errors import CheckpointError
model = headwise.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), -1))
try:
    headwise.save(model, sys.argv[2])
except CheckpointError as error:
    print(error)
"""


@pytest.mark.parametrize("room", [0, 100, 4000])
def test_a_full_disk_leaves_the_older_model_whole(tmp_path: Path, room: int) -> None:
    """Where files may not grow beyond `room` bytes, writing fails as it does on a full disk."""
    saved("llama", tmp_path / "new")
    older = {path.name: path.read_bytes() for path in saved("gpt2", tmp_path / "old").iterdir()}
    command = [sys.executable, "-c", FULL, str(tmp_path / "new"), str(tmp_path / "old"), str(room)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stdout
    assert done.stdout.count("\n") == 1
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == older


def test_what_no_architecture_computes_is_refused(tmp_path: Path) -> None:
    config = CONFIGS["llama"]
    assert config.decoder is not None
    model = build(replace(config, decoder=replace(config.decoder, norm_place="post")))
    with pytest.raises(UnsupportedError, match=r"llama: not that decoder\.norm_place is 'post'"):
        headwise.save(model, tmp_path / "new")
    preset = headwise.presets["gpt2-tiny"]
    assert preset.decoder is not None
    model = build(replace(preset, decoder=replace(preset.decoder, gated=True)))
    with pytest.raises(UnsupportedError, match=r"gpt2: files of this architecture cannot say that decoder\.gated"):
        headwise.save(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_the_file_said_beside_stays(tmp_path: Path) -> None:
    home = saved("llama", tmp_path / "one")
    config = json.loads((home / "config.json").read_text())
    extra = {"task_specific_params": {"a": 1}, "torch_dtype": "float16", "id2label": {"0": "x"}}
    (home / "config.json").write_text(json.dumps(config | extra))
    headwise.save(headwise.load(home), tmp_path / "two")
    again = json.loads((tmp_path / "two" / "config.json").read_text())
    assert again["id2label"] == {"0": "x"}
    assert again["task_specific_params"] == {"a": 1}
    assert "torch_dtype" not in again
    assert again["dtype"] == "float32"
