"""docs/models.md: its Python blocks run as written, and its lists are the real ones."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from headwise.checkpoints.gguf import KINDS
from headwise.families import architectures
from headwise.families.reading import FAMILIES

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


@pytest.mark.weights
def test_the_blocks_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S):
        exec(block, names)
    torch.testing.assert_close(torch.cat([names["first"], names["rest"]], dim=1), names["logits"], rtol=1e-4, atol=1e-3)
    near = names["vectors"] @ names["vectors"].T
    assert near[0, 1] > 0.5 > near[0, 2]
    assert {path.name for path in tmp_path.iterdir()} == {"small", "tokenizer"}


def test_every_architecture_is_listed() -> None:
    table = PAGE.partition("## Architectures")[2].partition("Everything else")[0]
    rows = [line.split("|")[2:4] for line in table.splitlines() if line.startswith("| ")][1:]
    assert re.findall(r"`(\w+)`", " ".join(row[0] for row in rows)) == list(architectures())
    in_gguf = {name for module in FAMILIES.values() for name in getattr(module, "GGUF", ())}
    assert set(re.findall(r"`(\w+)`", " ".join(row[1] for row in rows))) == in_gguf


def test_every_kind_of_gguf_is_listed() -> None:
    listed = PAGE.partition("read are F64")[2].partition("`weights=")[0]
    floats = {name for name, *_ in KINDS.values() if not re.fullmatch(r"I\d+", name)}
    assert {"F64", *re.findall(r"\b[A-Z][A-Z0-9_]*\d\w*", listed)} == floats
