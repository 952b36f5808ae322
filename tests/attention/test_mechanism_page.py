"""docs/mechanism.md: its Python blocks run as written, one after another, and its table of laws is the real one."""

import re
from pathlib import Path

from headwise.attention.laws import LAWS

PAGE = (Path(__file__).parents[2] / "docs" / "mechanism.md").read_text()


def test_the_blocks_run_as_written():
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S):
        exec(block, names)
    assert names["steps"].weights.shape == (1, 2, 5, 5)
    assert names["cache"].length == 10
    assert "broken  equals the equation in float64" in str(names["report"])


def test_every_law_is_in_the_table():
    for name, law in LAWS.items():
        assert f"| {name} | {law.sentence}" in PAGE
