"""The page in a real browser: time to the first paint, from a hover to what it draws, and its size beside bertviz's."""

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measure import Table, machine
from playwright.sync_api import sync_playwright

import headwise

TEXT = "A lion walked out of the woods. The children, who had never seen one, ran back to the house at the river. "
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
OPENED = 5
HOVERS = 40
DRAWN = "performance.getEntriesByName('headwise drawn')[0].startTime"
EVERY = "() => document.querySelectorAll('.head').length === document.querySelectorAll('.head canvas').length"


def ids_of(model: Any, tokens: int) -> torch.Tensor:
    """A text of so many tokens."""
    ids = model.tokenizer.encode(TEXT * (tokens // 20 + 1))
    return torch.tensor([ids[: tokens - 1] + ids[-1:]])


def recorded(model: Any, tokens: int) -> Any:
    """The trace of a text of so many tokens."""
    with torch.no_grad(), headwise.record(model) as recording:
        model(ids_of(model, tokens))
    return recording.trace


def open_page(browser: Any, path: Path) -> tuple[Any, dict[str, float]]:
    """A fresh window, and the milliseconds from the start of the load to the first frame and to all heads' pictures."""
    page = browser.new_context(offline=True, viewport={"width": 1440, "height": 900}).new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    drawn = page.evaluate(DRAWN)
    page.wait_for_function(EVERY, timeout=120_000)
    return page, {"first paint": drawn, "all heads": page.evaluate("performance.now()")}


def hovered(page: Any) -> list[float]:
    """Milliseconds from a pointer event to the frame that shows its lines, one per word."""
    words = page.locator("#sentence .word")
    for at in range(min(words.count(), HOVERS)):
        words.nth(at).hover()
        page.wait_for_timeout(50)
    return page.evaluate("performance.getEntriesByName('headwise hover').map(({ duration }) => duration)")


def browse(model: Any, browser: Any, folder: Path, table: Table) -> None:
    """One row for each length of text; medians over several fresh windows."""
    for tokens in (16, 128, 512):
        path = folder / f"{tokens}.html"
        headwise.write_page(recorded(model, tokens), path)
        opened: list[dict[str, float]] = []
        hovers: list[float] = []
        for turn in range(OPENED):
            page, times = open_page(browser, path)
            opened.append(times)
            if turn == OPENED - 1:
                hovers = hovered(page)
            page.context.close()
        first, heads = (statistics.median(one[name] for one in opened) for name in ("first paint", "all heads"))
        size = path.stat().st_size / 1e6
        table.add(tokens, size, first, heads, statistics.median(hovers), max(hovers))


def beside_bertviz(model: Any, tokens: int, folder: Path, table: Table) -> None:
    """Bytes and seconds from the text to the file, of all heads: ours, and bertviz's two views."""
    import bertviz
    import transformers

    started = time.perf_counter()
    path = headwise.write_page(recorded(model, tokens), folder / "ours.html")
    table.add("headwise: everything", path.stat().st_size / 1e6, 1.0, time.perf_counter() - started)
    ours = path.stat().st_size
    theirs = transformers.AutoModel.from_pretrained(model.source, attn_implementation="eager").eval()
    ids = ids_of(model, tokens)
    pieces = model.tokenizer.tokens(ids[0].tolist())
    for name in ("head_view", "model_view"):
        started = time.perf_counter()
        with torch.no_grad():
            attention = theirs(ids, output_attentions=True).attentions
        size = len(getattr(bertviz, name)(attention, list(pieces), html_action="return").data.encode())
        table.add(f"bertviz: {name}", size / 1e6, size / ours, time.perf_counter() - started)


def main() -> None:
    """Both tables."""
    print(machine())
    model = headwise.load("minilm")
    table = Table("tokens", "MB", "first paint ms", "all heads ms", "hover ms, median", "hover ms, longest")
    sizes = Table("128 tokens of MiniLM, all 72 heads", "MB", "ratio", "seconds")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        browse(model, browser, Path(folder), table)
        browser.close()
        beside_bertviz(model, 128, Path(folder), sizes)
    print(table)
    print()
    print(sizes)


if __name__ == "__main__":
    main()
