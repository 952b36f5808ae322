"""For everyone: by keyboard alone, by ear, in light and dark, in every script, and without danger from a text."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_models import small_encoder

import headwise

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
SECTIONS = ["sentence", "heads", "matrix", "table", "joined", "receipt"]
FOCUSED = "document.activeElement.closest('section')?.id ?? ''"


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.tab.keyboard.press(key)


def focused(page: Any) -> str:
    return page.tab.evaluate(FOCUSED)


def tab_into(page: Any, section: str, selector: str) -> None:
    """Press Tab until an element is reached that fits, in this section."""
    for _ in range(80):
        press(page, "Tab")
        if page.tab.evaluate("s => document.activeElement.matches(s)", f"#{section} {selector}"):
            return
    raise AssertionError(f"{section} {selector} cannot be reached by Tab")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_violation(show: Any, cross: Path, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed (npm ci)")
    page = show(cross, "#mode=decoder&layer=1&head=1&token=4", color_scheme=scheme, bypass_csp=True)
    page.studied()
    page.tab.locator("#table td.weights").nth(3).click()
    page.tab.locator("#joined td.written").first.click()
    page.tab.locator("#matrix summary").click()
    page.tab.add_script_tag(path=AXE)
    found = page.tab.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    serious = [
        f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > 20


def test_the_keyboard_alone_reaches_every_view(show: Any, cross: Path) -> None:
    page = show(cross)
    page.studied()
    reached = []
    for _ in range(120):
        press(page, "Tab")
        reached.append(focused(page))
    assert [name for at, name in enumerate(reached) if name and name not in reached[:at]] == SECTIONS


def test_arrow_keys_move_in_every_view(show: Any, cross: Path) -> None:
    page = show(cross, "#mode=encoder&layer=0&head=0&token=0")
    page.studied()
    tab_into(page, "sentence", "button.word")
    press(page, "ArrowRight", "ArrowRight", "Enter")
    assert "#7 looks at" in page.text("#said")
    tab_into(page, "heads", "button.head")
    press(page, "ArrowDown", "ArrowRight", "Enter")
    assert "Layer 1, head 1: #7" in page.text("#said")
    tab_into(page, "matrix", "canvas")
    press(page, "ArrowDown", "ArrowRight", "ArrowRight")
    assert page.text("#matrix .said").startswith("#8 looks at #7 with ")
    assert page.text("#live").startswith("#8 looks at #7 with ")
    press(page, "Enter")
    assert "Layer 1, head 1: #8 looks at" in page.text("#said")
    tab_into(page, "table", "td")
    assert page.text(".readout").startswith("embedding of #5: ")
    before = page.tab.evaluate("document.activeElement.dataset.key")
    press(page, "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight")
    now = page.tab.evaluate("({ ...document.activeElement.dataset })")
    assert int(now["key"]) == int(before) + 1
    assert now["what"] == "products"
    press(page, "Enter")
    assert page.text("#table .provenance h3").startswith("q·k: #8 with ")
    tab_into(page, "joined", "td")
    press(page, "ArrowRight", "ArrowRight", "Enter")
    assert "(z · W_O)[0] of head 0" in page.text("#joined .provenance h3")


def test_escape_closes_and_goes_up(show: Any, cross: Path) -> None:
    page = show(cross)
    page.studied()
    tab_into(page, "table", "td")
    press(page, "Enter")
    assert page.count("#table .provenance.open") == 1
    press(page, "Escape")
    assert page.count("#table .provenance.open") == 0
    ways = []
    for _ in range(4):
        ways.append(focused(page))
        press(page, "Escape")
    assert ways == ["table", "matrix", "heads", "sentence"]


def test_focus_is_seen(show: Any, cross: Path) -> None:
    page = show(cross)
    outline = "(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])"
    for section, selector in (("sentence", "button.word"), ("heads", "button.head"), ("table", "td")):
        tab_into(page, section, selector)
        style = page.tab.evaluate(f"{outline}(getComputedStyle(document.activeElement))")
        assert style[0] == "solid"
        assert float(style[1].removesuffix("px")) >= 2


def test_those_who_listen_get_tables_and_sentences(show: Any, cross: Path) -> None:
    page = show(cross, "#mode=cross&layer=1&head=2&token=3")
    said = page.tab.locator("#live").text_content()
    assert said == page.text("#said")
    assert said.startswith("Layer 1, head 2: #23 looks at ")
    page.studied()
    label = page.tab.locator("button.head").first.get_attribute("aria-label")
    assert label.startswith("Layer 0, head 0: ")
    assert page.tab.get_by_role("table", name="the steps for #23").count() == 1
    assert page.tab.get_by_role("columnheader", name="softmax").count() == 1
    assert page.tab.get_by_role("rowheader", name="#7").count() >= 1
    strip = page.tab.locator("#table td.key canvas").first.get_attribute("aria-label")
    assert strip.startswith("k of #5, 8 numbers: ")


HOSTILE = [
    "</script><script>document.title='taken'</script>",
    "<img/src=x/onerror=document.title='taken'>",
    "\"'`&amp;",
    "<!--",
    "]]>",
    "{header}",
    "\u2028",
    "😀",
    "javascript:document.title='taken'",
]


def test_a_text_with_markup_does_nothing(show: Any, folder: Path) -> None:
    trace = small_encoder(HOSTILE)
    page = show(headwise.write_page(trace, folder / "hostile.html", command=HOSTILE[0]))
    page.studied()
    words = page.tab.locator("#sentence .word").all_text_contents()
    assert [word for word in words if word not in "␣↵"] == [word for word in HOSTILE if word.strip()]
    page.tab.locator("#sentence .word").first.click()
    page.tab.locator("#table td.weights").first.click()
    assert page.tab.title().endswith("· headwise")
    assert page.count("img") == 0
    assert page.count("script:not([type])") == 1
    assert HOSTILE[0] in page.tab.locator("#receipt code").text_content()


def test_nothing_else_may_run_or_be_fetched(show: Any, cross: Path) -> None:
    page = show(cross)
    policy = page.tab.locator("meta[http-equiv]").get_attribute("content")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    added = """() => {
      const script = document.createElement('script');
      script.textContent = "document.documentElement.dataset.taken = 'yes'";
      document.body.append(script);
      return document.documentElement.dataset.taken ?? 'no';
    }"""
    assert page.tab.evaluate(added) == "no"
    assert page.tab.evaluate("fetch('https://example.org/').then(() => 'out', () => 'refused')") == "refused"
    assert all("Content Security Policy" in text for text in page.complaints)
    assert len(page.complaints) >= 2
    page.complaints.clear()
    page.requests = [url for url in page.requests if url != "https://example.org/"]


@pytest.mark.parametrize(
    ("name", "words", "direction"),
    [
        ("arabic", ["ذهب", "الأطفال", "إلى", "المدرسة"], "rtl"),
        ("hebrew", ["הילדים", "פחדו", "מהאריות"], "rtl"),
        ("chinese", ["孩子", "们", "害怕", "狮子", "。"], "ltr"),
    ],
)
def test_every_script_is_read_in_its_direction(
    show: Any, folder: Path, name: str, words: list[str], direction: str
) -> None:
    page = show(headwise.write_page(small_encoder(words), folder / f"{name}.html"), "#token=0")
    assert page.tab.locator("#sentence .word").all_inner_texts() == words
    assert page.tab.evaluate("getComputedStyle(document.querySelector('.sentence')).direction") == direction
    first, second = (page.tab.locator("#sentence .word").nth(at).bounding_box()["x"] for at in (0, 1))
    assert (first > second) == (direction == "rtl")
    page.tab.locator("#sentence .word").first.focus()
    press(page, "ArrowLeft" if direction == "rtl" else "ArrowRight", "Enter")
    assert f"{words[1]} looks at" in page.text("#said")


def test_words_stand_as_they_were_written_and_tokens_as_the_model_sees_them(show: Any, folder: Path) -> None:
    trace = small_encoder(["The", "🦁", "ran"])
    stream = replace(trace.streams["encoder"], tokens=("the", "[UNK]", "ran"))
    page = show(headwise.write_page(replace(trace, streams={"encoder": stream}), folder / "lion.html"), "#token=1")
    assert page.tab.locator("#sentence .word").all_inner_texts() == ["The", "🦁", "ran"]
    assert ": 🦁 looks at " in page.text("#said")
    page.tab.get_by_role("button", name="Tokens", exact=True).click()
    assert page.tab.locator("#sentence .word").all_inner_texts() == ["the", "[UNK]", "ran"]


def test_without_scripts_it_says_why(browser: Any, cross: Path) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(cross.as_uri())
    assert "needs scripts" in page.locator("body").inner_text()
    context.close()
