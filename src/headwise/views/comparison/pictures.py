"""The comparison as pictures: curves against distance, costs, paths; and a head beside filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.views.comparison.looks import LOOKS, words_of

PLAIN: dict[str, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "svg.hashsalt": "headwise",
    "svg.fonttype": "none",
}
TITLES = {
    "recall": "Recall: a pair asked for later",
    "copying": "Copying after a gap",
    "agreement": "Agreement over distractors",
    "text": "Ordinary text",
    "little text": "Ordinary text, little of it",
}


def draw_comparison(found: Mapping[str, Any], directory: Path, name: str = "comparison") -> list[Path]:
    """Write name.png and name.svg."""
    panels: list[Callable[[Any], None]] = [lambda axes, task=task: _task(axes, task) for task in found["tasks"]]
    panels += [
        lambda axes: _training(axes, found),
        lambda axes: _reading(axes, found, "seconds", 1e3, "Time to read", "milliseconds"),
        lambda axes: _reading(axes, found, "bytes", 2**-20, "Memory to read", "MiB held at once"),
        lambda axes: _paths(axes, found),
    ]

    def draw(new_figure: Callable[..., Any]) -> Any:
        columns = 3
        rows = -(-len(panels) // columns)
        figure = new_figure(figsize=(12, 3.3 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            panel(axes)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        handles = [_handle(mixer) for mixer in found["mixers"]]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=10.5)
        return figure

    return _write(draw, directory, name)


def draw_sight(found: Mapping[str, Any], directory: Path, name: str = "heads-and-filters") -> list[Path]:
    """Write name.png and name.svg: the words of one sentence, and what a head and filters see of them."""
    seen, words = found["seen"], found["words"]

    def draw(new_figure: Callable[..., Any]) -> Any:
        size = (max(7.0, 0.62 * len(words) + 1.6), 0.9 + 1.25 * len(seen))
        figure = new_figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(seen), 1, squeeze=False, sharex=True)
        for axes, (mixer, own) in zip(grid[:, 0], seen.items(), strict=True):
            _strip(axes, mixer, own, words)
        grid[-1, 0].set_xticks(range(len(words)), words)
        grid[-1, 0].get_xticklabels()[found["asked"]].set_fontweight("bold")
        return figure

    return _write(draw, directory, name)


def _write(draw: Callable[[Any], Any], directory: Path, name: str) -> list[Path]:
    """Both formats, each under a temporary name until it is whole."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise HeadwiseError("the pictures need matplotlib: pip install 'headwise[plots]'") from None
    paths: list[Path] = []
    settings: Any = PLAIN
    with matplotlib.rc_context(settings):
        figure = draw(Figure)
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            path, part = directory / f"{name}.{kind}", directory / f".{name}.{kind}.part"
            try:
                figure.savefig(part, format=kind, dpi=110, metadata=metadata)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
            paths.append(path)
    return paths


def _handle(mixer: str) -> Any:
    from matplotlib.lines import Line2D

    look = LOOKS[mixer]
    line: Any = look.line
    return Line2D([], [], color=look.colour, marker=look.marker, linestyle=line, linewidth=2, label=look.name)


def _curve(axes: Any, mixer: str, x: Sequence[float], y: Sequence[float]) -> None:
    look = LOOKS[mixer]
    style = {"color": look.colour, "marker": look.marker, "linestyle": look.line}
    # The first line is broad and the others broken, so that it shows where they lie upon it.
    width, size = (3.2, 7) if look.line == "-" else (1.9, 5)
    axes.plot(x, y, **style, linewidth=width, markersize=size, alpha=0.9)


def _task(axes: Any, task: Mapping[str, Any]) -> None:
    """Right answers against distance."""
    text = task["name"].endswith("text")
    for mixer, curve in task["curves"].items():
        _curve(axes, mixer, [point["distance"] for point in curve], [100 * point["accuracy"] for point in curve])
    distances = sorted({point["distance"] for curve in task["curves"].values() for point in curve})
    _log_axis(axes, distances)
    axes.axhline(100 * task["chance"], color="#999999", linewidth=1, linestyle=(0, (2, 2)), zorder=0)
    beside = axes.get_yaxis_transform()
    axes.text(1.01, 100 * task["chance"], "guess", transform=beside, color="#777777", fontsize=8, va="center")
    if not text:
        axes.set_ylim(-3, 104)
    axes.set(
        title=TITLES.get(task["name"], task["name"]),
        xlabel="characters read before, up to" if text else "words apart, up to",
        ylabel="right answers, %",
    )


def _training(axes: Any, found: Mapping[str, Any]) -> None:
    """A bar for each mixer."""
    mixers = found["mixers"]
    values = [1e6 * found["training_seconds_per_token"][mixer] for mixer in mixers]
    bars = axes.barh(range(len(mixers)), values, color=[LOOKS[mixer].colour for mixer in mixers], height=0.62)
    axes.bar_label(bars, fmt="%.0f", padding=4, color="#444444")
    axes.set_yticks(range(len(mixers)), [LOOKS[mixer].name.replace(" ", "\n") for mixer in mixers])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    axes.set(title="Training", xlabel="µs a token")


def _reading(axes: Any, found: Mapping[str, Any], field: str, factor: float, title: str, unit: str) -> None:
    """A cost against the length of the text, both in doublings."""
    for mixer in found["mixers"]:
        points = found["reading"][mixer]
        _curve(axes, mixer, [point["tokens"] for point in points], [factor * point[field] for point in points])
    _log_axis(axes, [point["tokens"] for point in found["reading"][found["mixers"][0]]])
    axes.set_yscale("log", base=10 if field == "seconds" else 2)
    _plain_numbers(axes)
    axes.set(title=title, xlabel="words", ylabel=unit)


def _paths(axes: Any, found: Mapping[str, Any]) -> None:
    """Mixings between two words; a line ends where the signal no longer arrives."""
    for mixer in found["mixers"]:
        points = [point for point in found["paths"][mixer] if point["mixings"] is not None]
        _curve(axes, mixer, [point["distance"] for point in points], [point["mixings"] for point in points])
    distances = [point["distance"] for point in next(iter(found["paths"].values()))]
    _log_axis(axes, distances[::3])
    axes.set_yscale("log")
    _plain_numbers(axes)
    axes.set(title="Path between two words", xlabel="words apart", ylabel="mixings on the way")


def _log_axis(axes: Any, ticks: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [words_of(tick) for tick in ticks])
    axes.minorticks_off()


def _plain_numbers(axes: Any) -> None:
    """1, 10, 100, and no powers."""
    from matplotlib.ticker import FuncFormatter

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def _strip(axes: Any, mixer: str, own: Mapping[str, Any], words: Sequence[str]) -> None:
    """A bar for each word that is seen; the others are grey."""
    look = LOOKS[mixer]
    places = [at for at, value in enumerate(own["values"]) if value is not None]
    axes.bar(places, [own["values"][at] for at in places], color=look.colour, width=0.7)
    for at in range(len(words)):
        if own["values"][at] is None:
            axes.axvspan(at - 0.5, at + 0.5, color="#eeeeee", zorder=0, linewidth=0)
    axes.axhline(0, color="#888888", linewidth=0.8)
    axes.set_xlim(-0.6, len(words) - 0.4)
    axes.grid(axis="x", visible=False)
    what = "weight of each word" if own["kind"] == "head" else "what each word adds; grey: out of its sight"
    axes.set_title(f"{look.name}: layer {own['layer']}, {own['kind']} {own['number']} ({what})", fontsize=10)
