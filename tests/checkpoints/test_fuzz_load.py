"""A fixed budget of damaged models for `headwise.load`: what comes out is a model that runs, or a clean error."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw
from mutations import damaged, damaged_json
from tiny_models import CONFIGS, llama_gguf, run, saved

import headwise
from headwise.errors import HeadwiseError

BUDGET = settings(max_examples=120, deadline=None, derandomize=True)
ROOM = 1 << 30


@pytest.fixture(scope="module", autouse=True)
def _little_memory() -> Iterator[None]:
    """A file of some kilobytes that asks for a gigabyte fails the test, by an error that is none of ours."""
    torch.ones(64, 64) @ torch.ones(64, 64)  # threads take their memory now
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def told_by_loading(path: Path) -> str:
    """The message of our error, or "nothing" of a model that runs; any other error goes on."""
    try:
        run(headwise.load(path))
    except HeadwiseError as error:
        return str(error)
    return "nothing"


def is_one_line(told: str) -> bool:
    return 0 < len(told) < 2000 and "\n" not in told


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for family in CONFIGS:
        saved(family, folder / family)
        assert run(headwise.load(folder / family)).isfinite().all()
    (folder / "whole.gguf").write_bytes(llama_gguf())
    assert run(headwise.load(folder / "whole.gguf")).isfinite().all()
    return folder


@pytest.mark.parametrize("family", CONFIGS)
@BUDGET
@given(data=draw.data())
def test_configurations(folder: Path, family: str, data: draw.DataObject) -> None:
    whole = (folder / family / "config.json").read_bytes()
    content = data.draw(damaged_json(json.loads(whole)) | damaged(whole))
    home = folder / f"{family}-config"
    home.mkdir(exist_ok=True)
    (home / "model.safetensors").write_bytes((folder / family / "model.safetensors").read_bytes())
    (home / "config.json").write_bytes(content)
    assert is_one_line(told_by_loading(home))


@pytest.mark.parametrize("family", CONFIGS)
@BUDGET
@given(data=draw.data())
def test_weights(folder: Path, family: str, data: draw.DataObject) -> None:
    whole = (folder / family / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    edited = damaged_json(json.loads(whole[8:end])).map(
        lambda header: len(header).to_bytes(8, "little") + header + whole[end:]
    )
    content = data.draw(damaged(whole, busy=end) | damaged(whole) | edited)
    home = folder / f"{family}-weights"
    home.mkdir(exist_ok=True)
    (home / "config.json").write_bytes((folder / family / "config.json").read_bytes())
    (home / "model.safetensors").write_bytes(content)
    assert is_one_line(told_by_loading(home))


@settings(BUDGET, max_examples=400)
@given(content=damaged(llama_gguf(), busy=1200) | damaged(llama_gguf()))
def test_gguf(folder: Path, content: bytes) -> None:
    path = folder / "damaged.gguf"
    path.write_bytes(content)
    assert is_one_line(told_by_loading(path))
