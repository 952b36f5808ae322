"""README's blocks run as they are written: shell by bash, Python by a fresh interpreter."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"(?:^<!-- (?P<note>[^>]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
NEEDS_WEIGHTS = re.compile(r"minilm|smollm2|headwise (explain|summarize|generate|atlas)|make demo")
SECONDS = 600


class Block(NamedTuple):
    """One fenced block and the comment right before it."""

    note: str
    language: str
    text: str
    line: int


BLOCKS = [
    Block(match["note"] or "", match["language"], match["text"], README[: match.start("text")].count("\n"))
    for match in BLOCK.finditer(README)
]


def cases(language: str) -> list[object]:
    """The blocks of a language that the tests run, those with real models marked so."""
    return [
        pytest.param(
            block, id=f"line{block.line}", marks=[pytest.mark.weights] if NEEDS_WEIGHTS.search(block.text) else []
        )
        for block in BLOCKS
        if block.language == language and not block.note
    ]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory like the checkout, in which a block may write."""
    for name in ("recipes", "docs", "benchmarks", "README.md", "CHANGELOG.md"):
        if (ROOT / name).exists():
            (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def run(words: list[str], place: Path) -> None:
    """Run it there, with this interpreter's commands first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words, cwd=place, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr
    assert "defect in headwise" not in done.stderr


@pytest.mark.parametrize("block", cases("shell"))
def test_shell(block: Block, place: Path) -> None:
    run(["bash", "-euo", "pipefail", "-c", block.text], place)


@pytest.mark.parametrize("block", cases("python"))
def test_python(block: Block, place: Path) -> None:
    (place / "block.py").write_text(block.text)
    run([sys.executable, "-W", "error", "block.py"], place)


def test_every_block_is_of_a_known_kind() -> None:
    assert {block.language for block in BLOCKS} <= {"shell", "python", "text", "toml", "json"}
    assert README.count("\n```") == 2 * len(BLOCKS)
    for block in BLOCKS:
        assert block.note == "" or block.note == "setup" or block.note.startswith("untested: ")


@pytest.mark.skipif(not os.environ.get("HEADWISE_TEST_SETUP"), reason="takes minutes; HEADWISE_TEST_SETUP=1 runs it")
def test_the_set_up_without_make(tmp_path: Path) -> None:
    (block,) = [block for block in BLOCKS if block.note == "setup"]
    checkout = tmp_path / "headwise"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)
    run(["bash", "-euo", "pipefail", "-c", block.text], checkout)


def test_set_up_installs_what_make_installs() -> None:
    """The Makefile adds only what tests and checks need."""
    (block,) = [block for block in BLOCKS if block.note == "setup"]
    assert "pip install -c constraints.txt -e '.[all]'" in block.text
    assert "-c constraints.txt -e '.[all,test,check]'" in (ROOT / "Makefile").read_text()


def test_every_file_that_it_names_is_there() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    links += re.findall(r"`(src/[\w/.]+|docs/[\w/.-]+|benchmarks/[\w/.]+|recipes/[\w/.-]+)`", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_command_is_shown() -> None:
    from headwise.cli import COMMANDS

    assert [name for name in COMMANDS if f"headwise {name}" not in README] == []
