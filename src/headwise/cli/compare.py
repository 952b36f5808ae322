"""`headwise compare`: attention beside convolution and recurrence, on tasks that need a link over a distance."""

import json
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import HeadwiseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwise.training.compare import Wanted

_HELP = """Train small models that differ only in what mixes their words, and compare what they can and what they cost.

Multi-head attention, causal convolution (plain and dilated), LSTM and GRU, equal in parameters, learn to recall, \
to copy, to agree over a distance, and to predict ordinary text. Four to five minutes.

[bold]Examples[/bold]

  headwise compare

  headwise compare --mixers attention,lstm --tasks recall,text --text book.txt --out runs/mixers

  headwise compare --tasks agreement --show "the keys near the lamp by the door ,"
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare", help=_HELP)(compare)


def compare(
    mixers: Annotated[
        str | None,
        typer.Option(help="Which to compare.", show_default="attention,convolution,dilated,lstm,gru"),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(help="What they learn.", show_default="recall,copying,agreement,text,little text"),
    ] = None,
    text: Annotated[
        Path | None, typer.Option(help="Ordinary text to learn from.", show_default="the help topics of Python")
    ] = None,
    show: Annotated[
        str | None, typer.Option(help="The sentence for heads beside filters, in the words of agreement.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of every training.", show_default="200 to 800, by task")
    ] = None,
    longest: Annotated[int, typer.Option(help="Words of the longest text whose reading is measured.")] = 8192,
    seed: Annotated[int, typer.Option(help="Another seed draws other weights and examples.", min=0, max=2**32)] = 0,
    out: Annotated[Path, typer.Option(help="The directory for results.json and the pictures.")] = Path("compared"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Train, measure, draw, and say what the numbers say."""
    wanted = _wanted(mixers, tasks, text, steps, longest, seed)
    if show is not None and "agreement" not in wanted.tasks:
        raise HeadwiseError("--show: its sentence is read by the models of agreement; wanted agreement among --tasks")
    _check_pictures()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HeadwiseError(f"--out: {out}: {error.strerror}") from None
    found = _measure(wanted, show)
    paths = _write(found, out)
    if as_json:
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    else:
        _print(found)
    typer.echo(f"written: {', '.join(str(path) for path in paths)}", err=as_json)


def _wanted(
    mixers: str | None, tasks: str | None, text: Path | None, steps: int | None, longest: int, seed: int
) -> "Wanted":
    from headwise.training.compare import TASKS, Wanted
    from headwise.transformer.config import MIXERS

    if not 2 <= longest <= 2**20:
        raise HeadwiseError(f"--longest: got {longest}, wanted 2 to {2**20:,} words")
    given: dict[str, Any] = {
        "mixers": MIXERS if mixers is None else _names(mixers),
        "tasks": TASKS if tasks is None else _names(tasks),
        "lengths": [longest >> halved for halved in reversed(range(5)) if longest >> halved],
    }
    wanted = Wanted(**given, steps=steps, text=text, seed=seed)
    wanted.check()
    return wanted


def _names(given: str) -> list[str]:
    return [name.strip().replace("-", " ") for name in given.split(",") if name.strip()]


def _check_pictures() -> None:
    """Rather now than after five minutes."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise HeadwiseError("the pictures need matplotlib: pip install 'headwise[plots]'")


def _measure(wanted: "Wanted", show: str | None) -> dict[str, Any]:
    """All that is found, as plain data."""
    from headwise.analysis.heads_and_filters import SENTENCE, check_sentence, heads_and_filters
    from headwise.training.compare import compare as run
    from headwise.training.compare_says import say

    sentence = SENTENCE if show is None else show
    check_sentence(sentence)
    with _progress(wanted.ticks()) as tick:
        comparison = run(wanted, tick)
    found = comparison.as_dict()
    models = comparison.models("agreement")
    found["sees"] = heads_and_filters(models, sentence) if models else None
    return found | {"says": say(found)}


@contextmanager
def _progress(total: int) -> "Generator[Callable[[str], None]]":
    """A bar on standard error: what is under way, how much is done, and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<26}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda what: bar.update(task, advance=1, description=what)


def _write(found: Mapping[str, Any], out: Path) -> list[Path]:
    """results.json and the pictures, each under a temporary name until it is whole."""
    from headwise.checkpoints.save import write_json
    from headwise.views.comparison.pictures import draw_comparison, draw_sight

    write_json(out / "results.json", found)
    paths = [out / "results.json", *draw_comparison(found, out)]
    return [*paths, *draw_sight(found["sees"], out)] if found["sees"] and found["sees"]["seen"] else paths


def _print(found: Mapping[str, Any]) -> None:
    from rich.console import Console

    from headwise.views.comparison.terminal import show

    show(found, Console())
