"""The worksheet as Markdown, its tables aligned also where nobody renders them."""

import re
from collections.abc import Sequence

from rich.cells import cell_len

from headwise.views.worksheet.blocks import Block, Grid, Heading, Paragraph

_SPECIAL = re.compile(r"([\\`*\[\]<>|#~$&]|(?<!\w)_|_(?!\w))")


def markdown(blocks: Sequence[Block]) -> str:
    """The whole text, with one empty line between blocks."""
    return "\n\n".join(_block(block) for block in blocks) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_escaped(block.text)}"
    if isinstance(block, Paragraph):
        return _paragraph(block)
    return f"{_escaped(block.caption)}:\n\n{_table(block)}"


def _paragraph(block: Paragraph) -> str:
    if block.kind == "formula":
        return "    " + block.text
    return f"{'- ' if block.kind == 'question' else ''}{_escaped(block.text)}"


def _table(grid: Grid) -> str:
    """A pipe table: labels to the left, numbers to the right."""
    head = [_escaped(text) for text in (grid.corner, *grid.columns)]
    empty = [""] * len(grid.columns)
    rows = [
        [_escaped(label), *(empty if grid.blank else map(_escaped, cells))]
        for label, cells in zip(grid.labels, grid.cells, strict=True)
    ]
    columns = list(zip(head, *rows, strict=True))
    widths = [max(grid.room if grid.blank else 3, *map(cell_len, column)) for column in columns]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [_line(head, widths), f"| {' | '.join(rule)} |", *(_line(row, widths) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    gaps = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
    return f"| {cells[0]}{gaps[0]} | " + " | ".join(g + c for c, g in zip(cells[1:], gaps[1:], strict=True)) + " |"


def _escaped(text: str) -> str:
    """Words as they are, also where they hold signs that Markdown would read; an underscore inside a name stays."""
    return _SPECIAL.sub(r"\\\1", text)
