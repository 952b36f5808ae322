"""`headwise atlas` as its user meets it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parent.parent / "analysis" / "atlas" / "sentences.conllu"


def test_relations_are_listed(command: Callable[..., Any]) -> None:
    answer = command("atlas", "--list-relations")
    assert answer.code == 0
    for name in ("subject", "object", "possession", "determiner", "space", "time", "coreference"):
        assert name in answer.out


def test_a_dry_run_shows_pairs(command: Callable[..., Any]) -> None:
    answer = command("atlas", CORPUS, "--dry-run", "--relation", "object")
    assert answer.code == 0
    assert "object: 48 pairs" in answer.out
    assert "fed → dog" in answer.out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["minilm"], "wanted a model and at least one corpus"),
        (["minilm", CORPUS, "--engine", "spark"], "--engine: got 'spark'"),
        (["minilm", CORPUS, "--workers", "2"], "are for --engine ray"),
        (["minilm", CORPUS, "--relation", "cousin"], "got 'cousin', wanted a .toml file or one of subject"),
        (["minilm", "nowhere.conllu"], "nowhere.conllu: No such file"),
        (["diff", "nowhere"], "diff: wanted two directories"),
        (["diff", "nowhere", "elsewhere"], "No such file"),
    ],
)
def test_what_is_wrong_is_one_line(words: list[Any], problem: str, command: Callable[..., Any]) -> None:
    answer = command("atlas", *words)
    assert answer.code == 2
    assert problem in answer.err
    assert answer.err.count("\n") == 1


def test_a_bad_corpus_is_one_line_with_its_place(tmp_path: Path, command: Callable[..., Any]) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text("1\ta\ta\n")
    answer = command("atlas", "minilm", path, "--out", tmp_path / "atlas")
    assert answer.code == 2
    assert f"{path}:1: has 3 columns, wanted 10 or 19" in answer.err
    assert not (tmp_path / "atlas").exists()


@pytest.mark.weights
def test_an_atlas_of_real_weights(tmp_path: Path, command: Callable[..., Any]) -> None:
    out = tmp_path / "a"
    words = ["--relation", "object", "--knockouts", "1", "--no-random"]
    answer = command("atlas", "minilm", CORPUS, "--out", out, *words)
    assert answer.code == 0, answer.err
    assert "verb→object" in answer.out
    assert sorted(path.name for path in out.iterdir()) == ["atlas.html", "atlas.json", "atlas.parquet"]
    told = json.loads((out / "atlas.json").read_text())
    assert told["about"]["sentences"] == 48
    assert len(told["profiles"]) == 72
    assert {"next", "previous", "entropy", "sink", "duplicate", "induction", "knockout"} <= set(told["profiles"][0])

    import pyarrow.parquet as parquet

    table = parquet.read_table(out / "atlas.parquet").to_pylist()
    assert len(table) == 72 * 2 * 2
    one = next(row for row in table if (row["direction"], row["layer"], row["head"]) == ("verb→object", 2, 8))
    assert 0 <= one["low"] <= one["accuracy"] <= one["high"] <= 1

    answer = command("atlas", "diff", out, out)
    assert answer.code == 0
    assert "+0.0" in answer.out
