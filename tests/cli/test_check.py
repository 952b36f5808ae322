"""`headwise check`: exit 0 when the laws hold, 1 with a counterexample when one is broken, 2 for a bad target."""

import subprocess
import sys

import pytest
import torch

FUNCTIONS = """
from headwise import attention

number = 3

def good(query, key, value, mask):
    return attention(query, key, value, mask)

class Holder:
    @staticmethod
    def no_root(query, key, value, mask):
        return attention(query, key, value, mask, scale=1.0)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current directory, with a module in it."""
    (tmp_path / "checked_functions.py").write_text(FUNCTIONS)
    (tmp_path / "broken_module.py").write_text("raise OSError('two\\nlines')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "200")
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)
    sys.modules.pop("checked_functions", None)


def test_a_right_function_passes(here, command):
    answer = command("check", "checked_functions:good")
    assert answer.code == 0
    assert answer.out.count("holds") == 11
    assert "broken" not in answer.out
    assert answer.err == ""


def test_a_broken_law_comes_with_the_smallest_case_and_two_numbers(here, command):
    answer = command("check", "checked_functions:Holder.no_root", "--without", "gradients")
    assert answer.code == 1
    assert answer.out.count("broken") == 1
    assert answer.out.count("holds") == 9
    words = " ".join(answer.out.replace("│", " ").split())
    assert "batch 1, heads 1, queries 1, keys 2, head_dim 3, float64, no mask" in words
    assert "wanted" in words


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("checked_functions", "target: got 'checked_functions', wanted module:function"),
        (":good", "target: got ':good'"),
        ("no_such_module:good", "no_such_module: cannot be imported: ModuleNotFoundError"),
        ("broken_module:good", "broken_module: cannot be imported: OSError: two lines"),
        ("checked_functions:absent", "checked_functions:absent: checked_functions has no absent"),
        ("checked_functions:number", "checked_functions:number: got int, wanted a function"),
    ],
)
def test_a_bad_target_is_one_line_and_exit_2(here, command, target, message):
    answer = command("check", target)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1


def test_an_unknown_law_is_refused(here, command):
    answer = command("check", "checked_functions:good", "--without", "colour")
    assert answer.code == 2
    assert "--without: got colour, wanted some of equation, sums" in answer.err


def test_as_a_user_runs_it(here):
    run = subprocess.run(
        [sys.executable, "-m", "headwise", "check", "checked_functions:good"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "equals the equation in float64" in run.stdout
