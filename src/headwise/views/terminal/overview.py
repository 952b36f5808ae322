"""The sentence with its numbers, and the grid that shows where every head looks."""

from rich.text import Text

from headwise.views.explanation import Explanation, Overview, ShownWord
from headwise.views.terminal.style import COLOURS, Glyphs, heading, safe, unit_bar

AROUND = 24
"""Words shown before and after the chosen one, where a text is long."""
CLEAR = 0.35
"""From this share on a kind names the head; below, it looks here and there."""


def sentence(explanation: Explanation, width: int, glyphs: Glyphs) -> list[Text]:
    """The words with their numbers, the chosen one marked; of a long text those around it."""
    words = explanation.queries
    first, last = max(0, explanation.word - AROUND), min(len(words), explanation.word + AROUND + 1)
    parts = [Text(glyphs.more)] if first else []
    parts += [_numbered(number, words[number], number == explanation.word) for number in range(first, last)]
    parts += [Text(f"{glyphs.more} {len(words)} words")] if last < len(words) else []
    lines = [Text()]
    for part in parts:
        if lines[-1].cell_len and lines[-1].cell_len + part.cell_len + 2 > width:
            lines.append(Text())
        lines[-1].append_text(Text("  " if lines[-1].cell_len else "") + part)
    return lines


def _numbered(number: int, word: ShownWord, chosen: bool) -> Text:
    text = f"[{safe(word.text)}]" if chosen and not word.special else safe(word.text)
    return Text(f"{number} ", style="bright_black") + Text(text, style="bold reverse" if chosen else "not bold default")


def overview(explanation: Explanation, width: int, glyphs: Glyphs) -> list[Text]:
    """One row a layer and one cell a head: the kind of place it looks at most, and how much of its weight."""
    shown = explanation.overview
    title = "Where every head looks"
    several = "of several tokens are one" if explanation.merged else ""
    note = f"mean over {shown.rows} of {shown.of} words" + (f"; words {several}" if several else "")
    lines = [heading(title) + Text(f"  ({note})", style="not bold bright_black")]
    label = max(len(str(layer)) for layer in shown.layers) + 8
    cell = _cell_width(shown.shares.shape[1], width - label)
    per_line = max(1, (width - label) // cell)
    for start in range(0, shown.shares.shape[1], per_line):
        stop = min(start + per_line, shown.shares.shape[1])
        lines.append(_numbers(start, stop, label, cell))
        lines += [_layer(shown, at, range(start, stop), label, cell, glyphs) for at in range(len(shown.layers))]
    return [*lines, *_legend(shown, width, glyphs)]


def _cell_width(heads: int, room: int) -> int:
    """Four where there is room, then less; at least a sign and its bar."""
    return next((width for width in (4, 3) if heads * width <= room), 2)


def _numbers(start: int, stop: int, label: int, cell: int) -> Text:
    """The numbers of the heads; where cells are narrow, the last digit."""
    digits = [str(head) if len(str(stop - 1)) < cell else str(head % 10) for head in range(start, stop)]
    return Text("head".ljust(label) + "".join(digit.ljust(cell) for digit in digits), style="bright_black")


def _layer(shown: Overview, at: int, heads: range, label: int, cell: int, glyphs: Glyphs) -> Text:
    line = Text(f"layer {shown.layers[at]}".ljust(label), style="bright_black")
    for head in heads:
        shares = shown.shares[at, head]
        best = int(shares.argmax())
        kind = shown.kinds[best] if shares[best] >= CLEAR else "near"
        sign = glyphs.kinds[kind] + unit_bar(float(shares[best]), glyphs)
        line.append(sign, style=f"not bold {COLOURS[kind]}")
        line.append(" " * (cell - 2))
    return line


def _legend(shown: Overview, width: int, glyphs: Glyphs) -> list[Text]:
    """What the signs mean, in as many lines as it takes."""
    words = {kind: kind for kind in shown.kinds} | {"far": "far (5 words or more)", "near": "near, or here and there"}
    lines = [Text("      ")]
    for kind in (*shown.kinds, "bar"):
        sign = "".join(glyphs.bars[1:]) if kind == "bar" else glyphs.kinds[kind]
        meaning = "its share of the weight" if kind == "bar" else words[kind]
        part = Text(f"{sign} ", style=COLOURS.get(kind, "default")) + Text(f"{meaning}   ", style="bright_black")
        if len(lines[-1].plain) + len(part.plain.rstrip()) > width and lines[-1].plain.strip():
            lines.append(Text("      "))
        lines[-1].append_text(part)
    return lines
