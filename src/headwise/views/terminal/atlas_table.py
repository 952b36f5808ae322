"""The atlas as a table: relation, best head, accuracy, interval, best control, gain, verdict."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwise.views.terminal.style import heading, safe

VERDICTS = {
    "reads": "reads it",
    "position": "more than position",
    "no": "no",
    "few": "too few pairs",
}
EXPLAINED = (
    "reads it: better than every control · more than position: better than the best fixed offset and random weights, "
    "not than the nearest word of the right kind · no: not better than the controls"
)
_COLOURS = {"reads": "green", "position": "yellow", "no": "default", "few": "bright_black"}


def show_atlas(findings: Sequence[Any], about: dict[str, Any], console: Console) -> None:
    """Print the findings."""
    table = Table(box=None, pad_edge=False, header_style="bright_black")
    for name in ("relation", "from→to", "pairs", "best head", "accuracy", "95 %", "best control", "gain", "chance"):
        table.add_column(name, justify="right" if name in ("pairs", "accuracy", "gain", "chance") else "left")
    table.add_column("verdict")
    last = ""
    for one in findings:
        table.add_row(*_cells(one, one.relation if one.relation != last else ""))
        last = one.relation
    console.print(heading(f"The atlas of {safe(str(about['model'].get('source', 'a model')))}"))
    counted = f"{about['sentences']:,} sentences, {about['documents']:,} documents, {about['words']:,} words"
    if about["unaligned"]:
        counted += f"; {about['unaligned']:,} sentences could not be aligned (atlas.json lists them)"
    console.print(Text(counted, style="bright_black"))
    console.print(table)
    console.print(Text(EXPLAINED, style="bright_black"))


def _cells(one: Any, name: str) -> list[str | Text]:
    verdict = Text(VERDICTS[one.verdict], style=_COLOURS[one.verdict])
    begin = [safe(name), safe(one.direction), f"{one.pairs:,}"]
    if one.held_out is None:
        return [*begin, "", "", "", "", "", "", verdict]
    held_out, control = one.held_out, one.controls[one.best_control]
    rule = one.rules.get(one.best_control, "random weights")
    return [
        *begin,
        f"{one.layer}.{one.head} {one.lens}",
        f"{held_out.accuracy:.1%}",
        f"{held_out.low:.1%}–{held_out.high:.1%}",
        f"{rule} {control.accuracy:.1%}",
        f"{100 * one.gain.accuracy:+.1f}",
        _chance(one.chance),
        verdict,
    ]


def _chance(chance: float) -> str:
    return f"{chance:.3f}" if chance >= 0.001 else "<0.001"


def show_changes(changes: Sequence[Any], console: Console) -> None:
    """Print two atlases side by side."""
    table = Table(box=None, pad_edge=False, header_style="bright_black")
    for name in ("relation", "from→to", "before", "after", "difference", "beyond chance"):
        table.add_column(name, justify="right" if name == "difference" else "left")
    for change in changes:
        difference = change.difference
        table.add_row(
            safe(change.relation),
            safe(change.direction),
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
    return f"{one.held_out.accuracy:.1%} by {one.layer}.{one.head}, {VERDICTS[one.verdict]}"
