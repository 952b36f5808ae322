"""The command line's frame: help, version, and errors that are one line."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
import typer

from headwise import cli
from headwise.errors import HeadwiseError

Command = Callable[..., Any]


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "headwise", *words], text=True, check=False, stderr=subprocess.PIPE, **options
    )


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, command: Command) -> Callable[[BaseException], Any]:
    """The command line with one command more, which raises what it is told to."""

    def answer(error: BaseException) -> Any:
        app = typer.Typer()

        @app.callback()
        def frame() -> None: ...

        @app.command()
        def fail() -> None:
            raise error

        monkeypatch.setattr(cli, "app", app)
        return command("fail")

    return answer


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"headwise {version('headwise')}\n", "")


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_help_names_every_command(command: Command, words: list[str]) -> None:
    answer = command(*words)
    assert answer.code == 0
    assert answer.err == ""
    for name in cli.COMMANDS:
        assert name in answer.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--bogus"], "headwise: No such option: --bogus; see: headwise --help\n"),
        (["atals"], "headwise: No such command 'atals'. Did you mean 'atlas'?; see: headwise --help\n"),
        (["worksheet", "--dmi", "4"], "headwise: No such option: --dmi"),
        (["worksheet", "--dim", "four", "a"], "headwise: Invalid value for '--dim'"),
        (["worksheet", "--dim"], "headwise: Option '--dim' requires an argument"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_two(command: Command, words: list[str], told: str) -> None:
    answer = command(*words)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith(told)
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (HeadwiseError("model: got\n  'x',   wanted\n'minilm'"), "model: got 'x', wanted 'minilm'"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a.txt"), "a.txt: No such file or directory"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (MemoryError(), "out of memory: choose a smaller model, a shorter text or a smaller batch"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            "out of memory: choose a smaller model, a shorter text or a smaller batch",
        ),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "'utf-8' codec can't decode byte 0xff"),
        (typer.Abort(), "stopped"),
        (ZeroDivisionError("division by zero"), "defect in headwise: ZeroDivisionError: division by zero"),
        (ValueError("from elsewhere"), "defect in headwise: ValueError: from elsewhere"),
    ],
)
def test_errors_are_one_line(failing: Callable[[BaseException], Any], error: Exception, told: str) -> None:
    answer = failing(error)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith(f"headwise: {told}")
    assert answer.err.count("\n") == 1


def test_a_value_error_of_our_own_is_not_called_a_defect(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    from headwise.attention.masks import Mask

    app = typer.Typer()

    @app.callback()
    def frame() -> None: ...

    @app.command()
    def fail() -> None:
        Mask(window=0)

    monkeypatch.setattr(cli, "app", app)
    assert command("fail").err.startswith("headwise: window: got 0")


def test_the_traceback_is_there_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, failing: Callable[[BaseException], Any]
) -> None:
    monkeypatch.setenv("HEADWISE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError())


def test_interrupted(failing: Callable[[BaseException], Any]) -> None:
    assert failing(KeyboardInterrupt()) == (130, "", "headwise: stopped\n")


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_command_chooses_its_exit_code(failing: Callable[[BaseException], Any], code: int) -> None:
    assert failing(typer.Exit(code)) == (code, "", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = run("worksheet", "It works", stdout=full)
    assert (done.returncode, done.stderr) == (2, "headwise: No space left on device\n")


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:
        done = run("worksheet", "It works", stdout=pipe)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_terminal_that_cannot_show_a_letter() -> None:
    done = run("worksheet", "é", stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.startswith("# Worksheet: \\xe9\n")


def test_python_minus_m_is_the_command() -> None:
    done = run("--version", stdout=subprocess.PIPE)
    assert done.stdout == f"headwise {version('headwise')}\n"
