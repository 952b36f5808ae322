"""`headwise compare`: everything it promises, at a size that takes seconds."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

SMALL = ("--mixers", "attention,convolution", "--tasks", "agreement,little-text", "--steps", "2", "--longest", "32")


def test_a_table_pictures_and_json(command, tmp_path: Path) -> None:
    answer = command("compare", *SMALL, "--out", tmp_path / "out", "--show", "the keys near the lamp,")
    assert answer.code == 0, answer.err
    for part in ("agreement: right answers", "little text: right answers", "time", "memory", "path", "keys"):
        assert part in answer.out
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [task["name"] for task in found["tasks"]] == ["agreement", "little text"]
    assert found["sees"]["words"] == ["the", "keys", "near", "the", "lamp", ","]
    for sentence in found["says"]:
        assert " ".join(sentence.split())[:40] in " ".join(answer.out.split())
    pictures = [(tmp_path / "out" / f"{name}.{kind}") for name in NAMES for kind in ("png", "svg")]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        ["results.json", *(path.name for path in pictures)]
    )
    for path in pictures:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            text = " ".join(ElementTree.parse(path).getroot().itertext())
            assert ("Agreement over distractors" in text) == (path.stem == "comparison")
            assert "convolution" in text


NAMES = ("comparison", "heads-and-filters")


def test_json_alone_on_standard_output_and_the_same_again(command, tmp_path: Path) -> None:
    words = ("compare", *SMALL[:2], "--tasks", "copying", *SMALL[4:], "--json", "--out", tmp_path)
    one, two = json.loads(command(*words).out), json.loads(command(*words).out)
    assert one["sees"] is None
    assert one["tasks"][0]["curves"] == two["tasks"][0]["curves"]
    assert one["tasks"][0]["loss"] == two["tasks"][0]["loss"]
    assert {mixer: [point["bytes"] for point in points] for mixer, points in one["reading"].items()} == {
        mixer: [point["bytes"] for point in points] for mixer, points in two["reading"].items()
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--mixers", "conv"), "--mixers: got 'conv', wanted one or more of attention"),
        (("--tasks", "recall,books"), "--tasks: got 'books', wanted one or more of recall"),
        (("--tasks", "recall", "--show", "the keys"), "--show: its sentence is read by the models of agreement"),
        (("--show", "the cat"), "--show: got the word 'cat'"),
        (("--longest", "1"), "--longest: got 1"),
        (("--text", "absent.txt"), "absent.txt: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_one_line_before_anything_is_trained(
    command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = command("compare", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"headwise: {told}")
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "compared" / "results.json").exists()
