"""The worked table of one head, and all heads joined: the steps of the equation with their numbers."""

import math

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.cells import cell_len
from rich.table import Table as Grid
from rich.text import Text

from headwise.views.explanation import AllHeads, Explanation, Table
from headwise.views.terminal.style import Array, Glyphs, Numbers, heading, long_bar, safe, unit_bar, visible

Order = NDArray[np.intp]
"""Which tokens are shown, in the order of the text."""
WIDE = 60
"""Columns of a terminal from which on bars and words have all their room."""
GAP = 2
"""Between two columns."""
ROWS = 24
"""Rows of a table without --full: those with most weight."""


def looks(explanation: Explanation, width: int, glyphs: Glyphs) -> Grid:
    """The heads that look from the chosen word at another, beyond their habit."""
    grid = _grid()
    for name in ("layer", "head"):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column("looks at", max_width=24 if width >= WIDE else 12, overflow="ellipsis", no_wrap=True)
    grid.add_column("weight", no_wrap=True)
    grid.add_column("by habit", justify="right", no_wrap=True)
    for look in explanation.looks:
        bar = long_bar(look.weight, 12 if width >= WIDE else 5, glyphs)
        name = safe(explanation.keys[look.word].text)
        grid.add_row(str(look.layer), str(look.head), name, f"{look.weight:.3f} {bar}", f"{look.habit:.3f}")
    return grid


def divisor(table: Table, glyphs: Glyphs) -> tuple[str, str]:
    """How the scores are scaled: for a column's head, and as a sentence."""
    root = math.sqrt(table.dim)
    if math.isclose(table.scale, 1 / root, rel_tol=1e-6):
        return f"/ {root:.4g}", f"divided by {glyphs.root}{table.dim} = {root:.4g}"
    return f"{glyphs.times} {table.scale:.4g}", f"times {table.scale:.4g}, as this model does"


def worked_table(explanation: Explanation, width: int, full: bool, glyphs: Glyphs) -> list[Grid | Text]:
    """A row per token: k, v, score, score / √d, bias and mask where there are any, softmax, softmax · v; the sum."""
    table = explanation.table
    order = np.arange(len(table.tokens))
    if not full and len(order) > ROWS:
        order = np.sort(np.argsort(-table.weights, kind="stable")[:ROWS])
    grid = _grid()
    grid.add_column("token", max_width=14, overflow="ellipsis", no_wrap=True)
    columns = _columns(table, order, glyphs)
    shown = _vector_length(table, order, columns, width)
    vectors = [(name, values, Numbers.fitting(values[order][:, :shown])) for name, values in _vectors(table)]
    vectors = vectors if shown else []
    for name, _, _ in vectors[:2]:
        grid.add_column(name, no_wrap=True)
    for name, cells in columns:
        grid.add_column(name, justify="right" if cells else "left", no_wrap=True)
    if vectors:
        grid.add_column(f"softmax\n{glyphs.dot} v", no_wrap=True)
    for at, token in enumerate(order):
        texts = [numbers.vector(values[token], shown, glyphs) for _, values, numbers in vectors]
        style = "" if table.allowed[token] else "bright_black"
        name = Text(visible(table.tokens[token]), style="bold" if token == table.query else "")
        grid.add_row(name, *texts[:2], *(cells[at] for _, cells in columns), *texts[2:], style=style)
    sums = [""] * (len(columns) - 1) + [f"{table.weights.sum():.3f}  "]
    grid.add_section()
    grid.add_row(Text("sum", style="bold"), *([""] * len(vectors[:2])), *sums, *_total(table, order, shown, glyphs))
    return [grid, *_left_out(table, order, shown, glyphs)]


def _total(table: Table, order: Order, shown: int, glyphs: Glyphs) -> list[Text]:
    """z, written as the column above it; nothing where there is no such column."""
    if not shown:
        return []
    numbers = Numbers.fitting(np.concatenate([table.z[:shown], table.weighted[order][:, :shown].ravel()]))
    return [Text(numbers.vector(table.z, shown, glyphs), style="bold")]


def query_line(table: Table, width: int, glyphs: Glyphs) -> Text:
    """The first numbers of q, which every row of the table is multiplied with."""
    numbers = Numbers.fitting(table.q)
    shown = max(1, min(len(table.q), 8, (width - 6) // (numbers.width + 1)))
    return Text(f"q  {numbers.vector(table.q, shown, glyphs)}", no_wrap=True)


def _left_out(table: Table, order: Order, shown: int, glyphs: Glyphs) -> list[Text]:
    """What the table does not show."""
    texts: list[str] = []
    missing = len(table.tokens) - len(order)
    if missing:
        weight = float(table.weights.sum() - table.weights[order].sum())
        texts.append(f"{glyphs.more} {missing} more tokens with {max(weight, 0):.3f} of the weight; --full shows them")
    if not shown:
        texts.append(f"{glyphs.more} k, v and softmax {glyphs.dot} v need a wider terminal, or --full")
    return [Text(text, style="bright_black") for text in texts]


def _vectors(table: Table) -> list[tuple[str, Array]]:
    return [("k", table.k), ("v", table.v), ("", table.weighted)]


def _columns(table: Table, order: Order, glyphs: Glyphs) -> list[tuple[str, list[str]]]:
    """The columns of single numbers, each with its cells."""
    by, _ = divisor(table, glyphs)
    score, scaled = Numbers.fitting(table.products[order]), Numbers.fitting(table.scaled[order])
    columns = [
        (f"score\nq{glyphs.dot}k", [score.write(number) for number in table.products[order]]),
        (f"score\n{by}", [scaled.write(number) for number in table.scaled[order]]),
    ]
    if table.bias is not None:
        bias = Numbers.fitting(table.bias[order])
        columns.append(("bias\n+", [bias.write(number) for number in table.bias[order]]))
    if not table.allowed.all():
        columns.append(("mask", ["" if seen else glyphs.minus_infinity for seen in table.allowed[order]]))
    weights = [f"{weight:.3f} {unit_bar(float(weight), glyphs)}" for weight in table.weights[order]]
    return [*columns, ("softmax", weights)]


def _vector_length(table: Table, order: Order, columns: list[tuple[str, list[str]]], width: int) -> int:
    """How many numbers of each vector fit."""
    names = max(min(14, max(cell_len(visible(table.tokens[token])) for token in order)), 5)
    used = names + sum(max(map(len, [*cells, *name.split("\n")])) + GAP for name, cells in columns)
    for shown in (8, 6, 5, 4, 3, 2, 1):
        sizes = [
            Numbers.fitting(values[order][:, :shown]).vector_width(shown, values.shape[1])
            for _, values in _vectors(table)
        ]
        if used + sum(sizes) + GAP * len(sizes) <= width:
            return shown
    return 0


def all_heads(heads: AllHeads, chosen: int, width: int, glyphs: Glyphs) -> list[Grid | Text]:
    """z of every head, what it becomes through its block of W_O, and the sum of all."""
    norms = np.linalg.norm(heads.parts, axis=1)
    number = Numbers.fitting(np.append(norms, [np.linalg.norm(heads.total), np.linalg.norm(heads.result)]))
    shown = 4 if width >= 100 else 3 if width >= 76 else 1
    ends = [vector[:shown] for vector in (heads.total, heads.bias, heads.result) if vector is not None]
    before, after = Numbers.fitting(heads.z[:, :shown]), Numbers.fitting(np.vstack([heads.parts[:, :shown], *ends]))
    grid = _grid()
    grid.add_column("head", justify="right", no_wrap=True)
    grid.add_column("z", no_wrap=True)
    grid.add_column(f"z {glyphs.times} its block\nof W_O", no_wrap=True)
    grid.add_column("length", no_wrap=True)
    for head, (z, part) in enumerate(zip(heads.z, heads.parts, strict=True)):
        bar = long_bar(float(norms[head] / max(norms.max(), 1e-30)), 10 if width >= WIDE else 5, glyphs)
        row = (str(head), before.vector(z, shown, glyphs), after.vector(part, shown, glyphs))
        grid.add_row(*row, f"{number.write(float(norms[head]))} {bar}", style="bold" if head == chosen else "")
    grid.add_section()
    grid.add_row("sum", "of all heads", after.vector(heads.total, shown, glyphs), _length(heads.total, number))
    if heads.bias is not None:
        grid.add_row("+", "bias of W_O", after.vector(heads.bias, shown, glyphs), _length(heads.bias, number))
    result = Text("Z_f", style="bold")
    grid.add_row(result, "", after.vector(heads.result, shown, glyphs), _length(heads.result, number))
    return [grid]


def _length(vector: Array, number: Numbers) -> str:
    return number.write(float(np.linalg.norm(vector)))


def part_title(text: str, more: str = "") -> Text:
    """A heading and what explains it."""
    return heading(text) + Text(more, style="not bold")


def _grid() -> Grid:
    return Grid(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bright_black", show_edge=False)
