"""`headwise atlas`: which relation each head of a model reads, over annotated corpora."""

import shlex
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.errors import HeadwiseError

_HELP = """Which relation each head of a model reads, measured over annotated corpora with honest controls.

CORPORA are CoNLL-U (.conllu), CoNLL-U-Lex (.conllulex), JSON lines (.jsonl) or GAP (.tsv), as they are or packed \
(.gz). An atlas that was stopped continues when the same command is given again. `headwise atlas diff A B` compares two.

[bold]Examples[/bold]

  headwise atlas minilm corpus.conllu --out atlas/

  headwise atlas --list-relations

  headwise atlas minilm corpus.conllu --dry-run --relation subject

  headwise atlas smollm2 a.conllu b.conllulex gap.tsv --relation mine.toml --engine ray --workers 4

  headwise atlas diff atlas/ other/
"""
EXAMPLES = 4
"""Pairs that a dry run shows of each relation."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("atlas", help=_HELP)(atlas)


def atlas(
    model: Annotated[str | None, typer.Argument(help="A name, a directory, a .gguf file or a hub id.")] = None,
    corpora: Annotated[list[Path] | None, typer.Argument(help="Annotated files.", show_default=False)] = None,
    out: Annotated[Path, typer.Option(help="The directory to write to.")] = Path("atlas"),
    relation: Annotated[
        list[str] | None, typer.Option(help="A shipped relation or a .toml file; may be given again.")
    ] = None,
    list_relations: Annotated[bool, typer.Option("--list-relations", help="Print the relations and leave.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show example pairs of the corpora and leave.")] = False,
    seed: Annotated[int, typer.Option(help="Of halves, intervals, random weights.", min=0)] = 0,
    random: Annotated[bool, typer.Option("--random/--no-random", help="Run the model with random weights too.")] = True,
    knockouts: Annotated[int, typer.Option(help="Sentences read without each head in turn; 0: none.", min=0)] = 24,
    limit: Annotated[int | None, typer.Option(help="Read so many sentences at most.", min=1)] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for many processes or machines.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a ray cluster; otherwise this machine.")] = None,
    workers: Annotated[int | None, typer.Option(help="Of ray.", min=1)] = None,
    threads: Annotated[int | None, typer.Option(help="Of each process.", min=1)] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Do not continue what was begun in --out.")] = False,
) -> None:
    """Parse, measure, print."""
    named, files = model, corpora or []
    if list_relations:
        _list(relation)
    elif named == "diff":
        _diff(files)
    elif dry_run:
        # Without a model the first word may be a corpus too.
        _dry_run([*([Path(named)] if named and Path(named).is_file() else []), *files], relation)
    else:
        ways = {"engine": engine, "address": address, "workers": workers, "threads": threads}
        options = {"seed": seed, "random": random, "knockouts": knockouts, "limit": limit, "restart": restart}
        _measure(named, files, relation, out, {**ways, **options})


def _measure(
    model: str | None, corpora: list[Path], relation: list[str] | None, out: Path, options: dict[str, Any]
) -> None:
    if model is None or not corpora:
        raise HeadwiseError("wanted a model and at least one corpus, such as: headwise atlas minilm corpus.conllu")
    if options["engine"] not in ("local", "ray"):
        raise HeadwiseError(f"--engine: got {options['engine']!r}, wanted local or ray")
    if options["engine"] == "local" and (options["address"] or options["workers"]):
        raise HeadwiseError("--address and --workers are for --engine ray")
    from rich.console import Console

    from headwise.analysis.atlas.run import atlas as measure
    from headwise.views.terminal.atlas_table import show_atlas

    command = shlex.join(["headwise", *sys.argv[1:]])
    with _progress() as step:
        result = measure(model, corpora, relation, out=out, step=step, command=command, **options)
    show_atlas(result.findings, dict(result.about), Console())
    typer.echo(f"written: {', '.join(str(out / name) for name in ('atlas.html', 'atlas.json', 'atlas.parquet'))}")


def _list(relation: list[str] | None) -> None:
    from headwise.analysis.atlas.relations import choose_relations

    for name, one in choose_relations(relation).items():
        pairs = "the corpus names its pairs" if one.labelled else f"{len(one.rules)} rules"
        typer.echo(f"{name:20}{one.direction(0):28}{one.about} ({pairs})")


def _diff(places: list[Path]) -> None:
    from rich.console import Console

    from headwise.analysis.atlas.diff import compare, differences
    from headwise.analysis.atlas.results import Atlas
    from headwise.views.terminal.atlas_table import show_changes

    if len(places) != 2:
        raise HeadwiseError("diff: wanted two directories, such as: headwise atlas diff a/ b/")
    before, after = (Atlas.load(place) for place in places)
    for name in differences(before, after):
        typer.echo(f"note: the two differ in their {name}")
    show_changes(compare(before, after), Console())


def _dry_run(corpora: list[Path], relation: list[str] | None) -> None:
    """Pairs as they stand in the corpora, to be checked by eye."""
    from headwise.analysis.atlas.corpora import check_corpora, chunks, sentences
    from headwise.analysis.atlas.match import questions
    from headwise.analysis.atlas.relations import choose_relations
    from headwise.views.terminal.style import safe

    check_corpora(corpora)
    relations = choose_relations(relation)
    shown: dict[str, list[str]] = {name: [] for name in relations}
    counts = dict.fromkeys(relations, 0)
    read = 0
    for chunk in islice(chunks(corpora), 8):
        for _, sentence in sentences(chunk):
            read += 1
            for asked in questions(sentence, relations):
                if asked.way == 0:
                    counts[asked.relation] += len(asked.right)
                    if len(shown[asked.relation]) < EXAMPLES:
                        words = [word.form for word in sentence.words]
                        goal = ", ".join(words[at] for at in sorted(asked.right))
                        where = f"{Path(sentence.file).name}:{sentence.line}"
                        line = f"{words[asked.source]} → {goal}   ({where}: {sentence.text[:90]})"
                        shown[asked.relation].append(safe(line))
    typer.echo(f"in the first {read} sentences:")
    for name, lines in shown.items():
        typer.echo(f"{name}: {counts[name]} pairs")
        for line in lines:
            typer.echo(f"    {line}")


@contextmanager
def _progress() -> Generator[Callable[[str, int, int], None]]:
    """A bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def step(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=of, completed=done, rate="")
            speed = next(task.speed for task in bar.tasks if task.id == tasks[what])
            rate = f"{speed:,.0f} {what} a second" if speed and what == "sentences" else ""
            bar.update(tasks[what], completed=done, total=of, rate=rate)

        yield step
