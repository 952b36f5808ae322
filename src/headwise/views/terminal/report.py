"""The whole explanation on a console: sentence, overview, looks, worked table, all heads, movement, receipt."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from headwise.views.explanation import Explanation, Moved, MovedText
from headwise.views.terminal.overview import overview, sentence
from headwise.views.terminal.style import ASCII, UNICODE, Glyphs, long_bar, safe, visible, wrapped_vector
from headwise.views.terminal.worked import WIDE, all_heads, divisor, looks, part_title, query_line, worked_table

LINE = 72
"""Columns that a line of the receipt needs, with what is allowed and where."""
NARROWEST = 48
"""Columns that the tables need; a narrower terminal wraps their lines, so that no number is cut."""


def show(explanation: Explanation, console: Console, full: bool = False) -> None:
    """Print everything; vectors are shortened unless `full`."""
    glyphs = ASCII if console.options.ascii_only else UNICODE
    console.width = max(console.width, NARROWEST)
    for part in _parts(explanation, console.width, full, glyphs):
        console.print(part, highlight=False)


def _parts(explanation: Explanation, width: int, full: bool, glyphs: Glyphs) -> Iterator[RenderableType]:
    table = explanation.table
    word = safe(explanation.queries[explanation.word].text)
    yield from sentence(explanation, width, glyphs)
    yield ""
    yield from overview(explanation, width, glyphs)
    yield ""
    yield part_title(f"From “{word}”", f" ({explanation.why_word}), the heads that look most tellingly at another word")
    yield (
        looks(explanation, width, glyphs)
        if explanation.looks
        else Text("No head looks at another content word beyond its habit.")
    )
    yield Text("by habit: what the head gives there on average, from the other words", style="bright_black")
    yield ""
    yield part_title(f"Layer {table.layer}, head {table.head}", f": {explanation.why_head}.")
    yield Text(_how(explanation, glyphs))
    yield query_line(table, width, glyphs)
    yield from worked_table(explanation, width, full, glyphs)
    yield ""
    yield from _heads(explanation, width, glyphs)
    if full:
        yield from _whole_vectors(explanation, width, glyphs)
    if explanation.moved is not None:
        yield from moved(explanation.moved, width, glyphs)
        yield ""
    yield from _receipt(explanation, width)


def _how(explanation: Explanation, glyphs: Glyphs) -> str:
    """What is done with the numbers of the table, and which token looks."""
    table, word = explanation.table, explanation.queries[explanation.word]
    _, scaled = divisor(table, glyphs)
    size = f"q, k and v have {table.dim} numbers each" if table.v.shape[1] == table.dim else f"q and k have {table.dim}"
    asks = f"“{safe(word.text)}”"
    if len(word.tokens) > 1:
        last = safe(_token(explanation))
        asks = f"{asks} is {len(word.tokens)} tokens, and the table shows the last of them, “{last}”. It"
    text = f"{asks} asks with q; each score is q{glyphs.dot}k, {scaled}; {size}."
    return f"{text} {explanation.merged[0].upper()}{explanation.merged[1:]}." if explanation.merged else text


def _token(explanation: Explanation) -> str:
    table = explanation.table
    inside = explanation.mode != "cross" and table.query < len(table.tokens)
    return visible(table.tokens[table.query]) if inside else f"token {table.query}"


def _heads(explanation: Explanation, width: int, glyphs: Glyphs) -> Iterator[RenderableType]:
    table = explanation.table
    if explanation.heads is None:
        yield part_title("All heads together", f": cannot be shown: {explanation.no_heads}.")
        return
    count, dim = explanation.heads.parts.shape
    size = explanation.heads.z.size
    what = f": {count} times z side by side is a vector of {size}; {glyphs.times} W_O ({size} {glyphs.times} {dim})"
    yield part_title(f"All heads of layer {table.layer} together", f"{what} gives Z_f.")
    yield from all_heads(explanation.heads, table.head, width, glyphs)
    yield ""


def _whole_vectors(explanation: Explanation, width: int, glyphs: Glyphs) -> Iterator[RenderableType]:
    table = explanation.table
    yield part_title("The vectors whole")
    named: list[tuple[str, Any]] = [("q", table.q)]
    for token, text in enumerate(table.tokens):
        name = f"{token} {visible(text)}"
        named += [(f"k of {name}", table.k[token]), (f"v of {name}", table.v[token])]
        named += [(f"softmax {glyphs.dot} v of {name}", table.weighted[token])]
    named.append((f"z of head {table.head}", table.z))
    if explanation.heads is not None:
        named.append(("z of all heads joined", explanation.heads.z.reshape(-1)))
        named.append(("Z_f", explanation.heads.result))
    for name, vector in named:
        yield Text(safe(name), style="bold")
        for line in wrapped_vector(vector, width - 2):
            yield Text(f"  {line}")
    yield ""


def moved(shown: Moved, width: int, glyphs: Glyphs) -> Iterator[RenderableType]:
    """How the word's vector moved in each text, and the similarity of the two."""
    more = ": its similarity (cosine) to each other word, before the first layer and after the last"
    yield part_title(f"How “{safe(shown.word)}” moved", more)
    for text in shown.texts:
        yield Text(f"“{safe(text.text)}”", style="italic")
        yield _similarities(text, width, glyphs)
    yield Text(
        f"The two vectors of “{safe(shown.word)}”: similarity {shown.before:.3f} before, {shown.after:.3f} after."
    )


def _similarities(text: MovedText, width: int, glyphs: Glyphs) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, header_style="bright_black", show_edge=False)
    bar = 12 if width >= WIDE else 3
    grid.add_column("word", max_width=20 if width >= WIDE else 10, overflow="ellipsis", no_wrap=True)
    grid.add_column("before", no_wrap=True)
    grid.add_column("after", no_wrap=True)
    grid.add_column("change", justify="right", no_wrap=True)
    for word, before, after in zip(text.words, text.before, text.after, strict=True):
        cells = [f"{value:6.3f} {long_bar(float(value), bar, glyphs)}" for value in (before, after)]
        grid.add_row(safe(word), *cells, f"{after - before:+.3f}")
    return grid


def _summed_up(unchecked: tuple[str, ...]) -> list[str]:
    """One line for each reason, where several layers have the same."""
    layers: dict[tuple[str, str], list[str]] = {}
    for sentence_ in unchecked:
        what, _, why = sentence_.partition(": ")
        check, _, where = what.partition(", ")
        layers.setdefault((check, why), []).append(where)
    return [
        f"{check}{f', {where[0]}' if where[0] else ''}{f' and {len(where) - 1} more' if len(where) > 1 else ''}: {why}"
        for (check, why), where in layers.items()
    ]


def _receipt(explanation: Explanation, width: int) -> Iterator[RenderableType]:
    """What was compared with what the model computed, and how far apart it was at most."""
    yield part_title("Receipt", ": what is shown against what the model computed, the largest difference anywhere")
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for _ in range(5 if width >= LINE else 3):
        grid.add_column(no_wrap=True)
    for check in explanation.receipt:
        exact = "bit for bit" if check.error == 0 else f"{check.error:.1e}"
        verdict = "ok" if check.ok else "WRONG"
        limit = f"allowed {check.allowed:.1e}" if np.isfinite(check.allowed) else ""
        cells = (check.check, exact, limit, check.where)
        verdict = Text(verdict, style="green" if check.ok else "bold red")
        grid.add_row(verdict, *(cells if width >= LINE else cells[:2]))
    yield grid
    for missing in _summed_up(explanation.unchecked):
        yield Text(f"not checked: {safe(missing)}", style="yellow")
    about = explanation.about
    facts = [about.get("source", ""), about.get("dtype", ""), f"kernel {about['kernel']}" if "kernel" in about else ""]
    facts.append(f"fingerprint {about['fingerprint']}" if "fingerprint" in about else "")
    yield Text(safe(", ".join(fact for fact in facts if fact)), style="bright_black")
    if explanation.command:
        yield Text(safe(explanation.command), style="bright_black")
