"""The worksheet: its numbers recomputed by hand, its two formats, and hostile files."""

import html.parser
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.analysis import exercise as drawing
from headwise.analysis.exercise import MOST_DIM, MOST_WORDS, draw, solve
from headwise.analysis.exercise_file import read_exercise
from headwise.errors import HeadwiseError

Command = Callable[..., Any]
LESSON = """
words = ["Action", "gets", "results"]
heads = 2
embeddings = [[1, 0, 2, 0], [0, 1, 0.5, 1], [1, 1, 0, -1]]
query = [[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 1, 1]]
key = [[0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
value = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
output = [[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 4]]
"""


@pytest.fixture
def lesson(tmp_path: Path) -> Path:
    path = tmp_path / "lesson.toml"
    path.write_text(LESSON)
    return path


def by_hand(exercise: drawing.Exercise) -> dict[str, np.ndarray]:
    """The whole exercise again, number by number, with nothing but loops and `math.exp`."""
    count, dim = exercise.embeddings.shape
    wide = dim // exercise.heads
    joined = np.zeros((count, dim))
    all_weights = np.zeros((exercise.heads, count, count))

    def times(x: Any, matrix: Any, columns: range) -> list[float]:
        return [sum(float(x[i]) * float(matrix[i][j]) for i in range(dim)) for j in columns]

    for head in range(exercise.heads):
        columns = range(head * wide, (head + 1) * wide)
        q, k, v = (
            [times(x, matrix, columns) for x in exercise.embeddings]
            for matrix in (exercise.query, exercise.key, exercise.value)
        )
        for i in range(count):
            seen = range(i + 1) if exercise.causal else range(count)
            powers = {j: math.exp(sum(a * b for a, b in zip(q[i], k[j], strict=True)) / math.sqrt(wide)) for j in seen}
            for j in seen:
                all_weights[head, i, j] = powers[j] / sum(powers.values())
                for n, column in enumerate(columns):
                    joined[i, column] += all_weights[head, i, j] * v[j][n]
    result = np.array([times(z, exercise.output, range(dim)) for z in joined])
    return {"weights": all_weights, "joined": joined, "result": result}


@settings(max_examples=25, deadline=None)
@given(
    words=st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=5),
    heads=st.integers(1, 3),
    wide=st.integers(1, 3),
    causal=st.booleans(),
    seed=st.integers(0, 5),
)
def test_the_solution_is_what_a_person_computes(
    words: list[str], heads: int, wide: int, causal: bool, seed: int
) -> None:
    exercise = draw(tuple(words), heads * wide, heads, causal, seed)
    solution = solve(exercise)
    for name, expected in by_hand(exercise).items():
        np.testing.assert_allclose(getattr(solution, name), expected, rtol=0, atol=1e-10)


def test_the_solution_comes_from_attention_steps(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """A different equation gives a different sheet: there is no second one."""

    def uniform(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any) -> Any:
        steps = drawing_steps(query, key, value, mask)
        weights = torch.full_like(steps.weights, 0.25)
        return steps._replace(weights=weights, mixed=weights @ value)

    drawing_steps = drawing.attention_steps
    monkeypatch.setattr(drawing, "attention_steps", uniform)
    assert "0.25" in command("worksheet", "one two three four", "--answers").out


def test_the_same_seed_draws_the_same_sheet(command: Command) -> None:
    words = ("worksheet", "Action gets results", "--dim", "4", "--heads", "2", "--answers")
    first, again, other = command(*words, "--seed", "7"), command(*words, "--seed", "7"), command(*words, "--seed", "8")
    assert first.code == 0
    assert first == again
    assert first.out != other.out


def test_numbers_are_small_and_the_same_word_has_the_same_embedding() -> None:
    exercise = draw(("the", "dog", "saw", "the", "cat"), 6, 2, False, 3)
    for part in (exercise.embeddings, exercise.query, exercise.key, exercise.value, exercise.output):
        assert np.array_equal(part, part.round())
        assert np.abs(part).max() <= 2
    assert np.array_equal(exercise.embeddings[0], exercise.embeddings[3])


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every pipe table, without heads and rules."""
    found: list[list[list[str]]] = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        if lines:
            found.append([[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]])
    return found


def test_the_questions_leave_the_cells_empty(command: Command) -> None:
    """Given are the embeddings, a table of matrices for each head, and W_O; the rest is for the pencil."""
    asked = tables(command("worksheet", "Action gets results", "--seed", "7").out)
    solved = tables(command("worksheet", "Action gets results", "--seed", "7", "--answers").out)
    assert asked[:4] == solved[:4]
    assert len(asked) == len(solved) == 4 + 2 + 2 + 2 + 2 + 2 + 1 + 1
    for blank, full in zip(asked[4:], solved[4:], strict=True):
        assert [row[0] for row in blank] == [row[0] for row in full]
        assert not any(cell for row in blank for cell in row[1:])
        assert all(cell for row in full for cell in row[1:])


def test_the_printed_numbers_are_the_computed_ones(command: Command) -> None:
    printed = tables(command("worksheet", "Action gets results", "--seed", "7", "--answers").out)
    expected = by_hand(draw(("Action", "gets", "results"), 4, 2, False, 7))

    def numbers(table: list[list[str]]) -> np.ndarray:
        return np.array([[float(cell.replace("−", "-")) for cell in row[1:]] for row in table])

    np.testing.assert_allclose(numbers(printed[10]), expected["weights"][0], rtol=0, atol=5.1e-4)
    np.testing.assert_allclose(numbers(printed[11]), expected["weights"][1], rtol=0, atol=5.1e-4)
    np.testing.assert_allclose(numbers(printed[-2]), expected["joined"], rtol=0, atol=5.1e-4)
    np.testing.assert_allclose(numbers(printed[-1]), expected["result"], rtol=0, atol=5.1e-4)


def test_the_future_is_masked_as_minus_infinity(command: Command) -> None:
    out = command("worksheet", "one two three", "--causal", "--answers").out
    masked = out.split("mask the future")[1].split("## Step 5")[0]
    assert masked.count("−∞") == 2 * 3 + 2  # three in each of two heads, and twice in the sentences above them
    assert "## Step 4: mask" not in command("worksheet", "one two three", "--answers").out


def test_the_teachers_own_numbers(lesson: Path, command: Command) -> None:
    exercise = read_exercise(lesson, 0)
    assert exercise.words == ("Action", "gets", "results")
    assert exercise.embeddings.tolist() == [[1, 0, 2, 0], [0, 1, 0.5, 1], [1, 1, 0, -1]]
    assert np.array_equal(exercise.output, np.diag([1, 2, 3, 4]))
    expected = by_hand(exercise)
    last = tables(command("worksheet", "--numbers", lesson, "--answers").out)[-1]
    for row, numbers in zip(last, expected["result"], strict=True):
        assert [float(cell.replace("−", "-")) for cell in row[1:]] == pytest.approx(list(numbers), abs=5.1e-4)


def test_what_the_teacher_leaves_out_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "short.toml"
    path.write_text('words = ["a", "b"]\nembeddings = [[1, 2], [0.25, -1]]\n')
    exercise = read_exercise(path, 5)
    assert (exercise.heads, exercise.causal) == (1, False)
    assert exercise.embeddings.tolist() == [[1, 2], [0.25, -1]]
    assert np.array_equal(exercise.query, read_exercise(path, 5).query)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('words = ["Action", "gets", "results"]', "words = 3", "words: got 3, wanted a list of 1 to 12 words"),
        ('"gets"', '"g\\nets"', "words: got 'g\\\\nets', wanted a printable word"),
        ('"gets"', '"\\u202e"', "words: got '\\\\u202e', wanted a printable word"),
        ('"gets"', "7", "words: got 7, wanted a printable word"),
        ("heads = 2", "heads = 3", "heads: got 3, wanted a whole number that divides the dimension 4"),
        ("heads = 2", "heads = 0", "heads: got 0"),
        ("heads = 2", "heads = true", "heads: got True"),
        ("heads = 2", "heads = 2.0", "heads: got 2.0"),
        ("heads = 2", "heads = 2\ncausal = 1", "causal: got 1, wanted true or false"),
        ("heads = 2", "haeds = 2", "haeds: unknown field, did you mean heads?"),
        ("heads = 2", "zzz = 2", "zzz: unknown field, known are words, heads"),
        ("[1, 0, 2, 0]", "[1, 0, 2]", "embeddings, row 2: got 4 numbers, wanted 3"),
        ("[1, 0, 2, 0]", "[1, 0, nan, 0]", "embeddings, row 1: got nan"),
        ("[1, 0, 2, 0]", "[1, 0, inf, 0]", "embeddings, row 1: got inf"),
        ("[1, 0, 2, 0]", '[1, 0, "2", 0]', "embeddings, row 1: got '2'"),
        ("[1, 0, 2, 0]", "[1, 0, true, 0]", "embeddings, row 1: got True"),
        ("[1, 0, 2, 0]", "[1, 0, 1e6, 0]", "embeddings, row 1: got 1000000.0, wanted numbers up to 1000"),
        ("[1, 0, 2, 0]", f"[1, 0, {'9' * 5000}, 0]", "not a TOML file"),
        ("[1, 0, 2, 0]", "[]", "embeddings, row 1: got []"),
        ("[[1, 0, 2, 0], ", "[", "embeddings: got 2 rows, wanted 3 rows"),
        ("[1, 0, 0, 1]", "[1, 0, 0]", "query, row 1: got 3 numbers, wanted 4"),
        ("embeddings", "value2", "value2: unknown field, did you mean value?"),
        ("words", "words = [", "not a TOML file"),
        ("heads = 2", "heads = 2\nheads = 2", "not a TOML file"),
        ("heads = 2", "heads = " + "[" * 100_000, "not a TOML file"),
        ("heads = 2", "# " + "x" * (1 << 20), "more than 1048576 bytes"),
    ],
)
def test_a_broken_file_is_one_line_that_names_file_and_field(
    lesson: Path, command: Command, old: str, new: str, told: str
) -> None:
    assert old in LESSON
    lesson.write_text(LESSON.replace(old, new, 1))
    answer = command("worksheet", "--numbers", lesson)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith(f"headwise: {lesson}: {told}".replace("\\\\", "\\"))
    assert answer.err.count("\n") == 1
    assert len(answer.err) < 500


def test_a_file_that_is_not_text(lesson: Path, command: Command) -> None:
    lesson.write_bytes(b"\xff\xfe\x00")
    answer = command("worksheet", "--numbers", lesson)
    assert answer.code == 2
    assert "not a TOML file" in answer.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "text: wanted either a TEXT or --numbers FILE"),
        ([""], "text: got no words"),
        (["a " * (MOST_WORDS + 1)], f"text: got {MOST_WORDS + 1} words, wanted at most {MOST_WORDS}"),
        (["a\x1b[31m"], "text: got the word"),
        (["a", "--dim", "0"], "dim: got 0"),
        (["a", "--dim", str(MOST_DIM + 1)], f"dim: got {MOST_DIM + 1}, wanted 1 to {MOST_DIM}"),
        (["a", "--dim", "4", "--heads", "3"], "heads: got 3, wanted a number that divides dim, 4"),
        (["a", "--heads", "-1"], "heads: got -1"),
        (["a", "--seed", "-1"], "seed: got -1"),
        (["a", "--format", "pdf"], "--format: got 'pdf', wanted markdown or html"),
        (["a", "--out", "sheet.pdf"], "--out: got the suffix '.pdf'"),
        (["a", "--out", "no/such/place.md"], "no/such/place.md: cannot be written: No such file or directory"),
        (["--numbers", "missing.toml"], "missing.toml: cannot be read: No such file or directory"),
        (["--numbers", "."], ".: cannot be read: Is a directory"),
        (["--numbers", "lesson.toml", "--dim", "4"], "--dim: got it beside --numbers"),
        (["--numbers", "lesson.toml", "--causal"], "--causal: got it beside --numbers"),
    ],
)
def test_wrong_words_are_refused_by_name(command: Command, words: list[str], told: str) -> None:
    answer = command("worksheet", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"headwise: {told}")
    assert answer.err.count("\n") == 1


HOSTILE = '<script>alert(1)</script> a|b &lt;$x$ _u_ a_b `c`*d* [e](f)\\ "quo\'te" #g 说话 שלום 👩‍👩‍👧'


class Page(html.parser.HTMLParser):
    """Collects the tags and the words of the row heads."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[str] = []
        self.in_row = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.in_row = tag == "th" and ("scope", "row") in attrs
        if self.in_row:
            self.rows.append("")

    def handle_endtag(self, tag: str) -> None:
        self.in_row = False

    def handle_data(self, data: str) -> None:
        if self.in_row:
            self.rows[-1] += data


def test_hostile_words_are_shown_as_text_in_html(command: Command) -> None:
    page = Page()
    page.feed(command("worksheet", HOSTILE, "--format", "html").out)
    assert page.rows[: len(HOSTILE.split())] == HOSTILE.split()
    assert not {"script", "img", "iframe", "link"} & set(page.tags)


def test_the_page_asks_nothing_of_a_network(command: Command) -> None:
    out = command("worksheet", "It works", "--format", "html").out
    assert not re.search(r"https?:|url\(|@import|src=|<script", out)


def test_hostile_words_are_shown_as_text_in_markdown(command: Command) -> None:
    """Rendered by a Markdown reader, the cells are the words again."""
    from markdown_it import MarkdownIt

    rendered = MarkdownIt("commonmark").enable("table").render(command("worksheet", HOSTILE).out)
    page = Page()
    page.feed(rendered.replace("<td", "<th scope='row'").replace("</td>", "</th>"))
    assert [row for row in page.rows if row in HOSTILE.split()][: len(HOSTILE.split())] == HOSTILE.split()
    assert "script" not in page.tags


def test_columns_line_up_also_with_wide_letters(command: Command) -> None:
    from rich.cells import cell_len

    for block in command("worksheet", "说话 a שלום", "--answers").out.split("\n\n"):
        widths = {cell_len(line) for line in block.splitlines() if line.startswith("|")}
        assert len(widths) <= 1


def test_it_writes_whole_files_only(tmp_path: Path, command: Command) -> None:
    sheet = tmp_path / "sheet.html"
    answer = command("worksheet", "It works", "--seed", "3", "--out", sheet)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.html"]
    assert sheet.read_text().startswith("<!doctype html>")
    assert sheet.read_text() == command("worksheet", "It works", "--seed", "3", "--format", "html").out


def test_sizes_are_checked_in_python_too() -> None:
    with pytest.raises(HeadwiseError, match="heads: got 5"):
        draw(("a",), 4, 5, False, 0)
