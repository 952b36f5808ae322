"""`headwise worksheet`: a pencil-and-paper exercise in attention, with its solution."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.errors import HeadwiseError
from headwise.written import write_text

if TYPE_CHECKING:
    from headwise.analysis.exercise import Exercise

_HELP = """A pencil-and-paper exercise: attention, step by step, with numbers a person can multiply.

[bold]Examples[/bold]

  headwise worksheet "Action gets results" --dim 4 --heads 2 --seed 7

  headwise worksheet "Action gets results" --seed 7 --answers --out solution.html

  headwise worksheet --numbers lesson.toml --out lesson.md
"""
_FORMATS = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worksheet", help=_HELP)(worksheet)


def worksheet(
    text: Annotated[
        str | None, typer.Argument(help="The words of the exercise, at most 12.", show_default=False)
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Numbers per word.", show_default="4")] = None,
    heads: Annotated[int | None, typer.Option(help="Heads; must divide --dim.", show_default="2")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other numbers.")] = 0,
    causal: Annotated[bool, typer.Option("--causal", help="No word may look at a later one.")] = False,
    numbers: Annotated[
        Path | None, typer.Option(help="A TOML file with your own embeddings and matrices, in place of TEXT.")
    ] = None,
    answers: Annotated[bool, typer.Option("--answers", help="Print the solution.")] = False,
    format: Annotated[
        str | None, typer.Option(help="markdown or html; the suffix of --out decides otherwise.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file.", show_default=False)] = None,
) -> None:
    """Draw the exercise, solve it and set it as Markdown or HTML."""
    chosen = _format(format, out)
    if (text is None) == (numbers is None):
        raise HeadwiseError("text: wanted either a TEXT or --numbers FILE, for example: headwise worksheet 'It works'")
    exercise = _draw(text, dim, heads, seed, causal) if numbers is None else _read(numbers, dim, heads, seed, causal)
    written = _typeset(exercise, answers, chosen)
    if out is None:
        sys.stdout.write(written)
    else:
        write_text(out, written)


def _draw(text: str | None, dim: int | None, heads: int | None, seed: int, causal: bool) -> "Exercise":
    from headwise.analysis.exercise import draw

    words = tuple((text or "").split())
    return draw(words, 4 if dim is None else dim, 2 if heads is None else heads, causal, seed)


def _read(numbers: Path, dim: int | None, heads: int | None, seed: int, causal: bool) -> "Exercise":
    """The exercise of the file, which alone decides its sizes."""
    from headwise.analysis.exercise_file import read_exercise

    for option, given in (("--dim", dim), ("--heads", heads), ("--causal", causal or None)):
        if given is not None:
            raise HeadwiseError(f"{option}: got it beside --numbers, wanted it in the file {numbers}")
    return read_exercise(numbers, seed)


def _typeset(exercise: "Exercise", answers: bool, format: str) -> str:
    from headwise.analysis.exercise import solve
    from headwise.views.worksheet.markdown import markdown
    from headwise.views.worksheet.page import page
    from headwise.views.worksheet.sheet import Sheet, blocks

    sheet = Sheet(
        words=exercise.words,
        heads=exercise.heads,
        causal=exercise.causal,
        embeddings=exercise.embeddings,
        matrices=(exercise.query, exercise.key, exercise.value),
        output=exercise.output,
        **solve(exercise)._asdict(),
    )
    parts = blocks(sheet, answers)
    return page(parts, answers) if format == "html" else markdown(parts)


def _format(format: str | None, out: Path | None) -> str:
    if format is not None:
        if format not in ("markdown", "html"):
            raise HeadwiseError(f"--format: got {format!r}, wanted markdown or html")
        return format
    if out is None:
        return "markdown"
    if out.suffix.lower() not in _FORMATS:
        raise HeadwiseError(f"--out: got the suffix {out.suffix!r}, wanted .md or .html, or say --format")
    return _FORMATS[out.suffix.lower()]
