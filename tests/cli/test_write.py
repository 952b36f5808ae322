"""`headwise generate` and `headwise summarize`, on models that recite a text."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "generation"))
from reciting_models import SEP, TEMPLATE, recite, reciting_decoder

import headwise

TEXT = "The tower was sold. It will open in May."


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It writes what stands after so many tokens: for a text of the length of TEXT this sentence."""
    model = reciting_decoder(context=256, headwise={"task": "summarize", "separator": SEP}, max_new_tokens=30)
    recite(model, "It was sold. And so on.", after=len(TEXT) + 1)
    return headwise.save(model, tmp_path_factory.mktemp("summarizer"))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two texts, and between them one that is none."""
    contents = {"a.txt": TEXT.encode(), "bad.bin": b"\0\1", "b.html": f"<p>{TEXT}</p>".encode()}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return [tmp_path / name for name in contents]


Command = Callable[..., Any]


def test_generate_streams_and_tells_its_speed(tmp_path: Path, command: Command) -> None:
    model = reciting_decoder(template=TEMPLATE)
    recite(model, "Yes 東京.", after=len("Hello?") + 2)
    directory = headwise.save(model, tmp_path / "model")
    answer = command("generate", "Hello?", "--model", directory)
    assert (answer.code, answer.out) == (0, "Yes 東京.\n")
    assert answer.err.startswith("8 tokens read in ")
    assert "; 12 written, " in answer.err
    assert answer.err.endswith(" tokens/s\n")
    # Without the template the prompt is two tokens shorter, and the song begins later.
    raw = command("generate", "Hello?xx", "--model", directory, "--raw", "--beams", "2")
    assert raw.out == "Yes 東京.\n"
    assert "8 tokens read and 12 written" in raw.err
    assert command("generate", "Hello?xx", "--model", directory, "--raw", "--stop", "東").out == "Yes \n"


def test_generate_refuses_in_one_line(summarizer: Path, command: Command) -> None:
    answer = command("generate", "x" * 300, "--model", summarizer, "--max-tokens", "3")
    assert answer.code == 2
    assert answer.err == (
        "headwise: the prompt has 300 tokens and 3 more were asked for: 303, and the model allows 256\n"
    )
    assert command("generate", "x", "--model", summarizer, "--top-k", "3").code == 2


def test_one_document_streams(summarizer: Path, files: list[Path], command: Command) -> None:
    answer = command("summarize", files[0], "--model", summarizer, "--length", "short", "--no-check")
    assert (answer.code, answer.out, answer.err) == (0, "It was sold.\n", "")


def test_one_bad_file_does_not_stop_the_others(summarizer: Path, files: list[Path], command: Command) -> None:
    answer = command("summarize", *files, "--model", summarizer, "--length", "short", "--no-check")
    assert answer.code == 1
    assert answer.out == f"{files[0]}\nIt was sold.\n\n{files[2]}\nIt was sold.\n\n"
    assert answer.err.splitlines() == [
        f"headwise: {files[1]}: is not a text: byte 0 is zero; wanted text, Markdown or HTML",
        f"headwise: 1 of 3 not summarized: {files[1]}",
    ]
    missing = command("summarize", files[0].with_name("none.txt"), "--model", summarizer)
    assert missing.code == 1
    assert "No such file" in missing.err


def test_json_is_one_line_a_document(summarizer: Path, files: list[Path], command: Command) -> None:
    words = ("--model", summarizer, "--length", "medium", "--no-check", "--json")
    answer = command("summarize", files[0], files[2], *words)
    first, second = map(json.loads, answer.out.splitlines())
    assert first == {
        "file": str(files[0]),
        "summary": "It was sold. And so on.",
        "sentences": [{"text": text, "supported": None} for text in ("It was sold.", "And so on.")],
        "prompt_tokens": len(TEXT) + 1,
        "tokens": len("It was sold. And so on.") + 1,
        "parts": 1,
    }
    assert second["file"] == str(files[2])


def test_files_go_into_a_directory(summarizer: Path, files: list[Path], tmp_path: Path, command: Command) -> None:
    other = tmp_path / "other" / "a.txt"
    other.parent.mkdir()
    other.write_text(TEXT)
    out = tmp_path / "out"
    words = ("--model", summarizer, "--length", "short", "--no-check", "--out", out)
    answer = command("summarize", files[0], other, *words)
    assert (answer.code, answer.out) == (0, "")
    assert {file.name: file.read_text() for file in out.iterdir()} == {
        "a.txt.summary.txt": "It was sold.\n",
        "a.txt-2.summary.txt": "It was sold.\n",
    }


def test_many_parts_are_told(summarizer: Path, tmp_path: Path, command: Command) -> None:
    file = tmp_path / "long.txt"
    file.write_text(" ".join(f"This is sentence {number}." for number in range(20)))
    answer = command("summarize", file, "--model", summarizer, "--length", "short", "--no-check")
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == "(read in 2 parts)"


def test_wrong_options(summarizer: Path, files: list[Path], command: Command) -> None:
    assert "--length: got 'tiny'" in command("summarize", files[0], "--length", "tiny").err
    assert command("summarize", "-", "-").err == ("headwise: files: got - twice, and standard input can be read once\n")
    plain = reciting_decoder()
    directory = headwise.save(plain, files[0].parent / "plain")
    answer = command("summarize", files[0], "--model", directory)
    assert answer.code == 2
    assert "has neither a chat template nor a recorded task" in answer.err


@pytest.mark.weights
def test_what_is_not_supported_stands_beside_the_summary(summarizer: Path, files: list[Path], command: Command) -> None:
    files[0].write_text("Bees visit two flowers for a jar of honey"[: len(TEXT) - 1].ljust(len(TEXT) - 1, "y") + ".")
    answer = command("summarize", files[0], "--model", summarizer, "--length", "short")
    lines = answer.out.splitlines()
    assert lines[:2] == ["It was sold.", "[no support] It was sold."]
    assert lines[2].strip().startswith("nothing there is like it; nearest (")
    taken = command("summarize", files[2], "--extract", "--length", "short", "--json")
    (sentence,) = json.loads(taken.out)["sentences"]
    assert sentence["text"] in TEXT
    assert sentence["supported"] is True
