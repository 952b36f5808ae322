"""The page of an atlas in a real browser, with the network off."""

import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Opened

sys.path.insert(0, str(Path(__file__).parent.parent / "analysis" / "atlas"))
from atlas_models import CORPUS, NEXT, PAIR, known

from headwise.analysis.atlas.run import atlas


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("atlas")
    atlas(known(), CORPUS, out=place, knockouts=2, relations=["object", "adjective", "coreference"])
    return place / "atlas.html"


@pytest.fixture
def page(browser: Any, written: Path) -> Any:
    context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900})
    opened = Opened(context, written)
    yield opened
    assert opened.complaints == []
    assert opened.requests == [written.as_uri()]
    context.close()


def test_a_cell_opens_its_sentences_and_the_head_on_them(page: Any) -> None:
    heads, rows = 4, 6
    assert page.count(".cell") == heads * rows
    assert page.text("#grid .atlas").count("–") == 2 * heads  # coreference has no pairs here
    page.tab.locator(".cell").nth(PAIR * rows).click()
    assert page.text("#finding .verdict").startswith("Reads it")
    assert page.text("#profile-title") == "Head 0.2"
    assert "without it: movement" in page.text("#profile .body")
    assert page.text("#examples h3").startswith("Right (")
    assert "Wrong (0)" in page.text("#examples .body")
    page.tab.locator(".example").first.click()
    chosen = page.tab.locator("#sentence .word[aria-pressed=true]").inner_text().split("\n")[0]
    assert chosen == "fed"
    words = page.tab.locator("#sentence .word").all_inner_texts()
    weights = {text.split("\n")[0]: float(text.split("\n")[1]) for text in words}
    assert max(weights, key=lambda word: weights[word]) == "dog"


def test_a_head_that_reads_something_else_is_wrong(page: Any) -> None:
    page.tab.locator(".cell").nth(NEXT * 6).click()
    assert page.text("#profile-title") == "Head 0.0"
    assert page.count(".example .wrong") > 0


def test_the_grid_is_walked_with_the_keyboard(page: Any) -> None:
    page.tab.locator(".cell[tabindex='0']").focus()
    focused = "() => [...document.querySelectorAll('.cell')].indexOf(document.activeElement)"
    start = page.tab.evaluate(focused)
    page.tab.keyboard.press("ArrowRight")
    assert page.tab.evaluate(focused) == start + 1
    page.tab.keyboard.press("Enter")
    assert page.tab.locator(".cell").nth(start + 1).get_attribute("aria-pressed") == "true"
    assert page.tab.locator(".cell[tabindex='0']").count() == 1


def test_the_lens_changes_the_numbers(page: Any) -> None:
    before = page.tab.locator(".cell").all_inner_texts()
    page.tab.get_by_role("button", name="by what it wrote").click()
    assert page.tab.get_by_role("button", name="by what it wrote").get_attribute("aria-pressed") == "true"
    assert len(page.tab.locator(".cell").all_inner_texts()) == len(before)
