"""The page in a real browser: time to the first paint, from a hover to what it draws, and its size beside bertviz's.

Besides the time on the clock stands what the page's main thread computed, which other work on the machine
does not change.
`--tokens 16,512` measures these lengths only; `--sizes` measures the sizes only.
"""

import argparse
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
OPENED = 3
HOVERS = 40
COLUMNS = ("tokens", "MB", "first paint ms", "computed ms", "all heads ms", "hover ms", "longest", "computed for it ms")
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


class Window:
    """A fresh window with one page, and the clock of its main thread."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.page = browser.new_context(offline=True, viewport={"width": 1440, "height": 900}).new_page()
        self._session = self.page.context.new_cdp_session(self.page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]")
        self.computed = self._milliseconds()
        self.drawn: float = self.page.evaluate(DRAWN)
        self.page.wait_for_function(EVERY, timeout=180_000)
        self.studied: float = self.page.evaluate("performance.now()")

    def _milliseconds(self) -> float:
        """What the main thread computed so far."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "TaskDuration") * 1000

    def hovers(self) -> tuple[list[float], float]:
        """Milliseconds from each pointer event to the frame that shows its lines; what was computed for one of them."""
        words = self.page.locator("#sentence .word")
        count = min(words.count(), HOVERS)
        before = self._milliseconds()
        for at in range(count):
            words.nth(at).hover()
            self.page.wait_for_timeout(50)
        computed = (self._milliseconds() - before) / count
        found = "performance.getEntriesByName('headwise hover').map(({ duration }) => duration)"
        return self.page.evaluate(found), computed


def browse(model: Any, browser: Any, path: Path, tokens: int, table: Table) -> None:
    """One row for a length of text; medians over several fresh windows."""
    headwise.write_page(recorded(model, tokens), path, model=model)
    windows: list[Window] = []
    hovers, computed = list[float](), 0.0
    for turn in range(OPENED):
        windows.append(Window(browser, path))
        if turn == OPENED - 1:
            hovers, computed = windows[-1].hovers()
        windows[-1].page.context.close()
    first, thread, heads = (
        statistics.median(getattr(one, name) for one in windows) for name in ("drawn", "computed", "studied")
    )
    size = path.stat().st_size / 1e6
    table.add(tokens, size, first, thread, heads, statistics.median(hovers), max(hovers), computed)


def beside_bertviz(model: Any, tokens: int, folder: Path, table: Table) -> None:
    """Bytes and seconds from the text to the file, of all heads: ours, and bertviz's two views."""
    import bertviz
    import transformers

    started = time.perf_counter()
    path = headwise.write_page(recorded(model, tokens), folder / "ours.html", model=model)
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", default="16,128,512")
    parser.add_argument("--sizes", action="store_true")
    wanted = parser.parse_args()
    print(machine())
    model = headwise.load("minilm")
    table = Table(*COLUMNS)
    sizes = Table("128 tokens of MiniLM, all 72 heads", "MB", "ratio", "seconds")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for tokens in [] if wanted.sizes else map(int, wanted.tokens.split(",")):
            browse(model, browser, Path(folder) / "page.html", tokens, table)
        browser.close()
        if wanted.sizes or wanted.tokens == parser.get_default("tokens"):
            beside_bertviz(model, 128, Path(folder), sizes)
    print(table)
    print()
    print(sizes)


if __name__ == "__main__":
    main()
