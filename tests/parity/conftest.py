"""What the comparisons with the reference library share: the largest differences are printed when all is done."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from reference_models import Case
from torch import Tensor

import headwise
from headwise.families import architectures

LARGEST = 1e-4
ARCHITECTURES = architectures()


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture
def close(request: pytest.FixtureRequest, record_property: Callable[[str, Any], None]) -> Callable[..., None]:
    """Asserts that two tensors differ by less than 1e-4, and records by how much."""
    largest = 0.0

    def check(ours: Tensor, theirs: Tensor) -> None:
        nonlocal largest
        assert ours.shape == theirs.shape
        assert theirs.abs().max() > 0.1, "nothing to compare"
        largest = max(largest, (ours - theirs).abs().max().item())
        assert largest < LARGEST
        record_property("largest", largest)

    return check


@pytest.fixture
def pair(tmp_path: Path) -> Callable[[Case], tuple[Any, Any]]:
    """The reference library's model, and ours as loaded from what it saved."""

    def build(case: Case) -> tuple[Any, Any]:
        theirs = case.build()
        theirs.save_pretrained(tmp_path / "theirs")
        return theirs, headwise.load(tmp_path / "theirs")

    return build


def _case(nodeid: str) -> str:
    """The architecture that a test is about, by its parameters; the whole name of a test without any."""
    words = nodeid.rpartition("::")[2].rstrip("]").replace("[", "-").split("-")
    return next((word for word in words if word in ARCHITECTURES), words[0])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line with the largest difference of each architecture, and of each test beside them."""
    largest: dict[str, float] = {}
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "largest":
                case = _case(report.nodeid)
                largest[case] = max(value, largest.get(case, 0.0))
    if largest:
        found = ", ".join(f"{name} {value:.1e}" for name, value in sorted(largest.items()))
        terminalreporter.write_line(f"largest difference from the reference library: {found}")
