"""The blocks a worksheet is made of: headings, paragraphs and grids of numbers, the same for every format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_MOST_DECIMALS = 10


class Heading(NamedTuple):
    """A step's name."""

    text: str
    level: int


class Paragraph(NamedTuple):
    """A sentence or two; `kind` is "text", "formula", "example" or "question"."""

    text: str
    kind: str = "text"


@dataclass(frozen=True)
class Grid:
    """A table with a label before each row; `blank` leaves the cells for the pencil."""

    caption: str
    corner: str
    columns: Sequence[str]
    labels: Sequence[str]
    cells: Sequence[Sequence[str]]
    blank: bool = False
    group: int = 0
    """After how many columns a line is drawn, again and again; 0 draws none."""
    room: int = 6
    """How many letters a blank cell should hold at least."""


Block = Heading | Paragraph | Grid


def names(letter: str, count: int) -> list[str]:
    """x₁ x₂ x₃ ..."""
    return [f"{letter}{str(index).translate(_SUBSCRIPTS)}" for index in range(1, count + 1)]


def given(values: Numbers) -> list[list[str]]:
    """Numbers that the exercise states, exactly, all with the same decimals."""
    decimals = next((d for d in range(_MOST_DECIMALS) if np.array_equal(np.round(values, d), values)), None)
    if decimals is None:
        return [[minus(repr(float(x))) for x in row] for row in values]
    return [[number(x, decimals) for x in row] for row in values]


def computed(values: Numbers) -> list[list[str]]:
    """Numbers that were computed: whole where all of them are, and with three decimals otherwise."""
    decimals = decimals_of(values)
    return [[number(x, decimals) for x in row] for row in values]


def decimals_of(values: Numbers) -> int:
    """The fewest decimals that state these numbers exactly, or three."""
    finite = values[np.isfinite(values)]
    return next((d for d in range(3) if np.allclose(np.round(finite, d), finite, rtol=0, atol=1e-9)), 3)


def number(value: float, decimals: int) -> str:
    """A number with a true minus sign, and never a negative zero."""
    if np.isneginf(value):
        return "−∞"
    return minus(f"{round(float(value), decimals) + 0.0:.{decimals}f}")


def minus(text: str) -> str:
    """The same with a true minus sign, which is as wide as a digit."""
    return text.replace("-", "−")


def vector(values: Numbers, decimals: int) -> str:
    """(1, −2, 0.5)."""
    return f"({', '.join(number(x, decimals) for x in values)})"
