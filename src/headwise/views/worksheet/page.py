"""The worksheet as one HTML file to print: no script, no font and no picture from elsewhere."""

import re
from collections.abc import Sequence
from html import escape

from headwise.views.worksheet.blocks import Block, Grid, Heading, Paragraph

_STYLE = """
@page { size: A4; margin: 18mm 16mm }
:root { --ink: #1b1b1f; --soft: #63636e; --line: #c9c9d2; --tint: #f3f3f7 }
* { box-sizing: border-box }
body { margin: 3rem auto; padding: 0 1.5rem; max-width: 52rem; color: var(--ink); background: #fff;
  font: 1.05rem/1.55 "Iowan Old Style", Palatino, "Palatino Linotype", "Book Antiqua", Georgia, serif }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; font-weight: 600 }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .5rem; padding-top: .9rem; border-top: 1px solid var(--line); font-weight: 600;
  break-after: avoid }
.who { display: flex; gap: 2rem; margin: 1.4rem 0 0; color: var(--soft) }
.who span { flex: 1; border-bottom: 1px solid var(--line); padding-bottom: .1rem }
p { margin: .5rem 0 }
.formula { margin: .7rem 0 .7rem 1.6rem; font-style: italic; white-space: pre-wrap }
.example { color: var(--soft); font-size: .95rem; overflow-wrap: anywhere }
.question { padding-left: 1.2rem; text-indent: -1.2rem }
.question::before { content: "•"; display: inline-block; width: 1.2rem; text-indent: 0 }
.lines { border-bottom: 1px solid var(--line); height: 2rem }
.grids { display: flex; flex-wrap: wrap; gap: .4rem 2.2rem; align-items: flex-start }
figure { margin: .8rem 0; max-width: 100%; overflow-x: auto; break-inside: avoid }
figcaption { color: var(--soft); font-size: .92rem; margin-bottom: .3rem; break-after: avoid }
table { border-collapse: collapse; font-size: .98rem; font-variant-numeric: tabular-nums lining-nums }
th, td { padding: .22rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line) }
thead th { font-weight: 400; font-style: italic; color: var(--soft); border-bottom: 1.5px solid var(--ink) }
th { unicode-bidi: isolate }
th:first-child { text-align: left; padding-left: 0; font-weight: 400; font-style: normal }
.group { border-left: 1px solid var(--line) }
td.blank { height: 2.1rem; border: 1px solid var(--line) }
@media print { body { margin: 0; padding: 0; max-width: none; font-size: 10.5pt } figure { overflow: visible } }
"""


def page(blocks: Sequence[Block], answers: bool) -> str:
    """The whole HTML text."""
    title = next(block.text for block in blocks if isinstance(block, Heading))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{_body(blocks, answers)}
</body>
</html>
"""


def _body(blocks: Sequence[Block], answers: bool) -> str:
    """The blocks in order; small tables that follow each other share a line."""
    parts: list[str] = []
    beside = False
    for block in blocks:
        if isinstance(block, Grid) != beside:
            parts.append("</div>" if beside else '<div class="grids">')
            beside = not beside
        parts.append(_block(block, answers))
    return "\n".join([*parts, "</div>"] if beside else parts)


def _block(block: Block, answers: bool) -> str:
    if isinstance(block, Grid):
        return _table(block)
    if isinstance(block, Heading):
        signed = block.level == 1 and not answers
        who = '\n<p class="who"><span>Name</span><span>Date</span></p>' if signed else ""
        return f"<h{block.level}>{_text(block.text)}</h{block.level}>{who}"
    return _paragraph(block, answers)


def _paragraph(block: Paragraph, answers: bool) -> str:
    kind = "" if block.kind == "text" else f' class="{block.kind}"'
    lines = '\n<div class="lines"></div>' if block.kind == "question" and not answers else ""
    return f"<p{kind}>{_text(block.text)}</p>{lines}"


def _table(grid: Grid) -> str:
    head = "".join(f'<th scope="col"{_edge(grid, index)}>{_text(name)}</th>' for index, name in enumerate(grid.columns))
    rows = "\n".join(
        f'<tr><th scope="row">{_text(label)}</th>{_cells(grid, cells)}</tr>'
        for label, cells in zip(grid.labels, grid.cells, strict=True)
    )
    return f"""<figure><figcaption>{_text(grid.caption)}</figcaption>
<table><thead><tr><th scope="col">{_text(grid.corner)}</th>{head}</tr></thead>
<tbody>
{rows}
</tbody></table></figure>"""


def _cells(grid: Grid, cells: Sequence[str]) -> str:
    if grid.blank:
        return f'<td class="blank" style="min-width: {0.65 * grid.room:.3g}rem"></td>' * len(cells)
    return "".join(f"<td{_edge(grid, index)}>{escape(cell)}</td>" for index, cell in enumerate(cells))


def _edge(grid: Grid, index: int) -> str:
    return ' class="group"' if grid.group and index and index % grid.group == 0 else ""


def _text(text: str) -> str:
    """Escaped, with the index of W_Q set below the line."""
    return re.sub(r"\bW_([QKVO])\b", r"W<sub>\1</sub>", escape(text))
