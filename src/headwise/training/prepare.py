"""From a file of text to tokens on disk: the tokenizer, the parts that train and validate, and what was left out."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from headwise.checkpoints.save import write_json
from headwise.checkpoints.sources import find
from headwise.checkpoints.tokenizer import Tokenizer, open_tokenizer
from headwise.errors import DataError, RecipeError
from headwise.training.clean import RowReport, clean_rows, key_of, made_rows, part_of
from headwise.training.layouts import Columns, Cuts, Layout, make_layout
from headwise.training.recipe import Recipe
from headwise.training.recipe_file import flat
from headwise.training.rows import Row, read_rows
from headwise.training.tokens import Tokens, TokenWriter, read_about

CHUNK = 2000
"""Rows that are tokenised at once, on all processors."""


@dataclass(frozen=True)
class Source:
    """Where the rows come from, and what is done with bad ones."""

    data: Path | None
    validation: Path | None = None
    skip_bad: bool = False


@dataclass(frozen=True)
class Prepared:
    """What the loop needs of the data."""

    tokenizer: Tokenizer
    layout: Layout
    train: Columns
    validation: Columns
    about: dict[str, Any]


def prepare(recipe: Recipe, source: Source, out: Path, tell: Callable[[str], None]) -> Prepared:
    """The tokens in `out`, tokenised now if they are not there yet."""
    directory, wanted = out / "tokens", _print_of(recipe, source)
    about = read_about(directory)
    if about is None or about.get("print") != wanted:
        if (out / "last").exists():
            raise DataError(f"{out}: the run that is there was begun with other data; choose another --out")
        _tokenise(recipe, source, out, wanted, tell)
        about = read_about(directory)
    if about is None:
        raise DataError(f"{directory}: cannot be read again")
    tokenizer = _tokenizer(recipe, out)
    layout = make_layout(recipe, tokenizer)
    parts = {
        part: {name: Tokens(directory, f"{part}.{name}") for name in layout.columns} for part in ("train", "validation")
    }
    return Prepared(tokenizer, layout, parts["train"], parts["validation"], about)


def part_rows(recipe: Recipe, source: Source, part: str) -> Iterator[Row]:
    """The clean rows of one part of the data: "train", "validation" or "test"."""
    return (row for row, its in _placed(recipe, source, RowReport(_named(source.data))) if its == part)


def _tokenise(recipe: Recipe, source: Source, out: Path, wanted: str, tell: Callable[[str], None]) -> None:
    """Everything under a temporary name first; `about.json` comes last and makes it whole."""
    directory, part = out / "tokens", out / ".tokens.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)
    if recipe.model.checkpoint is None:
        tell("training the tokenizer")
        texts = (text for row in part_rows(recipe, source, "train") for text in row.texts.values())
        from headwise.training.vocabulary import train_tokenizer

        train_tokenizer(texts, recipe, out / "tokenizer")
    tell("tokenising")
    tokenizer = _tokenizer(recipe, out)
    layout, report, cuts = make_layout(recipe, tokenizer), RowReport(_named(source.data)), Cuts()
    writers = {
        (its, name): TokenWriter(part, f"{its}.{name}") for its in ("train", "validation") for name in layout.columns
    }
    counts: dict[str, int] = {"train": 0, "validation": 0, "test": 0}
    rows = _placed(recipe, source, report)
    while chunk := list(islice(rows, CHUNK)):
        for its in ("train", "validation"):
            texts = [row.texts for row, place in chunk if place == its]
            for name, ids in layout.encode(texts, cuts).items() if texts else ():
                writers[its, name].add(ids)
        for _, place in chunk:
            counts[place] += 1
    for writer in writers.values():
        writer.close()
    for its in ("train", "validation"):
        if not counts[its]:
            raise DataError(f"{_named(source.data)}: no row is left for {its}; mend data.validation or give a file")
    write_json(part / "about.json", {"print": wanted, "rows": counts, **asdict(cuts), **asdict(report)})
    part.rename(directory)


def _placed(recipe: Recipe, source: Source, report: RowReport) -> Iterator[tuple[Row, str]]:
    """The clean rows and their parts; with a validation file of its own only the test part is taken out."""
    rows = made_rows(recipe) if source.data is None else read_rows(source.data, recipe.columns)
    for row in clean_rows(rows, report, source.skip_bad):
        its = part_of(key_of(row), recipe.data)
        yield row, "train" if its == "validation" and source.validation is not None else its
    if source.validation is not None:
        own = RowReport(str(source.validation))
        for row in clean_rows(read_rows(source.validation, recipe.columns), own, source.skip_bad):
            yield row, "validation"


def _tokenizer(recipe: Recipe, out: Path) -> Tokenizer:
    if recipe.model.checkpoint is None:
        return open_tokenizer(out / "tokenizer")
    if recipe.tokenizer.vocabulary is not None:
        raise RecipeError("recipe", "tokenizer.vocabulary", "a checkpoint brings its own tokenizer")
    return open_tokenizer(find(recipe.model.checkpoint))


def _print_of(recipe: Recipe, source: Source) -> str:
    """What the tokens depend on, as a hash: the bytes of the files and the fields of the recipe."""
    chosen = {
        name: value
        for name, value in flat(recipe).items()
        if name in ("task", "seed", "model.checkpoint") or name.split(".")[0] in ("data", "tokenizer")
    }
    digest = hashlib.sha256(json.dumps([chosen, source.skip_bad]).encode())
    for path in (source.data, source.validation):
        if path is None:
            continue
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _named(path: Path | None) -> str:
    return "rows made on the fly" if path is None else str(path)
