"""GAP (Webster et al. 2018): a passage with a pronoun and two names, and which of them it means."""

import re
from itertools import pairwise
from pathlib import Path

from headwise.analysis.atlas.sentence import CorpusError, Labelled, Sentence, Word

_HEADER = ["ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL"]
_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]+")


def check_gap_header(file: Path, header: str) -> None:
    """The first line names the columns."""
    if header.split("\t") != _HEADER:
        raise CorpusError(file, 1, f"wanted the columns of GAP: {', '.join(_HEADER)}")


def read_gap(file: str, line: int, raw: str) -> Sentence:
    """One passage; where the pronoun means neither name it has no pair."""
    fields = raw.split("\t")
    if len(fields) != len(_HEADER):
        raise CorpusError(file, line, f"has {len(fields)} columns, wanted {len(_HEADER)}")
    row = dict(zip(_HEADER, fields, strict=True))
    text = row["Text"]
    named = {name: _span(file, line, row, name) for name in ("Pronoun", "A", "B")}
    meant = [name for name in ("A", "B") if _truth(file, line, row, f"{name}-coref")]
    spans = _spans(text, sorted(named.values()))
    if spans is None:
        raise CorpusError(file, line, "the pronoun and the names overlap")
    words = tuple(Word(text[start:end], start, end) for start, end in spans)
    numbers = {name: spans.index(span) for name, span in named.items()}
    pair = Labelled(
        "coreference", numbers["Pronoun"], tuple(numbers[name] for name in meant), (numbers["A"], numbers["B"])
    )
    return Sentence(file, line, row["ID"], text, words, (pair,) if len(meant) == 1 else ())


def _span(file: str, line: int, row: dict[str, str], name: str) -> tuple[int, int]:
    offset = row[f"{name}-offset"]
    if not offset.isdecimal() or len(offset) > 9:
        raise CorpusError(file, line, f"{name}-offset: got {offset!r}, wanted a number")
    start, end = int(offset), int(offset) + len(row[name])
    if not row[name] or row["Text"][start:end] != row[name]:
        raise CorpusError(file, line, f"{name}: {row[name]!r} does not stand at {start} of the text")
    return start, end


def _truth(file: str, line: int, row: dict[str, str], name: str) -> bool:
    if row[name].upper() not in ("TRUE", "FALSE"):
        raise CorpusError(file, line, f"{name}: got {row[name]!r}, wanted TRUE or FALSE")
    return row[name].upper() == "TRUE"


def _spans(text: str, named: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """The words of the text, each named span being one; None where those overlap."""
    if any(one[1] > other[0] for one, other in pairwise(named)):
        return None
    spans: list[tuple[int, int]] = []
    at = 0
    for start, end in [*named, (len(text), len(text))]:
        spans += [match.span() for match in _WORD.finditer(text, at, start)]
        spans += [(start, end)] if end > start else []
        at = end
    return spans
