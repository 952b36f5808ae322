"""The atlas as a table: relation, best head, accuracy, interval, best control, gain, verdict."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwise.views.terminal.style import heading, safe

VERDICTS = {"reads": "reads it", "position": "position+", "no": "no", "few": "too few"}
EXPLAINED = (
    "Heads are chosen on one half of the documents and scored on the other. Accuracy in % with its 95 % interval. "
    "Gain: over the best control of the same half. reads it: better than every control. position+: better than the "
    "best fixed offset and random weights, not than the nearest word of the right kind. no: not better than those. "
    "Heads are layer.head; * by what it wrote, not by weight."
)
_COLOURS = {"reads": "green", "position": "yellow", "no": "default", "few": "bright_black"}
_SIDES = {"offset ": "", "nearest, ": "nearest "}


def show_atlas(findings: Sequence[Any], about: dict[str, Any], console: Console) -> None:
    """Print the findings: a line for each relation and direction."""
    table = Table(box=None, pad_edge=False, header_style="bright_black")
    for name in ("relation", "pairs", "head", "accuracy", "best control", "gain", "verdict"):
        left = name in ("relation", "best control", "verdict")
        table.add_column(name, justify="left" if left else "right", overflow="fold", no_wrap=name != "relation")
    last = ""
    asked = {one.relation for one in findings if one.pairs}
    for one in findings:
        if one.relation not in asked:
            continue
        if one.relation != last:
            table.add_row(Text(safe(one.relation), style="bold"))
            last = one.relation
        table.add_row(*_cells(one))
    console.print(heading(f"The atlas of {safe(str(about['model'].get('source', 'a model')))}"))
    counted = f"{about['sentences']:,} sentences, {about['documents']:,} documents, {about['words']:,} words"
    if about["unaligned"]:
        counted += f"; {about['unaligned']:,} sentences could not be aligned (atlas.json lists them)"
    console.print(Text(counted, style="bright_black"))
    console.print(table)
    absent = dict.fromkeys(safe(one.relation) for one in findings if one.relation not in asked)
    if absent:
        console.print(Text(f"Not a pair in these corpora: {', '.join(absent)}.", style="bright_black"))
    console.print(Text(EXPLAINED, style="bright_black"))


def _cells(one: Any) -> list[str | Text]:
    verdict = Text(VERDICTS[one.verdict], style=_COLOURS[one.verdict])
    begin = [f"  {safe(one.direction)}", f"{one.pairs:,}"]
    if one.held_out is None:
        return [*begin, "", "", "", "", verdict]
    held_out, control = one.held_out, one.controls[one.best_control]
    rule = one.rules.get(one.best_control, "random weights")
    for long, short in _SIDES.items():
        rule = rule.replace(long, short)
    return [
        *begin,
        f"{one.layer}.{one.head}{'*' if one.lens == 'wrote' else ''}",
        f"{100 * held_out.accuracy:.1f} ({100 * held_out.low:.0f}–{100 * held_out.high:.0f})",
        f"{rule} {100 * control.accuracy:.1f}",
        f"{100 * one.gain.accuracy:+.1f}",
        verdict,
    ]


def show_changes(changes: Sequence[Any], console: Console) -> None:
    """Print two atlases side by side."""
    table = Table(box=None, pad_edge=False, header_style="bright_black")
    for name in ("relation", "before", "after", "difference", "beyond chance"):
        table.add_column(name, justify="right" if name == "difference" else "left")
    for change in changes:
        difference = change.difference
        table.add_row(
            f"{safe(change.relation)} {safe(change.direction)}",
            _side(change.before),
            _side(change.after),
            "" if difference is None else f"{100 * difference:+.1f}",
            "" if difference is None else "yes" if change.beyond_chance else "no",
        )
    console.print(table)


def _side(one: Any) -> str:
    if one is None:
        return "not asked"
    if one.held_out is None:
        return VERDICTS["few"]
    return f"{100 * one.held_out.accuracy:.1f} by {one.layer}.{one.head}, {VERDICTS[one.verdict]}"
