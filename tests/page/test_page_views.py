"""Every view opens, in a real browser, for every kind of model; a link restores it and files come out of it."""

import csv
import io
import re
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_models import KIDS, small_encoder

import headwise

VIEWS = ["sentence", "heads", "matrix", "table", "joined"]
PAINTED = """(selector) => {
  const shown = document.querySelector(selector);
  const canvas = new OffscreenCanvas(shown.width, shown.height);
  const context = canvas.getContext('2d');
  context.drawImage(shown, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size;
}"""


def check_views(page: Any, mode: str, layers: int, heads: int, keys: int) -> None:
    page.studied()
    assert page.count("button.head") == layers * heads
    assert page.tab.evaluate(PAINTED, "#matrix .canvas canvas") > 8, mode
    assert page.count("#table .worked tbody tr") == min(keys, 40)
    assert page.count("#joined .worked tbody tr") == heads
    assert page.count("#joined tr.result") == 1
    assert "looks at" in page.text("#said")
    assert page.count("#sentence .lines path") > 0
    assert page.count("#receipt tbody tr") >= 3
    assert page.tab.locator("#proof").is_visible()


@pytest.mark.weights
def test_every_view_of_a_sentence(show: Any, kids: Path, kids_trace: Any) -> None:
    page = show(kids)
    check_views(page, "encoder", 6, 12, len(kids_trace.tokens))
    assert page.text("#said").startswith("Layer 3, head 5: they looks at ")
    words = page.tab.locator("#sentence .word").all_inner_texts()
    assert words[1:-1] == re.findall(r"\w+|[.,]", KIDS.lower())
    page.tab.get_by_role("button", name="Tokens", exact=True).click()
    assert page.tab.locator("#sentence .word").all_inner_texts() == list(kids_trace.tokens)


@pytest.mark.weights
def test_every_view_of_512_tokens(show: Any, long: Path) -> None:
    page = show(long)
    check_views(page, "encoder", 6, 12, 512)
    page.tab.locator("#sentence button", has_text="Tokens").click()
    assert page.count("#sentence .word") == 512
    assert "float16" in page.text("#receipt")
    assert "moves by at most" in page.text("#receipt")
    page.tab.get_by_role("button", name="Further rows").click()
    assert "rows 41 to 80 of 512" in page.text("#table .pages")


@pytest.mark.weights
def test_every_view_of_a_text_that_a_model_wrote(show: Any, generated: Path, generated_trace: Any) -> None:
    page = show(generated)
    check_views(page, "decoder", 3, 9, len(generated_trace.tokens))
    assert page.count("#sentence .word.written") == 4
    page.tab.locator("#sentence .word.written").last.click()
    page.tab.get_by_role("button", name="The chosen word").click()
    assert page.count("button.head .best") == 27


def test_every_view_of_an_encoder_and_a_decoder(show: Any, cross: Path) -> None:
    page = show(cross)
    for mode, keys in (("Encoder", 9), ("Decoder", 6), ("Cross", 9)):
        page.tab.get_by_role("button", name=mode).click()
        page.tab.wait_for_function("n => document.querySelectorAll('#table .worked tbody tr').length === n", arg=keys)
        page.tab.locator("#sentence .word").nth(3).click()
        check_views(page, mode.lower(), 2, 3, keys)
    assert page.count("#sentence .side") == 2
    page.tab.get_by_role("button", name="Is looked at by").click()
    page.tab.locator("#sentence .side").nth(1).locator(".word").nth(4).click()
    assert "#9 is looked at by" in page.text("#said")


def test_masked_is_drawn_as_masked(show: Any, cross: Path) -> None:
    page = show(cross, "#mode=decoder&layer=0&head=0&token=4")
    assert page.tab.locator("#table td.scores").all_inner_texts()[0] == "masked"
    assert page.tab.locator("#table td.scores").all_inner_texts()[3] != "masked"
    assert "Hatched: masked" in page.text("#matrix .note")
    page.tab.locator("#matrix summary").click()
    page.tab.locator("#matrix details td").first.wait_for()
    assert page.tab.locator("#matrix details td").all_inner_texts().count("masked") == 3


def test_the_steps_unfold_with_their_numbers(show: Any, cross: Path) -> None:
    page = show(cross, "#mode=encoder&layer=1&head=2&token=3&step=0")
    columns = [page.count("#table .worked thead th")]
    for part in ("qk", " · ", "÷ √d", "+ bias", "softmax()", "v", "z"):
        page.tab.get_by_role("button", name="Next ›").click()
        columns.append(page.count("#table .worked thead th"))
        lit = "".join(page.tab.locator("#table .formula .lit").all_inner_texts())
        assert part.replace(" ", "") in lit.replace(" ", "")
        assert page.text("#live") == page.text("#table .story")
        if part not in ("qk", "softmax()"):
            continue
        title = page.text("#table .provenance")
        assert title.startswith("softmax: #8 on ") if part == "softmax()" else title.startswith("Click a cell")
    assert columns == sorted(columns)
    weights = [float(text) for text in page.tab.locator("#table td.weights").all_inner_texts()]
    best = page.tab.locator("#table .worked tbody th").all_inner_texts()[weights.index(max(weights))]
    page.tab.get_by_role("button", name="softmax").click()
    assert f"“{best}” gets {max(weights):.3f}" in page.text("#table .story")


def test_a_number_shows_what_it_is_made_from(show: Any, cross: Path) -> None:
    page = show(cross, "#mode=decoder&layer=0&head=0&token=4")
    marked = "[...document.querySelectorAll('#table .source')].map((one) => one.dataset.what)"
    for what, sources in (
        ("products", ["query", "key"]),
        ("scaled", ["products"]),
        ("scores", ["scaled"]),
        ("weights", ["scores"] * 6),
        ("weighted", ["value", "weights"]),
        ("z", ["weighted"] * 6),
    ):
        page.tab.locator(f"#table td[data-what='{what}']").last.hover()
        assert page.tab.evaluate(marked) == sources


@pytest.mark.weights
def test_a_sink_is_marked(show: Any, kids: Path, kids_trace: Any) -> None:
    weights = kids_trace.weights(3, 5)
    place = kids_trace.places["encoder", 3]
    wrote = weights * np.linalg.norm(place.value[5] @ place.head_output_weight(5).T, axis=-1)
    looked, written = (x.sum(0)[0] / x.sum() for x in (weights, wrote))
    assert looked > 0.25
    assert written < looked / 2
    page = show(kids, "#layer=3&head=5")
    assert f"[CLS]: {round(100 * looked)} % of the weight goes here" in page.text("#matrix .sink")
    assert f"{round(100 * written)} %" in page.text("#matrix .sink")


@pytest.mark.weights
def test_a_link_restores_the_view(show: Any, kids: Path) -> None:
    page = show(kids)
    page.tab.locator("button.head[data-layer='4'][data-head='7']").click()
    page.tab.locator("#sentence .word", has_text="lions").click()
    page.tab.get_by_role("button", name="Scores").click()
    page.tab.get_by_role("button", name="÷√d").click()
    address = page.tab.evaluate("location.hash")
    assert "layer=4" in address
    assert "head=7" in address
    assert "word=7" in address
    other = show(kids, address)
    for selector in ("#said", "#matrix .legend", "#table .worked thead", "#table .lead"):
        assert other.text(selector) == page.text(selector)
    assert "weight·v" not in other.text("#table .worked thead")


@pytest.mark.weights
def test_a_link_to_nowhere_opens_something(show: Any, kids: Path) -> None:
    page = show(kids, "#layer=99&head=-4&word=zebra&lens=none&mode=cross&step=1e9")
    assert page.text("#said").startswith("Layer 5, head ")


def saved(page: Any, button: str) -> bytes:
    with page.tab.expect_download() as download:
        page.tab.get_by_role("button", name=button).click()
    return Path(download.value.path()).read_bytes()


@pytest.mark.weights
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_saved_as_svg_and_csv(show: Any, kids: Path, view: str) -> None:
    page = show(kids)
    page.studied()
    picture = xml.etree.ElementTree.fromstring(saved(page, f"Save {view} as SVG"))
    assert picture.tag.endswith("svg")
    assert len(list(picture.iter())) > 20
    table = list(csv.reader(io.StringIO(saved(page, f"Save {view} as CSV").decode("utf-8-sig"))))
    assert len(table) > 10
    assert len({len(row) for row in table[:10]}) == 1


def test_pictures_are_made_for_white_paper(show: Any, cross: Path) -> None:
    pictures = []
    for scheme in ("light", "dark"):
        page = show(cross, color_scheme=scheme)
        page.studied()
        before = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
        views = [saved(page, f"Save {view} as SVG").decode() for view in VIEWS]
        assert all("<image" not in view for view in views), "a picture that is not sharp"
        assert page.tab.evaluate("getComputedStyle(document.body).backgroundColor") == before
        pictures.append(views)
    assert pictures[0] == pictures[1]


def test_a_spreadsheet_runs_nothing(show: Any, folder: Path) -> None:
    path = headwise.write_page(small_encoder(["=1+1", "and", '"so"', "-on"]), folder / "formula.html")
    text = saved(show(path), "Save matrix as CSV").decode("utf-8-sig")
    cells = next(csv.reader(io.StringIO(text)))
    assert cells == ["", "'=1+1", "and", '"so"', "'-on"]


@pytest.mark.parametrize("width", [360, 768, 1440, 2200])
def test_the_page_is_never_wider_than_the_window(show: Any, cross: Path, width: int) -> None:
    page = show(cross, viewport={"width": width, "height": 800})
    page.studied()
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width


def test_those_who_want_no_motion_get_none(show: Any, cross: Path) -> None:
    moving = "getComputedStyle(document.querySelector('.lines path')).animationName"
    assert show(cross, reduced_motion="reduce").tab.evaluate(moving) == "none"
    assert show(cross, reduced_motion="no-preference").tab.evaluate(moving) != "none"


def test_the_page_stands_in_a_notebook(show: Any, folder: Path) -> None:
    trace = small_encoder(["a", "small", "text"])
    path = folder / "notebook.html"
    path.write_text(f"<!doctype html><html data-ready='yes'><body>{trace._repr_html_()}</body></html>")
    page = show(path)
    assert page.tab.locator("iframe").get_attribute("sandbox") == "allow-scripts allow-downloads"
    frame = page.tab.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for()
    frame.locator("#sentence .word", has_text="small").click()
    assert "small looks at" in frame.locator("#said").inner_text()
