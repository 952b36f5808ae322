"""A real browser with the network off, and pages of real and small models, each written once."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from page_models import KIDS, STORY, recorded, small_cross, written_by

import headwise

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not installed (on Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


class Opened:
    """A page in the browser, with all that it asked of the network and all that it complained about."""

    def __init__(self, context: Any, path: Path, address: str = "") -> None:
        self.tab = context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.tab.goto(path.as_uri() + address)
        self.tab.wait_for_selector("html[data-ready]")

    def text(self, selector: str) -> str:
        return self.tab.locator(selector).first.inner_text()

    def count(self, selector: str) -> int:
        return self.tab.locator(selector).count()

    def studied(self) -> None:
        """Wait until all heads have their pictures."""
        self.tab.wait_for_function(
            "() => document.querySelectorAll('.head').length === document.querySelectorAll('.head canvas').length"
        )


@pytest.fixture
def show(browser: Any) -> Iterator[Any]:
    """Opens pages; at the end, nothing may have left them and nothing may have been complained about."""
    contexts: list[Any] = []
    opened: list[Opened] = []

    def open_page(path: Path, address: str = "", **options: Any) -> Opened:
        options.setdefault("viewport", {"width": 1440, "height": 900})
        contexts.append(browser.new_context(offline=True, accept_downloads=True, **options))
        opened.append(Opened(contexts[-1], path, address))
        return opened[-1]

    yield open_page
    for page in opened:
        outside = [url for url in page.requests if not url.startswith(("file:", "data:", "blob:", "about:"))]
        assert outside == []
        assert page.complaints == []
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def kids_trace(minilm: Any) -> Any:
    return recorded(minilm, KIDS)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="session")
def kids(kids_trace: Any, folder: Path) -> Path:
    """MiniLM and a sentence of 11 words; they looks at kids."""
    focus = {"mode": "encoder", "layer": 3, "head": 5, "token": list(kids_trace.tokens).index("they")}
    return headwise.write_page(kids_trace, folder / "kids.html", focus=focus)


@pytest.fixture(scope="session")
def long_trace(minilm: Any) -> Any:
    return recorded(minilm, STORY * 40, most=512)


@pytest.fixture(scope="session")
def long(long_trace: Any, folder: Path) -> Path:
    """MiniLM and 512 tokens."""
    return headwise.write_page(long_trace, folder / "long.html")


@pytest.fixture(scope="session")
def generated_trace(smollm2: Any) -> Any:
    return written_by(smollm2, "Action gets results", 4)


@pytest.fixture(scope="session")
def generated(generated_trace: Any, folder: Path) -> Path:
    """SmolLM2: causal, grouped heads, and four words that it wrote itself."""
    prompt = len(generated_trace.tokens) - 4
    return headwise.write_page(generated_trace, folder / "generated.html", layers=[0, 3, 9], prompt=prompt)


@pytest.fixture(scope="session")
def cross_trace() -> Any:
    torch.manual_seed(3)
    return small_cross()


@pytest.fixture(scope="session")
def cross(cross_trace: Any, folder: Path) -> Path:
    """A small encoder-decoder with position bias: three kinds of attention in one page."""
    return headwise.write_page(cross_trace, folder / "cross.html")
