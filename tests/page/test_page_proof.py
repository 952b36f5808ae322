"""The receipt in short: every part is in view at every width, and whole by pointer and by keyboard."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_models import small_encoder

import headwise

DIGEST = "0123456789abcdef" * 4
COMMAND = "headwise explain 'The kids were scared of the lions, so they left right away.' --page 'a page of mine.html'"
ABOUT = {"source": "checkpoints/minilm", "file": f"model.safetensors, SHA-256 {DIGEST}"}
IN_VIEW = """element => {
  const box = element.getBoundingClientRect();
  const at = document.elementFromPoint(box.left + 2, box.top + box.height / 2);
  const inside = box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth;
  return inside && box.width > 30 && element.contains(at);
}"""


@pytest.fixture(scope="module")
def proved(folder: Path) -> Path:
    trace = small_encoder(["The", "kids", "left"])
    return headwise.write_page(replace(trace, about={**trace.about, **ABOUT}), folder / "proved.html", command=COMMAND)


def seen(page: Any, selector: str) -> str:
    """The text that stands in view: what only those who listen get is left out."""
    element = page.tab.locator(f"#proof {selector}")
    assert element.evaluate(IN_VIEW), f"{selector} is out of view"
    nodes = "element => [...element.childNodes].filter(one => !one.matches?.('.hidden'))"
    return element.evaluate(f"element => ({nodes})(element).map(one => one.textContent).join('')").strip()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (768, 900), (360, 740)])
def test_all_of_it_is_in_view_wherever_the_page_stands(
    show: Any, proved: Path, width: int, height: int, scheme: str
) -> None:
    page = show(proved, viewport={"width": width, "height": height}, color_scheme=scheme)
    page.studied()
    receipt = page.tab.evaluate("JSON.parse(document.getElementById('header').textContent).receipt")
    for move in (
        "scrollTo(0, 0)",
        "scrollTo(0, document.body.scrollHeight / 2)",
        "scrollTo(0, document.body.scrollHeight)",
    ):
        page.tab.evaluate(move)
        worst = seen(page, ".verdict").removeprefix("✓largest difference ")
        assert float(worst.replace("−", "-")) == pytest.approx(receipt["worst"], rel=0.05)
        assert seen(page, ".run") == "float32 · sdpa (auto)"
        assert seen(page, ".model") == "minilm"
        assert DIGEST[:8] in seen(page, ".hash")
        assert seen(page, ".command") == COMMAND
        assert seen(page, "button") == "Copy"
    assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [1440, 360])
def test_what_is_cut_short_is_whole_by_pointer_and_by_keyboard(show: Any, proved: Path, width: int) -> None:
    page = show(proved, viewport={"width": width, "height": 740})
    wanted = {"model": ABOUT["source"], "hash": f"SHA-256 of model.safetensors: {DIGEST}", "command": COMMAND}
    whole = page.tab.locator("#proof .whole")
    for name, text in wanted.items():
        page.tab.locator(f"#proof .{name}").hover()
        assert whole.inner_text() == text
        page.tab.mouse.move(5, 5)
        assert whole.is_hidden()
        page.tab.locator(f"#proof .{name}").focus()
        assert whole.inner_text() == text
        assert whole.bounding_box()["x"] + whole.bounding_box()["width"] <= width
        page.tab.keyboard.press("Escape")
        assert whole.is_hidden()
    spoken = page.tab.locator("#proof").aria_snapshot()
    for text in wanted.values():
        assert text in spoken
    assert "Copy the command" in spoken


def test_the_command_is_copied(show: Any, proved: Path) -> None:
    page = show(proved, permissions=["clipboard-read", "clipboard-write"])
    page.tab.get_by_role("button", name="Copy the command").click()
    page.tab.locator("#proof button", has_text="Copied").wait_for()
    assert page.tab.evaluate("navigator.clipboard.readText()") == COMMAND


def test_without_a_file_or_a_command_it_says_so(show: Any, folder: Path) -> None:
    trace = small_encoder(["One", "two"])
    page = show(headwise.write_page(trace, folder / "unproved.html"))
    assert seen(page, ".hash") == f"weights {trace.about['fingerprint'][:8]}…"
    assert seen(page, ".command") == "recorded in Python"
