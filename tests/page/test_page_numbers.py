"""Numbers read from the page equal Python's to six digits: they are computed in the page, from q, k and v."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.analysis.survey import survey

PLACES = [("kids", 3, 5, 9), ("kids", 0, 2, 4), ("generated", 9, 4, -1), ("cross", 1, 2, 3)]


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


def six(value: float) -> Any:
    """Six significant digits, or what a sum of float32 numbers of size one can be worth."""
    return pytest.approx(value, rel=1e-6, abs=2e-6)


def result(page: Any, section: str = "table") -> float:
    return float(page.tab.locator(f"#{section} .provenance output").get_attribute("data-value"))


def saved_table(page: Any, view: str) -> dict[str, dict[str, str]]:
    """The rows of a saved table by their first cell; of equal words the last one stays."""
    with page.tab.expect_download() as download:
        page.tab.get_by_role("button", name=f"Save {view} as CSV").click()
    rows = csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig")))
    return {next(iter(row.values())): row for row in rows}


@pytest.mark.weights
@pytest.mark.parametrize(("name", "layer", "head", "query"), PLACES)
def test_every_step_of_a_row(
    request: pytest.FixtureRequest, show: Any, name: str, layer: int, head: int, query: int
) -> None:
    trace, path = request.getfixturevalue(f"{name}_trace"), request.getfixturevalue(name)
    mode = trace.modes[-1]
    query %= trace.place(layer, mode).queries
    steps = trace.steps(layer, head, query, mode)
    page = show(path, f"#mode={mode}&layer={layer}&head={head}&token={query}")
    seen = np.flatnonzero(steps.allowed)
    for key in {int(seen[0]), int(seen[-1]), int(steps.weights.argmax())}:
        wanted = {
            "products": steps.products,
            "scaled": steps.scaled,
            "weights": steps.weights,
        } | ({"scores": steps.scores} if trace.place(layer, mode).bias is not None else {})
        for what, values in wanted.items():
            page.tab.locator(f"#table td[data-what='{what}'][data-key='{key}']").click()
            assert result(page) == six(values[key]), what
    page.tab.locator("#table td[data-what='z']").click()
    for element in (0, 3, len(steps.z) - 1):
        page.tab.locator("#table .provenance input").fill(str(element))
        page.tab.locator("#table .provenance input").press("Enter")
        assert f"z[{element}]" in page.text("#table .provenance h3")
        assert result(page) == six(steps.z[element])


@pytest.mark.weights
def test_the_products_that_are_shown_add_up(show: Any, kids: Path, kids_trace: Any) -> None:
    page = show(kids, "#layer=2&head=1&token=5")
    page.tab.locator("#table td[data-what='products'][data-key='7']").click()
    cells = page.tab.locator("#table .provenance tbody td").all_inner_texts()
    q, k, products = (np.array([number(cell) for cell in cells[at::3]]) for at in range(3))
    place = kids_trace.places["encoder", 2]
    np.testing.assert_allclose(q, place.query[1, 5], rtol=1e-6)
    np.testing.assert_allclose(k, place.key[1, 7], rtol=1e-6)
    np.testing.assert_allclose(products, q * k, rtol=2e-6)
    assert result(page) == six(products.sum())
    page.tab.locator("#table td[data-what='weights'][data-key='7']").click()
    cells = page.tab.locator("#table .provenance tbody td").all_inner_texts()
    powers = np.array([number(cell) for cell in cells[1::2]])
    assert result(page) == six(powers[7] / powers.sum())


@pytest.mark.weights
def test_the_whole_saved_table(show: Any, generated: Path, generated_trace: Any) -> None:
    query = len(generated_trace.tokens) - 3
    steps = generated_trace.steps(3, 8, query)
    rows = saved_table(show(generated, f"#layer=3&head=8&token={query}"), "table")
    tokens = [token.strip() for token in generated_trace.tokens]
    for key, word in enumerate(tokens):
        if not word or tokens.count(word) > 1:
            continue
        row = rows[word]
        assert float(row["q·k"]) == six(steps.products[key])
        assert float(row["weight"]) == six(steps.weights[key])
        assert row["score"] == "masked" if key > query else float(row["score"]) == six(steps.scores[key])
        for at in range(64):
            assert float(row[f"k{at}"]) == six(steps.k[key, at])
            assert float(row[f"weight·v{at}"]) == six(steps.weighted[key, at])
    assert [float(rows["z"][f"weight·v{at}"]) for at in range(64)] == [six(one) for one in steps.z]


@pytest.mark.weights
@pytest.mark.parametrize(("name", "layer", "query"), [("kids", 4, 9), ("cross", 0, 2)])
def test_all_heads_together(request: pytest.FixtureRequest, show: Any, name: str, layer: int, query: int) -> None:
    trace, path = request.getfixturevalue(f"{name}_trace"), request.getfixturevalue(name)
    mode = trace.modes[-1]
    joined = trace.joined(layer, query, mode)
    page = show(path, f"#mode={mode}&layer={layer}&head=1&token={query}")
    rows = saved_table(page, "joined")
    width = len(joined.result)
    assert [float(rows["Z_f"][str(at)]) for at in range(width)] == [six(one) for one in joined.result]
    for head, part in enumerate(joined.parts):
        row = rows[f"z·W_O of head {head}"]
        assert [float(row[str(at)]) for at in range(width)] == [six(one) for one in part]
        assert float(row["length"]) == six(np.linalg.norm(part))
    page.tab.locator("#joined td[data-what='written'][data-key='1'] canvas").click(position={"x": 1, "y": 4})
    assert result(page, "joined") == six(joined.parts[1, 0])
    page.tab.locator("#joined td[data-what='length'][data-key='1']").click()
    assert result(page, "joined") == six(np.linalg.norm(joined.parts[1]))
    page.tab.locator("#joined td[data-what='result'] canvas").click(position={"x": 1, "y": 4})
    assert result(page, "joined") == six(joined.result[0])


@pytest.mark.weights
def test_words_of_several_tokens_are_merged(show: Any, long: Path, long_trace: Any) -> None:
    tokens = list(long_trace.tokens)
    offsets = long_trace.streams["encoder"].offsets
    letters = [token.strip("#").isalpha() for token in tokens]
    joined = [offsets[at, 1] == offsets[at + 1, 0] and all(letters[at : at + 2]) for at in range(len(tokens) - 1)]
    first = joined.index(True)
    stop = first + 1
    while joined[stop - 1]:
        stop += 1
    merged = long_trace.weights(2, 7)[first:stop].mean(0)
    page = show(long, f"#layer=2&head=7&token={first}")
    assert "merged: mean over its queries, sum over its keys" in page.text("#sentence .note")
    rows = saved_table(page, "sentence")
    assert float(rows["[CLS]"]["weight"]) == pytest.approx(merged[0], abs=2e-3)  # kept in float16
    alone = [at for at in range(first) if tokens.count(tokens[at]) == 1]
    for at in alone:
        assert float(rows[tokens[at]]["weight"]) == pytest.approx(merged[at], abs=2e-3)


@pytest.mark.weights
def test_the_receipt_states_the_error_of_float16(show: Any, long: Path, long_trace: Any) -> None:
    page = show(long, "#layer=5&head=3&token=100")
    header = page.tab.evaluate("JSON.parse(document.getElementById('header').textContent)")
    stated = {row["what"]: row["error"] for row in header["receipt"]["stored"]["errors"]}
    assert 0 < stated["a weight"] < 0.05
    rows = page.tab.evaluate("header => header.receipt.rows.length", header)
    assert rows == 4
    with page.tab.expect_download() as download:
        page.tab.get_by_role("button", name="Save matrix as CSV").click()
    page.tab.locator("#sentence button", has_text="Tokens").click()
    with page.tab.expect_download() as download:
        page.tab.get_by_role("button", name="Save matrix as CSV").click()
    lines = list(csv.reader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))
    drawn = np.array([[float(cell) for cell in line[1:]] for line in lines[1:]])
    assert np.abs(drawn - long_trace.weights(5, 3)).max() <= stated["a weight"] * 1.001


@pytest.mark.weights
def test_what_a_word_receives_and_the_mean_of_the_layer(show: Any, kids: Path, kids_trace: Any) -> None:
    weights = kids_trace.weights(1)
    token = list(kids_trace.tokens).index("lions")
    page = show(kids, f"#layer=1&head=8&token={token}&direction=to")
    away = list(kids_trace.tokens).index("away")
    assert float(saved_table(page, "sentence")["away"]["weight"]) == six(weights[8, away, token])
    page.tab.get_by_role("button", name="Mean of the layer").click()
    assert "mean of 12 heads" in page.text("#said")
    assert float(saved_table(page, "sentence")["away"]["weight"]) == six(weights[:, away, token].mean())


@pytest.mark.weights
def test_what_each_word_wrote(show: Any, kids: Path, kids_trace: Any) -> None:
    page = show(kids, "#layer=4&head=2&token=3&lens=wrote")
    rows = saved_table(page, "matrix")
    wrote = kids_trace.wrote(4, 2, 3).norms
    assert [float(cell) for cell in list(rows["were"].values())[1:][-5:]] == [six(one) for one in wrote[-5:]]


@pytest.mark.weights
@pytest.mark.parametrize("name", ["kids", "generated", "cross"])
def test_how_heads_look_is_what_the_terminal_says(request: pytest.FixtureRequest, show: Any, name: str) -> None:
    trace, path = request.getfixturevalue(f"{name}_trace"), request.getfixturevalue(name)
    mode = trace.modes[-1]
    found = survey(trace, mode)
    page = show(path, f"#mode={mode}")
    page.studied()
    with page.tab.expect_download() as download:
        page.tab.get_by_role("button", name="Save heads as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))
    assert len(rows) == page.count("button.head")
    for row in rows:
        shares = found.shares[found.layers.index(int(row["layer"])), int(row["head"])]
        kinds = ("first", "self", "previous", "next", "same", "far", "near")
        assert [float(row[kind]) for kind in kinds] == [pytest.approx(share, abs=2e-6) for share in shares]
