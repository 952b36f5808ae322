"""`headwise.train`: a recipe, a file of text and a directory."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import DataError, RecipeError, TrainingError
from headwise.training.metrics import read_metrics
from headwise.training.prepare import Source, prepare
from headwise.training.recipe import Recipe
from headwise.training.recipe_file import check_recipe, flat, make_recipe, read_recipe, write_recipe


@dataclass(frozen=True)
class Trained:
    """What a run leaves behind."""

    directory: Path
    finished: bool
    """False where somebody stopped it; the same call goes on."""
    steps: int
    metrics: list[dict[str, Any]]
    """The lines of metrics.jsonl."""

    @property
    def last(self) -> Path:
        """The checkpoint of the last step, for `headwise.load`."""
        return self.directory / "last"

    @property
    def best(self) -> Path:
        """The checkpoint with the lowest validation loss."""
        return self.directory / "best"


def train(
    recipe: str | Path | Recipe | Mapping[str, Any],
    data: str | Path | None = None,
    out: str | Path = "runs/first",
    *,
    validation: str | Path | None = None,
    skip_bad: bool = False,
    quiet: bool = False,
) -> Trained:
    """Train by a recipe: a TOML file, its nested tables, or a `Recipe`; the same call goes on with a run that stopped.

    `data` is JSONL, CSV, TSV, Parquet or plain text, gzipped or not; `validation` a file of its own instead of a share.
    """
    chosen, out = _recipe(recipe), Path(out)
    source = Source(_path(data), _path(validation), skip_bad)
    if (source.data is None) == (chosen.data.made is None):
        raise DataError("data: wanted a file, or a recipe that makes its rows (data.made), and one of the two")
    from headwise.training.distributed import Processes

    processes = Processes()
    try:
        with _alone(out, processes.first):
            return _run(chosen, source, out, processes, shown=not quiet)
    finally:
        processes.close()


def _run(recipe: Recipe, source: Source, out: Path, processes: Any, shown: bool) -> Trained:
    from headwise.training.loop import Loop
    from headwise.training.progress import say

    if processes.first:
        _same_recipe(recipe, out)
        prepare(recipe, source, out, say if shown else lambda text: None)
    processes.wait()
    prepared = prepare(recipe, source, out, lambda text: None)
    loop = Loop(recipe, prepared, out, processes, shown)
    finished = loop.finished or loop.run()
    return Trained(out, finished, loop.position.step, read_metrics(out))


def _recipe(recipe: str | Path | Recipe | Mapping[str, Any]) -> Recipe:
    if isinstance(recipe, Recipe):
        check_recipe(recipe)
        return recipe
    return make_recipe(recipe) if isinstance(recipe, Mapping) else read_recipe(recipe)


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _same_recipe(recipe: Recipe, out: Path) -> None:
    """Write the recipe as it is run; a directory with the run of another one is refused."""
    file = out / "recipe.toml"
    if file.exists():
        before, now = flat(read_recipe(file)), flat(recipe)
        different = [name for name in now if now[name] != before.get(name)]
        if different:
            name = different[0]
            raise RecipeError(
                file, name, f"the run that is there has {before.get(name)!r}, not {now[name]!r}; choose another --out"
            )
        return
    part = out / ".recipe.toml.part"
    part.write_text(write_recipe(recipe), encoding="utf-8")
    part.replace(file)


@contextmanager
def _alone(out: Path, first: bool) -> Generator[None]:
    """The directory, and nobody else who trains in it."""
    if not first:
        yield
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / ".lock").open("w")
    except OSError as error:
        raise TrainingError(f"{out}: cannot be written: {error.strerror}") from error
    with file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass
        except OSError:
            raise TrainingError(f"{out}: another process trains in it") from None
        yield
