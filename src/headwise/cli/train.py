"""`headwise train`: a recipe and rows of text become a checkpoint."""

from pathlib import Path
from typing import Annotated

import typer

_HELP = """Train a Transformer by a recipe; the same command goes on with a run that was stopped.

The directory holds the recipe as run, metrics.jsonl, samples.jsonl, a plot of the loss, and the checkpoints last/ and
best/, which headwise generate, explain and summarize open, and the transformers library too.

[bold]Examples[/bold]

  headwise train recipes/copy.toml --out runs/copy

  headwise train recipes/summarizer.toml --data pairs.jsonl --out runs/first

  headwise train recipes/translate.toml --data eng-fra.tsv.gz --out runs/translate

  torchrun --nproc-per-node 2 -m headwise train recipes/summarizer.toml --data pairs.jsonl --out runs/first
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train", help=_HELP)(train)


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe, in TOML.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The directory of the run.")],
    data: Annotated[
        Path | None, typer.Option(help="JSONL, CSV, TSV, Parquet or plain text; .gz too.", show_default=False)
    ] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Rows to validate with, instead of a share.", show_default=False)
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out empty, duplicate and broken rows.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Tell nothing on the way.")] = False,
) -> None:
    """Parse, train, tell where it is."""
    from headwise.training.train import train as run

    done = run(recipe, data, out, validation=validation, skip_bad=skip_bad, quiet=quiet)
    if not done.finished:
        typer.echo(f"stopped after step {done.steps:,}; the same command goes on", err=True)
        raise typer.Exit(130)
    found = next((line for line in reversed(done.metrics) if "validation_loss" in line), {})
    figures = ", ".join(f"{name} {found[name]:.4g}" for name in ("validation_loss", "exact") if name in found)
    typer.echo(f"{done.steps:,} steps, {figures}: {done.best}")
