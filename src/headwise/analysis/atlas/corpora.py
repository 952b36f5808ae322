"""Corpora as streams: files are cut into chunks of raw records, and a chunk is read where it is worked on."""

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headwise.analysis.atlas.gap import check_gap_header, read_gap
from headwise.analysis.atlas.jsonl import read_jsonl
from headwise.analysis.atlas.sentence import CorpusError, Sentence
from headwise.analysis.atlas.treebank import COLUMNS, read_tree
from headwise.errors import HeadwiseError

CHUNK = 512
"""Sentences in a chunk: the unit of work, of progress and of what a worker does again when another died."""
BLOCKS = 1024
"""Documents are counted in so many blocks at most, so that memory does not grow with the corpus."""
LONGEST = 10_000_000
"""Characters in a line."""
KINDS = {".conllu": "tree", ".conllulex": "tree", ".jsonl": "jsonl", ".tsv": "gap"}


class Record(NamedTuple):
    """One sentence as it stands in the file."""

    line: int
    """The line that it begins at, counted from 1."""
    block: int
    """Its document, modulo the number of blocks."""
    text: str


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of one file."""

    number: int
    file: str
    kind: str
    columns: int
    """Columns of a treebank."""
    records: tuple[Record, ...]
    documents: int
    """How many documents began in it."""


def kind_of(file: Path) -> str:
    """How to read a file, by its name."""
    name = file.with_suffix("") if file.suffix == ".gz" else file
    if name.suffix not in KINDS:
        known = ", ".join(KINDS)
        raise HeadwiseError(f"{file}: got a file that ends in {name.suffix!r}, wanted {known}, or one with .gz behind")
    return KINDS[name.suffix]


def check_corpora(files: Sequence[Path]) -> None:
    """Read the first sentence of each, so that a wrong file is told before the work begins."""
    if not files:
        raise HeadwiseError("corpora: got none, wanted at least one file")
    for file in files:
        first = next(chunks([file], 1))
        for _ in sentences(first):
            pass


def chunks(files: Sequence[Path], size: int = CHUNK, limit: int | None = None) -> Iterator[Chunk]:
    """Every file in turn, as chunks of so many records; they are the same whoever reads them."""
    number = document = read = 0
    for file in files:
        kind, columns = kind_of(file), 0
        held: list[Record] = []
        began, before = 0, read
        for record, fresh in _RECORDS[kind](file):
            if kind == "tree" and not columns:
                columns = _columns(file, record)
            document += fresh
            began += fresh
            held.append(record._replace(block=(document - 1) % BLOCKS))
            read += 1
            if len(held) == size or read == limit:
                yield Chunk(number, str(file), kind, columns, tuple(held), began)
                number, held, began = number + 1, [], 0
                if read == limit:
                    return
        if read == before:
            raise CorpusError(file, 1, "holds no sentence")
        if held:
            yield Chunk(number, str(file), kind, columns, tuple(held), began)
            number += 1


def sentences(chunk: Chunk) -> Iterator[tuple[int, Sentence]]:
    """The sentences of a chunk with their blocks; an error names the line."""
    for record in chunk.records:
        if chunk.kind == "tree":
            sentence = read_tree(chunk.file, record.line, record.text, chunk.columns)
        elif chunk.kind == "jsonl":
            sentence = read_jsonl(chunk.file, record.line, record.text)
        else:
            sentence = read_gap(chunk.file, record.line, record.text)
        yield record.block, sentence


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, without what ends them."""
    opened: io.BufferedIOBase
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:  # type: ignore[assignment]
        number = 0
        while True:
            number += 1
            try:
                raw = opened.readline(LONGEST)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise CorpusError(file, number, f"cannot be unpacked: {error}") from None
            if not raw:
                return
            if len(raw) == LONGEST:
                raise CorpusError(file, number, f"is longer than {LONGEST:,} bytes")
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise CorpusError(file, number, f"byte {error.start + 1} is not UTF-8") from None
            yield number, line.rstrip("\r\n")


def _trees(file: Path) -> Iterator[tuple[Record, bool]]:
    """Blocks between empty lines; a document begins at "# newdoc", or at every sentence where there is none."""
    marked = False
    held: list[str] = []
    begun = 0
    for number, line in _closed(_lines(file)):
        if line.strip():
            begun = begun or number
            held.append(line)
        elif held:
            opens = any(line.startswith("# newdoc") for line in held)
            marked = marked or opens
            if any(not line.startswith("#") for line in held):
                yield Record(begun, 0, "\n".join(held)), opens or not marked
            held, begun = [], 0


def _closed(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """With an empty line at the end."""
    yield from lines
    yield 0, ""


def _json_lines(file: Path) -> Iterator[tuple[Record, bool]]:
    """A line a text; neighbours of one "document" belong together."""
    last = None
    for number, line in _lines(file):
        if line.strip():
            document = None
            if '"document"' in line:
                try:
                    document = json.loads(line).get("document")
                except (ValueError, AttributeError, RecursionError):
                    document = None  # told where the line is read
            yield Record(number, 0, line), document is None or document != last
            last = document


def _gap_rows(file: Path) -> Iterator[tuple[Record, bool]]:
    """A passage a line, each a document."""
    lines = _lines(file)
    _, header = next(lines, (1, ""))
    check_gap_header(file, header)
    for number, line in lines:
        if line.strip():
            yield Record(number, 0, line), True


_RECORDS = {"tree": _trees, "jsonl": _json_lines, "gap": _gap_rows}


def _columns(file: Path, record: Record) -> int:
    """How many columns the file has, by its first word."""
    for at, line in enumerate(record.text.split("\n")):
        if not line.startswith("#"):
            columns = line.count("\t") + 1
            if columns not in COLUMNS:
                wanted = " or ".join(map(str, COLUMNS))
                raise CorpusError(file, record.line + at, f"has {columns} columns, wanted {wanted}")
            return columns
    raise CorpusError(file, record.line, "holds no word")
