"""Tests of models so small that a second thread would only make them wait, on a machine that others use too."""

from collections.abc import Generator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> Generator[None]:
    """As `headwise compare` trains."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
