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
GAP = 2
"""Between two columns."""
ROWS = 24
"""Rows of a table without --full: those with most weight."""


def looks(explanation: Explanation, glyphs: Glyphs) -> Grid:
    """The heads that look from the chosen word at another, beyond their habit."""
    grid = _grid()
    for name in ("layer", "head"):
        grid.add_column(name, justify="right")
    grid.add_column("looks at", max_width=24, overflow="ellipsis")
    grid.add_column("weight")
    grid.add_column("by habit", justify="right")
    for look in explanation.looks:
        bar = long_bar(look.weight, 12, glyphs)
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
    for name, _, _ in vectors[:2]:
        grid.add_column(name, no_wrap=True)
    for name, cells in columns:
        grid.add_column(name, justify="right" if cells else "left", no_wrap=True)
    grid.add_column(f"softmax\n{glyphs.dot} v", no_wrap=True)
    for at, token in enumerate(order):
        texts = [numbers.vector(values[token], shown, glyphs) for _, values, numbers in vectors]
        style = "" if table.allowed[token] else "bright_black"
        name = Text(visible(table.tokens[token]), style="bold" if token == table.query else "")
        grid.add_row(name, *texts[:2], *(cells[at] for _, cells in columns), texts[2], style=style)
    left = _left_out(table, order, glyphs)
    sums = [""] * (len(columns) - 1) + [f"{table.weights.sum():.3f}  "]
    total = Numbers.fitting(np.concatenate([table.z[:shown], vectors[2][1][order][:, :shown].ravel()]))
    grid.add_section()
    grid.add_row(Text("sum", style="bold"), "", "", *sums, Text(total.vector(table.z, shown, glyphs), style="bold"))
    return [grid, *left]


def _left_out(table: Table, order: Order, glyphs: Glyphs) -> list[Text]:
    missing = len(table.tokens) - len(order)
    if not missing:
        return []
    weight = float(table.weights.sum() - table.weights[order].sum())
    text = f"{glyphs.more} {missing} more tokens with {max(weight, 0):.3f} of the weight; --full shows them"
    return [Text(text, style="bright_black")]


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
    for shown in (8, 6, 5, 4, 3, 2):
        sizes = [
            Numbers.fitting(values[order][:, :shown]).vector_width(shown, values.shape[1])
            for _, values in _vectors(table)
        ]
        if used + sum(sizes) + GAP * len(sizes) <= width:
            return shown
    return 1


def all_heads(heads: AllHeads, chosen: int, width: int, glyphs: Glyphs) -> list[Grid | Text]:
    """z of every head, what it becomes through its block of W_O, and the sum of all."""
    norms = np.linalg.norm(heads.parts, axis=1)
    number = Numbers.fitting(norms)
    shown = 4 if width >= 100 else 3 if width >= 76 else 1
    before, after = Numbers.fitting(heads.z[:, :shown]), Numbers.fitting(heads.parts[:, :shown])
    after = Numbers.fitting(np.concatenate([heads.parts[:, :shown].ravel(), heads.result[:shown], heads.total[:shown]]))
    grid = _grid()
    grid.add_column("head", justify="right")
    grid.add_column("z", no_wrap=True)
    grid.add_column(f"z {glyphs.times} its block of W_O", no_wrap=True)
    grid.add_column("length", no_wrap=True)
    for head, (z, part) in enumerate(zip(heads.z, heads.parts, strict=True)):
        bar = long_bar(float(norms[head] / max(norms.max(), 1e-30)), 10, glyphs)
        row = (str(head), before.vector(z, shown, glyphs), after.vector(part, shown, glyphs))
        grid.add_row(*row, f"{number.write(float(norms[head]))} {bar}", style="bold" if head == chosen else "")
    grid.add_section()
    grid.add_row("", "sum of all heads", after.vector(heads.total, shown, glyphs), _length(heads.total))
    if heads.bias is not None:
        grid.add_row("", "bias of W_O", after.vector(heads.bias, shown, glyphs), _length(heads.bias))
    grid.add_row("", Text("Z_f", style="bold"), after.vector(heads.result, shown, glyphs), _length(heads.result))
    return [grid]


def _length(vector: Array) -> str:
    return f"{np.linalg.norm(vector):.2f}"


def part_title(text: str, more: str = "") -> Text:
    """A heading and what explains it."""
    return heading(text) + Text(more, style="not bold")


def _grid() -> Grid:
    return Grid(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bright_black", show_edge=False)
