"""The comparison on a console: a table for each task, the costs, the paths, a head beside filters, and what it says."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headwise.views.comparison.looks import LOOKS, words_of
from headwise.views.terminal.style import ASCII, UNICODE, Glyphs, heading, long_bar, safe


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print everything."""
    glyphs = ASCII if console.options.ascii_only else UNICODE
    for part in _parts(found, glyphs):
        console.print(part, highlight=False)


def _parts(found: Mapping[str, Any], glyphs: Glyphs) -> Iterator[RenderableType]:
    for task in found["tasks"]:
        yield from _task(task)
    yield from _costs(found)
    yield from _paths(found)
    if found.get("sees"):
        yield from sees(found["sees"], glyphs)
    yield heading("What the numbers say")
    for sentence in found["says"]:
        yield Padding(Text(f"- {sentence}"), (0, 0, 0, 2))


def _grid(*columns: str) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    grid.header_style = "bright_black"
    grid.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        grid.add_column(column, justify="right", no_wrap=True)
    return grid


def _task(task: Mapping[str, Any]) -> Iterator[RenderableType]:
    """How often each mixer is right, by distance."""
    text = task["name"].endswith("text")
    far = "characters before" if text else "words apart"
    note = f"  {far}, up to; a guess: {task['chance']:.0%}"
    yield heading(f"{task['name']}: right answers") + Text(note, style="not bold bright_black")
    distances = sorted({point["distance"] for curve in task["curves"].values() for point in curve})
    grid = _grid("", *map(str, distances), *(["bits"] if text else []), "parameters")
    for mixer, curve in task["curves"].items():
        right = {point["distance"]: f"{point['accuracy']:.0%}" for point in curve}
        cells = [right.get(distance, "") for distance in distances]
        bits = [f"{_mean_bits(curve):.2f}"] if text else []
        grid.add_row(LOOKS[mixer].name, *cells, *bits, f"{task['parameters'][mixer]:,}")
    yield grid
    yield ""


def _mean_bits(curve: Sequence[Mapping[str, Any]]) -> float:
    return sum(point["bits"] * point["answers"] for point in curve) / sum(point["answers"] for point in curve)


def _costs(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Training per token; time and memory to read n words."""
    names = [words_of(point["tokens"]) for point in next(iter(found["reading"].values()))]
    yield heading("time") + Text("  training: µs a token; reading so many words: ms", style="not bold bright_black")
    grid = _grid("", "training", *names)
    for mixer in found["mixers"]:
        times = [_three_digits(1e3 * point["seconds"]) for point in found["reading"][mixer]]
        grid.add_row(LOOKS[mixer].name, f"{1e6 * found['training_seconds_per_token'][mixer]:.0f}", *times)
    yield grid
    yield ""
    yield heading("memory") + Text("  held at once while so many words are read: MiB", style="not bold bright_black")
    grid = _grid("", *names)
    for mixer in found["mixers"]:
        grid.add_row(LOOKS[mixer].name, *(_three_digits(point["bytes"] / 2**20) for point in found["reading"][mixer]))
    yield grid
    yield ""


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _paths(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Mixings between two words; a dash where there is no path."""
    note = "  how often a signal is mixed between two words so far apart; -: it never arrives"
    yield heading("path") + Text(note, style="not bold bright_black")
    distances = [point["distance"] for point in next(iter(found["paths"].values()))]
    shown = [distance for at, distance in enumerate(distances) if at % 2 == 0 or distance == distances[-1]]
    grid = _grid("", *map(words_of, shown))
    for mixer in found["mixers"]:
        steps = {point["distance"]: point["mixings"] for point in found["paths"][mixer]}
        cells = ["-" if steps[distance] is None else f"{steps[distance]:,}" for distance in shown]
        grid.add_row(LOOKS[mixer].name, *cells)
    yield grid
    yield ""


def sees(found: Mapping[str, Any], glyphs: Glyphs) -> Iterator[RenderableType]:
    """The sentence downwards; beside each word what the head gives it, and what it adds to each filter."""
    words, seen = found["words"], found["seen"]
    if not seen:
        return
    yield heading(f"heads beside filters: what the last word, “{safe(words[found['asked']])}”, sees")
    grid = _grid("word", *(_title(mixer, own) for mixer, own in seen.items()))
    for column in grid.columns[1:]:
        column.justify = "left"
    largest = {mixer: max(abs(value or 0) for value in own["values"]) or 1 for mixer, own in seen.items()}
    for at, word in enumerate(words):
        cells = [_cell(own["values"][at], largest[mixer], glyphs) for mixer, own in seen.items()]
        grid.add_row(safe(word), *cells)
    yield grid
    noun = safe(words[found["noun"]])
    yield Text(
        f"head: the weight of each word, of the head that looks at “{noun}” most; filter: what each word adds to it, "
        "of the filter that the words move most; blank: out of its sight. "
        f"Recorded while the models read; off by at most {max(own['off'] for own in seen.values()):.1e}."
    )
    answers = "; ".join(
        f"{LOOKS[mixer].name} {max(own, key=lambda word: own[word])} {max(own.values()):.0%}"
        for mixer, own in found["answers"].items()
    )
    yield Text(f"the next word: {answers}")
    yield ""


def _title(mixer: str, own: Mapping[str, Any]) -> str:
    return f"{LOOKS[mixer].name}\nlayer {own['layer']}, {own['kind']} {own['number']}"


def _cell(value: float | None, largest: float, glyphs: Glyphs) -> str:
    return "" if value is None else f"{value:6.2f} {long_bar(abs(value) / largest, 10, glyphs)}"
