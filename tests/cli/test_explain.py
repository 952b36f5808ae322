"""`headwise explain`: what it prints and writes, held to the model's own weights, to its schema, and to bad input."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from explained_models import write
from rich.console import Console
from safetensors.numpy import load_file

import headwise
from headwise.analysis.explain import Wanted, explain_trace
from headwise.analysis.run import trace_text
from headwise.views.terminal.report import show

Command = Callable[..., Any]
TEXT = "The kids were scared of the lions, so they left right away."
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "explanation.schema.json").read_text())


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("explained")
    return {name: write(name, home) for name in ("encoder", "decoder", "pair", "neox")}


@pytest.fixture
def explained(command: Command, folders: dict[str, Path]) -> Callable[..., dict[str, Any]]:
    """What --json gives, held to the schema."""

    def run(name: str, *words: str, text: str = TEXT) -> dict[str, Any]:
        answer = command("explain", text, "--model", folders[name], "--json", *words)
        assert (answer.code, answer.err) == (0, "")
        return checked(json.loads(answer.out))

    return run


def checked(found: dict[str, Any]) -> dict[str, Any]:
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def numbers(part: dict[str, Any]) -> dict[str, Any]:
    """The lists as arrays."""
    return {name: np.array(value) if isinstance(value, list) else value for name, value in part.items()}


def test_the_schema_refuses_what_it_does_not_know(explained: Callable[..., Any]) -> None:
    found = explained("encoder")
    for change in ({"more": 1}, {"table": {**found["table"], "z": None}}, {"schema": "headwise-explanation/2"}):
        with pytest.raises(jsonschema.ValidationError):
            checked({**found, **change})
    with pytest.raises(jsonschema.ValidationError):
        checked({name: value for name, value in found.items() if name != "heads"})


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("encoder", []),
        ("decoder", []),
        ("decoder", ["--write", "3"]),
        ("pair", ["--mode", "encoder"]),
        ("pair", ["--target", "Action gets results", "--mode", "decoder"]),
        ("pair", ["--target", "Action gets results", "--mode", "cross", "--word", "results"]),
    ],
)
def test_every_step_follows_from_the_one_before(explained: Callable[..., Any], name: str, more: list[str]) -> None:
    found = explained(name, *more)
    table, heads = numbers(found["table"]), numbers(found["heads"])
    np.testing.assert_allclose(table["k"] @ table["q"], table["products"], atol=1e-12)
    np.testing.assert_allclose(table["products"] * table["scale"], table["scaled"], atol=1e-12)
    added = table["scaled"] + (0 if table["bias"] is None else table["bias"])
    shares = np.where(table["allowed"], np.exp(added - added[table["allowed"]].max()), 0)
    np.testing.assert_allclose(shares / shares.sum(), table["weights"], atol=1e-12)
    np.testing.assert_allclose(table["weights"][:, None] * table["v"], table["weighted"], atol=1e-12)
    np.testing.assert_allclose(table["weighted"].sum(0), table["z"], atol=1e-12)
    np.testing.assert_allclose(table["z"], heads["z"][table["head"]], atol=1e-5)
    np.testing.assert_allclose(heads["parts"].sum(0), heads["total"], atol=1e-12)
    assert (table["bias"] is not None) == (name == "pair" and more[-1] != "results")
    if found["mode"] == "decoder":
        assert table["allowed"].tolist() == [position <= table["query"] for position in table["positions"]]
    assert np.sum(found["overview"]["shares"], axis=-1) == pytest.approx(1, abs=1e-5)
    assert {row["check"] for row in found["receipt"]} == {*SCHEMA["$defs"]["check"]["properties"]["check"]["enum"]}
    assert found["unchecked"] == []


def test_all_heads_go_through_the_w_o_of_the_file(explained: Callable[..., Any], folders: dict[str, Path]) -> None:
    found = explained("encoder", "--layer", "1", "--head", "2")
    heads, tensors = numbers(found["heads"]), load_file(folders["encoder"] / "model.safetensors")
    weight, bias = (tensors[f"encoder.layer.1.attention.output.dense.{name}"] for name in ("weight", "bias"))
    np.testing.assert_allclose(heads["parts"][2], weight[:, 16:24] @ heads["z"][2], atol=1e-6)
    np.testing.assert_allclose(heads["result"], weight @ heads["z"].reshape(-1) + bias, atol=1e-5)
    assert (found["table"]["layer"], found["table"]["head"], found["why_head"]) == (1, 2, "you chose it")


def test_what_is_printed_is_what_the_json_has(
    explained: Callable[..., Any], command: Command, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = explained("encoder", "--word", "they")
    answer = command("explain", TEXT, "--model", folders["encoder"], "--word", "they")
    assert (answer.code, answer.err) == (0, "")
    table = found["table"]
    assert "[they]" in answer.out.splitlines()[0]
    assert f"Layer {table['layer']}, head {table['head']}: " in answer.out
    for at, token in enumerate(table["tokens"]):
        vector = [" ".join(f"{x: .2f}".replace("-0.00", " 0.00") for x in table[part][at][:2]) for part in "kv"]
        score, scaled, weight = (table[part][at] for part in ("products", "scaled", "weights"))
        k, v = (part.strip() for part in vector)
        row = rf"^{re.escape(token)} .*{k}.*{v}.* {score:.2f} +{scaled:.2f} +{weight:.3f} "
        assert re.search(row, answer.out, re.M), row
    assert re.search(rf"^ Z_f .* {np.linalg.norm(found['heads']['result']):.2f} *$", answer.out, re.M)
    for row in found["receipt"]:
        assert re.search(rf"^ok  {re.escape(row['check'])} ", answer.out, re.M)


def test_words_are_found_by_text_and_by_number(explained: Callable[..., Any]) -> None:
    by_text, by_number = explained("encoder", "--word", "Lions"), explained("encoder", "--word", "7")
    assert by_text["queries"][by_text["word"]]["text"] == "lions"
    assert by_text["table"] == by_number["table"]
    assert by_text["merged"].startswith("a word of several tokens: the mean over its tokens")
    word = by_text["queries"][by_text["word"]]
    assert by_text["table"]["query"] == word["tokens"][-1]


def test_whole_vectors(explained: Callable[..., Any], command: Command, folders: dict[str, Path]) -> None:
    found = explained("decoder", text="Action gets results")
    out = command("explain", "Action gets results", "--model", folders["decoder"], "--full").out
    whole = out[out.index("The vectors whole") :]
    table = found["table"]
    for vector in (table["q"], table["z"], *table["k"], *table["v"], found["heads"]["result"]):
        written = r"\s+".join(re.escape(f"{number:.4f}") for number in vector)
        assert re.search(rf"(?<![\d.-]){written}\s", whole)


def test_how_a_word_moved(explained: Callable[..., Any], command: Command, folders: dict[str, Path]) -> None:
    first, second = "Love Apple phones", "Apple pie with cream"
    found = explained("encoder", "--moved", second, text=first)["moved"]
    assert found["word"] == "Apple"
    assert [text["text"] for text in found["texts"]] == [first, second]
    assert found["texts"][1]["words"] == ["pie", "with", "cream"]
    model = headwise.load(folders["encoder"])
    vectors = [trace_text(model, text).streams["encoder"].after for text in (first, second)]
    places = [explained("encoder", "--word", "Apple", text=text) for text in (first, second)]
    tokens = [found["queries"][found["word"]]["tokens"] for found in places]
    a, b = (stream[own].mean(0).astype(float) for stream, own in zip(vectors, tokens, strict=True))
    assert found["after"] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-9)
    out = command("explain", first, "--model", folders["encoder"], "--moved", second).out
    assert f"similarity {found['before']:.3f} before, {found['after']:.3f} after" in " ".join(out.split())


def test_the_transformers_library_gives_the_same(
    explained: Callable[..., Any], command: Command, folders: dict[str, Path]
) -> None:
    ours = explained("encoder")
    answer = command("explain", TEXT, "--transformers", folders["encoder"], "--json")
    assert (answer.code, answer.err) == (0, "")
    theirs = checked(json.loads(answer.out))
    assert theirs["queries"] == ours["queries"]
    for name in ("q", "k", "v", "weights", "z"):
        np.testing.assert_allclose(theirs["table"][name], ours["table"][name], atol=1e-5)
    np.testing.assert_allclose(theirs["heads"]["result"], ours["heads"]["result"], atol=1e-5)
    assert theirs["unchecked"] == []


def test_a_family_that_is_not_ours(command: Command, folders: dict[str, Path]) -> None:
    assert "gpt_neox" in command("explain", TEXT, "--model", folders["neox"]).err
    found = checked(json.loads(command("explain", TEXT, "--transformers", folders["neox"], "--json").out))
    assert found["mode"] == "decoder"
    assert found["about"]["family"] == "gpt_neox"
    assert [row["check"] for row in found["receipt"]][-1] == "final output"


def test_standard_input(
    explained: Callable[..., Any], command: Command, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def given(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    given(b"Action gets results\n")
    found = explained("decoder", text="-")
    assert found["text"] == "Action gets results"
    given(b"caf\xe9")
    answer = command("explain", "-", "--model", folders["decoder"])
    assert (answer.code, answer.err) == (2, "headwise: standard input: byte 3 is not UTF-8\n")


def test_a_saved_trace_explains_the_same(
    explained: Callable[..., Any], command: Command, folders: dict[str, Path], tmp_path: Path
) -> None:
    saved = tmp_path / "trace.safetensors"
    found = explained("pair", "--target", "Action gets", "--save", str(saved))
    again = checked(json.loads(command("explain", "--trace", saved, "--json").out))
    assert {**again, "command": ""} == {**found, "command": ""}
    same = command("explain", "--trace", saved, "--model", folders["pair"])
    assert same.code == 0
    other = command("explain", "--trace", saved, "--model", folders["encoder"])
    assert other.code == 2
    assert re.fullmatch(rf"headwise: {saved}: recorded from another model \(.*\), not this one\n", other.err)
    assert sorted(tmp_path.iterdir()) == [saved]


def test_what_the_receipt_refuses_is_not_shown(command: Command, folders: dict[str, Path], tmp_path: Path) -> None:
    trace = trace_text(headwise.load(folders["decoder"]), TEXT)
    place = trace.place(1)
    mixed = place.mixed.copy()
    mixed[3, 2, 1] += 0.01
    replace(trace, places={**trace.places, ("decoder", 1): replace(place, mixed=mixed)}).save(tmp_path / "wrong")
    for more in ([], ["--json"], ["--page", tmp_path / "page.html"], ["--save", tmp_path / "copy"]):
        answer = command("explain", "--trace", tmp_path / "wrong", *more)
        assert (answer.code, answer.out) == (2, "")
        assert re.match(r"headwise: receipt: weights · v, decoder layer 1: differs by 0\.01, allowed is ", answer.err)
        assert answer.err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == [tmp_path / "wrong"]


REFUSED: list[tuple[str, list[str], str]] = [
    ("encoder", [""], "text: is empty; wanted at least one word"),
    ("encoder", [" \n"], "text: is empty; wanted at least one word"),
    ("encoder", ["lions " * 40], r"text: has \d+ tokens, and the model allows 64"),
    ("encoder", [TEXT, "--word", "lion"], "word: 'lion' is not in the text; the nearest is 'lions'"),
    ("encoder", [TEXT, "--word", "16"], "word: got number 16, the text has the words 0 to 15"),
    ("encoder", [TEXT, "--layer", "2"], r"layer: got 2, this trace has 0-1 \(encoder\)"),
    ("encoder", [TEXT, "--layer", "-1"], r"layer: got -1, this trace has 0-1 \(encoder\)"),
    ("encoder", [TEXT, "--head", "4"], "head: got 4, layer 0 has the heads 0 to 3"),
    ("encoder", [TEXT, "--mode", "cross"], "mode: got 'cross', this model has encoder"),
    ("encoder", [TEXT, "--target", "x"], "target: only an encoder-decoder reads one, and this model is none"),
    ("encoder", [TEXT, "--write", "2"], "write: got 2, wanted a number of tokens, of a model that writes"),
    ("encoder", [TEXT, "--moved", "Nothing else"], "moved: the two texts have no content word in common"),
    ("encoder", [TEXT, "--moved", ""], "text: is empty; wanted at least one word"),
    ("encoder", [TEXT, "--save", "/nowhere/at/all"], "/nowhere/at/all: cannot be written: "),
    ("encoder", [TEXT, "--trace", "x"], "text: wanted either a TEXT or --trace FILE"),
]


@pytest.mark.parametrize(("name", "words", "message"), REFUSED, ids=[" ".join(words)[-30:] for _, words, _ in REFUSED])
def test_bad_input_is_one_line(
    command: Command, folders: dict[str, Path], name: str, words: list[str], message: str
) -> None:
    answer = command("explain", *words, "--model", folders[name])
    assert (answer.code, answer.out) == (2, "")
    assert re.match(f"headwise: {message}", answer.err)
    assert answer.err.count("\n") == 1


def test_an_unreadable_trace_is_one_line(command: Command, tmp_path: Path) -> None:
    for content in (None, b"", b"no trace at all", b"\xff" * 64):
        if content is not None:
            (tmp_path / "trace").write_bytes(content)
        answer = command("explain", "--trace", tmp_path / "trace")
        assert (answer.code, answer.out) == (2, "")
        assert re.match(rf"headwise: {tmp_path}/trace: file: cannot be read as a trace: ", answer.err)
        assert answer.err.count("\n") == 1


@pytest.mark.parametrize("width", [200, 120, 80, 60, 48])
@pytest.mark.parametrize("name", ["encoder", "decoder", "pair"])
def test_lines_fit_the_terminal_and_no_number_is_cut(
    command: Command, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = command("explain", TEXT, "--model", folders[name]).out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= width
    assert re.findall(r"\d…", out) == []
    assert re.search(r"^sum .* 1\.000", out, re.M)


def test_colours_are_for_terminals_that_want_them(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    shown = explain_trace(trace_text(headwise.load(folders["encoder"]), TEXT), Wanted())

    def written(**options: Any) -> str:
        file = io.StringIO()
        show(shown, Console(file=file, width=100, **options))
        return file.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured, plain = written(force_terminal=True), written()
    assert "\x1b[35m" in coloured  # the previous word
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*(3|4|9)\d", written(force_terminal=True))


def test_a_text_cannot_steer_the_terminal(command: Command, folders: dict[str, Path]) -> None:
    answer = command("explain", "Action \x1b]0;title\x07 gets \x1b[2J results", "--model", folders["decoder"])
    assert answer.code == 0
    assert "\x1b" not in answer.out
    assert "\x07" not in answer.out
    assert "\\x1b" in answer.out


def test_a_long_text_shows_the_rows_that_matter(command: Command, folders: dict[str, Path]) -> None:
    answer = command("explain", f"{TEXT} " * 8, "--model", folders["decoder"])
    assert answer.code == 0
    hidden = re.search(r"… (\d+) more tokens with (0\.\d+) of the weight; --full shows them", answer.out)
    assert hidden is not None
    assert int(hidden[1]) > 50
    assert re.search(r"… \d+ words", answer.out)
    assert "--full shows them" not in command("explain", f"{TEXT} " * 8, "--model", folders["decoder"], "--full").out
