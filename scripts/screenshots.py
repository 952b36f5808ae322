"""The pictures in docs/images, taken from real pages in a real browser."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import sync_playwright

import headwise

IMAGES = Path(__file__).parent.parent / "docs" / "images"
KIDS = "The kids were scared of the lions, so they left right away."
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def kids(path: Path) -> Path:
    """A sentence read by MiniLM."""
    model = headwise.load("minilm")
    ids = torch.tensor([model.tokenizer.encode(KIDS)])
    with torch.no_grad(), headwise.record(model) as recording:
        model(ids)
    return headwise.write_page(recording.trace, path)


def generated(path: Path) -> Path:
    """A sentence that SmolLM2 went on with."""
    model = headwise.load("smollm2")
    ids = torch.tensor([model.tokenizer.encode("Action gets results, and the kids who")])
    prompt = ids.shape[1]
    with torch.no_grad(), headwise.record(model) as recording:
        cache = model.new_cache()
        for _ in range(9):
            ids = model(ids, cache=cache)[:, -1:].argmax(-1)
    return headwise.write_page(recording.trace, path, prompt=prompt)


def shoot(browser: Any, page: Path, address: str, name: str, width: int, height: int, scheme: str) -> None:
    """One picture of what stands in the window, when all heads are drawn."""
    context = browser.new_context(
        offline=True, color_scheme=scheme, viewport={"width": width, "height": height}, reduced_motion="reduce"
    )
    tab = context.new_page()
    tab.goto(page.as_uri() + address)
    tab.wait_for_function("() => document.querySelector('.firmest li')", timeout=120_000)
    tab.screenshot(path=IMAGES / f"{name}.png")
    print(f"docs/images/{name}.png")
    context.close()


def main() -> None:
    """Write the pages to a temporary folder and take the pictures."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        sentence = kids(Path(folder) / "kids.html")
        they = "#layer=2&head=9&word=10"
        for scheme in ("light", "dark"):
            shoot(browser, sentence, they, f"page-{scheme}", 1440, 1130, scheme)
            shoot(browser, sentence, they, f"tablet-{scheme}", 768, 1024, scheme)
            shoot(browser, sentence, they, f"phone-{scheme}", 360, 740, scheme)
        shoot(browser, generated(Path(folder) / "generated.html"), "", "generated", 1440, 1130, "light")
        browser.close()


if __name__ == "__main__":
    main()
