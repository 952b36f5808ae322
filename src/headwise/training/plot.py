"""Curves as a picture: SVG by hand, and PNG where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 64, 16, 28, 44
COLOURS = ("#3366cc", "#dc6900", "#2a8f4f", "#a02c8a")
MOST_POINTS = 1000


class Curve(NamedTuple):
    """A line and its name."""

    name: str
    points: list[tuple[float, float]]


def draw(path: Path, curves: Sequence[Curve], across: str, up: str) -> None:
    """Write path.svg, and path.png where matplotlib is installed; nothing where there is no point."""
    if not curves:
        return
    part = path.with_suffix(".svg.part")
    part.write_text(svg(curves, across, up), encoding="utf-8")
    part.replace(path.with_suffix(".svg"))
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure: Any = Figure(figsize=(7.2, 4), layout="constrained")
    axes = figure.add_subplot()
    for curve, colour in zip(curves, COLOURS, strict=False):
        axes.plot(*zip(*_thinned(curve.points), strict=True), label=curve.name, color=colour)
    axes.set(xlabel=across, ylabel=up)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path.with_suffix(".png"), dpi=150)


def svg(curves: Sequence[Curve], across: str, up: str) -> str:
    """The picture as text."""
    points = [point for curve in curves for point in curve.points]
    x_low, x_high = _range([x for x, _ in points])
    y_low, y_high = _range([y for _, y in points])

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x = LEFT + (point[0] - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - (point[1] - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)
        return x, y

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(up)} over {escape(across)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = place((x_low + share * (x_high - x_low), y_low + share * (y_high - y_low)))
        parts += [
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>',
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{y_low + share * (y_high - y_low):.3g}</text>',
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
            f"{x_low + share * (x_high - x_low):.4g}</text>",
        ]
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        path = "L".join("{:.1f} {:.1f}".format(*place(point)) for point in _thinned(curve.points))
        parts += [
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
            f'<text x="{WIDTH - RIGHT - 8}" y="{TOP + 8 + 16 * number}" text-anchor="end" fill="{colour}">'
            f"{escape(curve.name)}</text>",
        ]
    parts += [
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(across)}</text>',
        f'<text x="{LEFT}" y="16">{escape(up)}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Every so many points, and the last one."""
    apart = -(-len(points) // MOST_POINTS)
    return points[::apart] if (len(points) - 1) % apart == 0 else [*points[::apart], points[-1]]
