"""What all tests share: where weights are kept, threads, the real models, the command line."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# One cache in the checkout, so that the weights are fetched once and a clean checkout is a clean start.
os.environ.setdefault("HEADWISE_HOME", str(Path(__file__).parent.parent / ".cache" / "headwise"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("NO_COLOR", "1")


def pytest_configure(config: pytest.Config) -> None:
    """Each xdist worker takes its share of the processors; more would only make them wait for each other."""
    import torch

    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))


@pytest.fixture(scope="session")
def minilm() -> Any:
    """The sentence encoder, as the package index serves it."""
    import headwise

    return headwise.load("minilm")


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """The language model, as the package index serves it, in float32."""
    import headwise

    return headwise.load("smollm2")


class Answer(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs `headwise` with these words in this process."""
    from headwise.cli import main

    def run(*words: str | Path) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        return Answer(int(end.value.code or 0), *capsys.readouterr())

    return run
