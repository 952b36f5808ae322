"""How long the page takes in a real browser: to write, to paint first, to answer a hover, to picture all heads."""

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import sync_playwright

import headwise

TEXT = "A lion walked out of the woods. The children, who had never seen one, ran back to the house at the river. "
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def recorded(model: Any, tokens: int) -> Any:
    """A text of so many tokens, read."""
    ids = model.tokenizer.encode(TEXT * (tokens // 20 + 1))
    ids = ids[: tokens - 1] + ids[-1:]
    with torch.no_grad(), headwise.record(model) as recording:
        model(torch.tensor([ids]))
    return recording.trace


def measure(browser: Any, path: Path) -> dict[str, float]:
    """Milliseconds from the start of the load to the first frame, and from a pointer event to the next frame."""
    context = browser.new_context(offline=True, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    drawn = page.evaluate("performance.getEntriesByName('headwise drawn')[0].startTime")
    every = "() => document.querySelectorAll('.head').length === document.querySelectorAll('.head canvas').length"
    page.wait_for_function(every, timeout=120_000)
    studied = page.evaluate("performance.now()")
    words = page.locator("#sentence .word")
    for at in range(min(words.count(), 60)):
        words.nth(at).hover()
    hovers = page.evaluate("performance.getEntriesByName('headwise hover').map(({ duration }) => duration)")
    started = time.perf_counter()
    page.locator("button.head").nth(41).click()
    page.wait_for_function("() => document.getElementById('said').textContent.includes('Layer 3, head 5')")
    opened = (time.perf_counter() - started) * 1000
    context.close()
    return {
        "first frame": drawn,
        "all heads": studied,
        "hover, median": statistics.median(hovers),
        "hover, longest": max(hovers),
        "another head": opened,
    }


def main() -> None:
    """One line per length of text."""
    model = headwise.load("minilm")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for tokens in (16, 128, 512):
            trace = recorded(model, tokens)
            path = Path(folder) / f"{tokens}.html"
            started = time.perf_counter()
            headwise.write_page(trace, path)
            written = time.perf_counter() - started
            figures = measure(browser, path)
            line = ", ".join(f"{name} {value:.0f} ms" for name, value in figures.items())
            print(f"{tokens} tokens: {path.stat().st_size / 1e6:.1f} MB, written in {written:.1f} s; {line}")
        browser.close()


if __name__ == "__main__":
    main()
