"""Rows of text from files: JSONL, CSV, TSV, Parquet and plain text, gzipped or not, one at a time."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from headwise.errors import DataError

Columns = Mapping[str, str | int]
"""What the task calls a column, and its name in the file, or its number from 1 where there is no header."""
LONGEST_LINE = 1 << 26


@dataclass(frozen=True)
class Row:
    """The texts of one row by the task's names, or what is wrong with it; `line` counts from 1."""

    line: int
    texts: dict[str, str]
    problem: str | None = None


def read_rows(path: str | Path, columns: Columns) -> Iterator[Row]:
    """Every row of a file, broken ones too. Lists of sentences are joined; of several targets the first counts."""
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] == ".gz"
    suffix = ["", *suffixes][-2 if packed else -1]
    if suffix not in READERS:
        raise DataError(f"{path}: is none of {', '.join(READERS)}, or one of them followed by .gz")
    if suffix == ".parquet":
        yield from _parquet(path, columns)
        return
    with _opened(path, packed) as file:
        for line, value in READERS[suffix](file, path, columns):
            yield value if isinstance(value, Row) else Row(line, {}, str(value))


@contextmanager
def _opened(path: Path, packed: bool) -> Generator[TextIO]:
    """The text of a file; what cannot be read is told in one line."""
    try:
        # Bytes that are no UTF-8 become marks that each reader turns into a broken row.
        opener: Callable[..., Any] = gzip.open if packed else open
        with opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: is not a whole gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _lines(file: TextIO, path: Path) -> Iterator[tuple[int, str]]:
    """Lines that end in a line feed, and their numbers."""
    line = 0
    while text := file.readline(LONGEST_LINE):
        line += 1
        if len(text) >= LONGEST_LINE:
            raise DataError(f"{path}: line {line}: is longer than {LONGEST_LINE:,} characters")
        yield line, text.rstrip("\r\n")


def _jsonl(file: TextIO, path: Path, columns: Columns) -> Iterator[tuple[int, Row | str]]:
    for line, text in _lines(file, path):
        if not text.strip():
            yield line, "is empty"
            continue
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield line, f"is not valid JSON: {str(error)[:80]}"
            continue
        if isinstance(fields, dict):
            yield line, _row(line, fields, columns)
        else:
            yield line, "is not a JSON object"


def _table(file: TextIO, path: Path, columns: Columns, tabs: bool) -> Iterator[tuple[int, Row | str]]:
    """Separated values; a column given by its number says that there is no header."""
    # Quotes mean nothing between tabs.
    reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(file, strict=True)
    names: dict[str | int, int] = {}
    if all(isinstance(column, str) for column in columns.values()):
        names = {name: place for place, name in enumerate(next(reader, []))}
        check_columns(path, names, columns)
    elif any(isinstance(column, str) for column in columns.values()):
        raise DataError(f"{path}: columns are given by name or by number, wanted all in one way: {columns}")
    begun = reader.line_num + 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield begun, f"is not valid CSV: {error}"
            begun = reader.line_num + 1
            continue
        places = {name: names.get(column, int(column) - 1 if not names else -1) for name, column in columns.items()}
        found = {columns[name]: cells[place] for name, place in places.items() if 0 <= place < len(cells)}
        yield begun, (_row(begun, found, columns) if cells else "is empty")
        begun = reader.line_num + 1


def _csv(file: TextIO, path: Path, columns: Columns) -> Iterator[tuple[int, Row | str]]:
    return _table(file, path, columns, tabs=False)


def _tsv(file: TextIO, path: Path, columns: Columns) -> Iterator[tuple[int, Row | str]]:
    return _table(file, path, columns, tabs=True)


def _plain(file: TextIO, path: Path, columns: Columns) -> Iterator[tuple[int, Row | str]]:
    """Texts with blank lines between them."""
    if list(columns) != ["text"]:
        raise DataError(f"{path}: plain text has no {' and '.join(columns)}; wanted JSONL, CSV, TSV or Parquet")
    paragraph: list[str] = []
    begun = 1
    for line, text in _lines(file, path):
        if text.strip():
            begun = line if not paragraph else begun
            paragraph.append(text)
        elif paragraph:
            yield begun, _checked(begun, {"text": "\n".join(paragraph)})
            paragraph = []
    if paragraph:
        yield begun, _checked(begun, {"text": "\n".join(paragraph)})


def _parquet(path: Path, columns: Columns) -> Iterator[Row]:
    """Batches of rows, so that a large file never stands in memory; rows count from 1."""
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError:
        raise DataError(f"{path}: Parquet needs pyarrow: pip install 'headwise[parquet]'") from None
    line = 0
    try:
        with parquet.ParquetFile(path) as file:
            names = {name: place for place, name in enumerate(file.schema_arrow.names)}
            check_columns(path, names, columns)
            for batch in file.iter_batches(1024, columns=[str(column) for column in columns.values()]):
                for fields in batch.to_pylist():
                    line += 1
                    yield _row(line, fields, columns)
    except (ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read: {' '.join(str(error).split())[:160]}") from error


def check_columns(path: Path, names: Mapping[Any, int], columns: Columns) -> None:
    """Refuse a column that the file has not, and say which it has."""
    for name, column in columns.items():
        if column not in names:
            has = ", ".join(str(one)[:40] for one in list(names)[:12])
            raise DataError(f"{path}: has no column {column!r} for data.{name}; it has {has or 'none'}")


def _row(line: int, fields: Mapping[Any, Any], columns: Columns) -> Row:
    texts: dict[str, str] = {}
    for name, column in columns.items():
        if column not in fields:
            return Row(line, {}, f"has no {column!r}")
        value = fields[column]
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            value = value[0] if name == "target" else " ".join(value)
        if not isinstance(value, str):
            return Row(line, {}, f"{column!r} is no text")
        texts[name] = value
    return _checked(line, texts)


def _checked(line: int, texts: dict[str, str]) -> Row:
    texts = {name: text.strip() for name, text in texts.items()}
    for name, text in texts.items():
        if not text:
            return Row(line, {}, f"empty {name}")
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            return Row(line, {}, f"{name} is not valid UTF-8")
    return Row(line, texts)


READERS: dict[str, Callable[[TextIO, Path, Columns], Iterator[tuple[int, Row | str]]]] = {
    ".jsonl": _jsonl,
    ".json": _jsonl,
    ".csv": _csv,
    ".tsv": _tsv,
    ".txt": _plain,
    ".parquet": lambda file, path, columns: iter(()),
}
