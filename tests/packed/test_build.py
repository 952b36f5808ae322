"""The kernel is compiled once; without a compiler everything works, and that is said once."""

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwise.packed.levels import available

PROGRAM = """
import logging, sys, torch
logging.basicConfig(format="%(message)s", stream=sys.stdout)
from headwise.packed.blocks import PackedWeight
from headwise.packed.levels import level
from headwise.packed.linear import PackedLinear
layer = PackedLinear(PackedWeight.from_blocks(torch.zeros(4, 36, dtype=torch.uint8), "Q4_0", (4, 64)))
print(level(), layer(torch.ones(1, 64)).sum().item(), layer(torch.ones(99, 64)).sum().item())
"""


def run(home: Path, compiler: str) -> str:
    settings = {**os.environ, "HEADWISE_HOME": str(home), "CC": compiler}
    settings.pop("HEADWISE_PACKED", None)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=settings, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_where_there_is_a_compiler_there_is_a_kernel() -> None:
    assert "plain" in available()


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_torch_computes_and_it_is_said_once(tmp_path: Path, compiler: str) -> None:
    said = run(tmp_path, compiler).splitlines()
    assert len(said) == 2
    assert said[0].startswith(f"packed weights run through torch, which is slower: the compiler {compiler}")
    assert said[1] == "torch 0.0 0.0"
    assert not list(tmp_path.rglob("*.so")) + list(tmp_path.rglob("*.tmp"))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_library_that_cannot_be_loaded_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwise.packed import build

    monkeypatch.setattr(build, "FLAGS", ("-O0", *build.FLAGS[1:]))  # quick to compile
    caplog.set_level(logging.INFO)
    damaged = tmp_path / "kernels" / "packed.so"
    damaged.parent.mkdir()
    damaged.write_bytes(b"not a library")
    assert build._load(damaged).headwise_has_level(0) == 1
    assert "compiled again" in caplog.text
