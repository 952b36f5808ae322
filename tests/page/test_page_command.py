"""`headwise explain --page`: the file, where it is, and what its receipt says about the model."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from page_models import KIDS

from headwise.checkpoints.digest import weights_sha256
from headwise.views.page.write import write_page


@pytest.mark.weights
def test_explain_writes_a_page_and_says_where(command: Any, minilm: Any, tmp_path: Path) -> None:
    path = tmp_path / "attention.html"
    answer = command("explain", KIDS, "--word", "they", "--layers", "2-3", "--heads", "1,4", "--page", path)
    assert answer.code == 0
    assert answer.out.splitlines()[-1].startswith(f"page: {path}")
    header = json.loads(re.search(r'id="header">(.*?)</script>', path.read_text())[1])
    assert [(place["layer"], place["heads"]) for place in header["places"]] == [(2, [1, 4]), (3, [1, 4])]
    assert header["focus"]["token"] == 10
    assert header["model"]["model"] == "minilm"
    digest = hashlib.sha256((Path(minilm.source) / "model.safetensors").read_bytes()).hexdigest()
    assert header["model"]["file of the weights"] == f"model.safetensors, SHA-256 {digest}"


@pytest.mark.weights
def test_heads_that_are_not_there_are_refused(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "attention.html"
    answer = command("explain", "It works", "--layers", "9", "--page", path)
    assert answer.code == 2
    assert answer.err.strip().endswith("layers: got [9], this trace has 0 to 5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.weights
def test_a_page_that_would_be_too_large_is_refused_before_anything_is_shown(
    command: Any, minilm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(write_page.__kwdefaults__, "limit", 0.3)  # a text that is too long for 12 MB takes a minute
    page, save = tmp_path / "attention.html", tmp_path / "trace.safetensors"
    answer = command("explain", KIDS, "--page", page, "--save", save)
    assert answer.code == 2
    assert answer.out == ""
    wanted = (
        r"would take \d+ MB .*: it holds 72 heads for 16 tokens; choose about \d+ of them with --layers and --heads"
    )
    assert re.search(wanted, answer.err)
    assert list(tmp_path.iterdir()) == []


def test_several_files_are_hashed_as_one_in_order_of_name(tmp_path: Path) -> None:
    for name, text in (("b.safetensors", b"second"), ("a.safetensors", b"first"), ("config.json", b"{}")):
        (tmp_path / name).write_bytes(text)
    first = hashlib.sha256(b"first").hexdigest()
    assert weights_sha256(tmp_path) == f"2 files, SHA-256 {hashlib.sha256(b'firstsecond').hexdigest()}"
    assert weights_sha256(tmp_path / "a.safetensors") == f"a.safetensors, SHA-256 {first}"
    (tmp_path / "empty").mkdir()
    assert weights_sha256(tmp_path / "empty") is None
