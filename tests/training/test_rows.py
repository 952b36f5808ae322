"""Rows: five formats say the same, and what is wrong is told by its line."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from headwise.errors import DataError
from headwise.training.clean import RowReport, clean_rows, part_of
from headwise.training.recipe import DataRecipe
from headwise.training.rows import read_rows

PAIR = {"source": "from", "target": "to"}
WANTED = [("one, two", "eins"), ('a "quoted" word', "zwei"), ("drei\tvier", "fünf ☺")]


def write(path: Path, kind: str) -> Path:
    """The same rows in each format."""
    plain = path / f"rows.{kind.removesuffix('.gz')}"
    if kind.startswith("jsonl"):
        plain.write_text("".join(json.dumps({"from": a, "to": b, "more": 1}) + "\n" for a, b in WANTED))
    elif kind.startswith("csv"):
        with plain.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("to", "from"), *((b, a) for a, b in WANTED)])
    elif kind.startswith("tsv"):
        plain.write_text("from\tto\n" + "".join(f"{a.replace(chr(9), ' ')}\t{b}\n" for a, b in WANTED))
    else:
        table = arrow.table({"from": [a for a, _ in WANTED], "to": [b for _, b in WANTED]})
        parquet.write_table(table, plain)
    if not kind.endswith(".gz"):
        return plain
    packed = path / f"rows.{kind}"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    return packed


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "csv.gz", "tsv", "parquet"])
def test_formats_say_the_same(tmp_path: Path, kind: str) -> None:
    texts = [row.texts for row in read_rows(write(tmp_path, kind), PAIR)]
    found = [(one["source"].replace("\t", " "), one["target"]) for one in texts]
    assert found == [(a.replace("\t", " "), b) for a, b in WANTED]


def test_columns_by_number_mean_no_header(tmp_path: Path) -> None:
    file = tmp_path / "rows.tsv"
    file.write_text('x\t"a\tb"\nc\td\n')
    rows = list(read_rows(file, {"source": 2, "target": 1}))
    assert [row.texts for row in rows] == [{"source": '"a', "target": "x"}, {"source": "d", "target": "c"}]


def test_plain_text_is_divided_by_blank_lines(tmp_path: Path) -> None:
    file = tmp_path / "book.txt"
    file.write_text("\nfirst\nsecond\n\n\nthird\n")
    rows = list(read_rows(file, {"text": "text"}))
    assert [(row.line, row.texts["text"]) for row in rows] == [(2, "first\nsecond"), (6, "third")]


def test_lists_of_sentences_are_joined_and_the_first_target_counts(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"from": ["A b.", "C d."], "to": ["best", "other"]}) + "\n")
    assert next(read_rows(file, PAIR)).texts == {"source": "A b. C d.", "target": "best"}


BAD = b"""{"from": "a", "to": "b"}
{"from": "", "to": "b"}
{"from": "a", "to": "b"}
no json
["a"]
{"from": "a"}

{"from": 3, "to": "b"}
{"from": "\xff", "to": "b"}
{"from": "c", "to": "d"}
"""


def test_bad_rows_end_the_run_and_are_told_by_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(BAD)
    with pytest.raises(DataError) as told:
        list(clean_rows(read_rows(file, PAIR), RowReport(str(file)), skip_bad=False))
    line = str(told.value)
    assert "bad.jsonl: 8 bad rows: line 2: empty source; line 3: the same as line 1; line 4: is not valid JSON" in line
    assert "line 5: is not a JSON object; line 6: has no 'to'; and 3 more; mend them, or leave them out" in line


def test_bad_rows_are_left_out_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(BAD)
    report = RowReport(str(file))
    rows = list(clean_rows(read_rows(file, PAIR), report, skip_bad=True))
    assert [(row.line, row.texts["source"]) for row in rows] == [(1, "a"), (10, "c")]
    assert (report.read, report.bad) == (10, 8)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.docx", b"x", "a.docx: is none of .jsonl"),
        ("a.gz", b"x", "a.gz: is none of .jsonl"),
        ("a.jsonl.gz", gzip.compress(b"x" * 9999)[:-9], "is not a whole gzip file"),
        ("a.jsonl.gz", b"plain", "is not a whole gzip file"),
        ("a.csv", b"x,y\n1,2\n", "a.csv: has no column 'from' for data.source; it has x, y"),
        ("a.txt", b"x", "a.txt: plain text has no source and target"),
        ("a.parquet", b"x" * 40, "a.parquet: cannot be read"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=told):
        list(read_rows(tmp_path / name, PAIR))


def test_broken_csv_is_told_by_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('from,to\na,b\n"c"d,e\nf,g\n')
    rows = list(read_rows(file, PAIR))
    assert [(row.line, row.problem is None) for row in rows] == [(2, True), (3, False), (4, True)]


def test_the_part_of_a_text_depends_on_its_hash_alone() -> None:
    data = DataRecipe(test=0.2, validation=0.1)
    texts = [f"sentence {number}" for number in range(5000)]
    parts = [part_of(text, data) for text in texts]
    assert 0.18 < parts.count("test") / 5000 < 0.22
    assert 0.08 < parts.count("validation") / 5000 < 0.12
    # A larger share keeps all of the smaller one: what was held out stays held out.
    smaller = [part_of(text, DataRecipe(test=0.1, validation=0.0)) for text in texts]
    assert all(now == "test" for now, before in zip(parts, smaller, strict=True) if before == "test")
