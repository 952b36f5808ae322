"""The pictures in docs/images, taken from real pages in a real browser."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent.parent / "docs" / "images"
KIDS = "The kids were scared of the lions, so they left right away."
LION = "The lion saw the kids, and the kids"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def written(path: Path, text: str, *options: str) -> Path:
    """The page that the command writes."""
    command = [sys.executable, "-m", "headwise", "explain", text, *options, "--page", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


class Camera:
    """Takes pictures of one page in windows of its own."""

    def __init__(self, browser: Any, page: Path, address: str = "") -> None:
        self._browser = browser
        self._address = page.as_uri() + address

    def shoot(self, name: str, width: int, height: int, scheme: str = "light", view: str | None = None) -> None:
        """One picture of what stands in the window, or of one view, when all heads are drawn."""
        size = {"width": width, "height": height}
        context = self._browser.new_context(offline=True, color_scheme=scheme, viewport=size, reduced_motion="reduce")
        tab = context.new_page()
        tab.goto(self._address)
        tab.wait_for_function("() => document.querySelector('.firmest li')", timeout=120_000)
        (tab.locator(f"#{view}") if view else tab).screenshot(path=IMAGES / f"{name}.png")
        print(f"docs/images/{name}.png")
        context.close()


def main() -> None:
    """Write the pages to a temporary folder and take the pictures."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        sentence = written(Path(folder) / "kids.html", KIDS, "--word", "they")
        camera = Camera(browser, sentence)
        for scheme in ("light", "dark"):
            camera.shoot(f"page-{scheme}", 1440, 1130, scheme)
            camera.shoot(f"phone-{scheme}", 360, 740, scheme)
        Camera(browser, sentence, "#step=5").shoot("steps", 1440, 1130, view="table")
        camera.shoot("joined", 1440, 1130, view="joined")
        own = written(Path(folder) / "own.html", LION, "--model", "smollm2", "--write", "8")
        Camera(browser, own, "#layer=13&head=8&word=9&picture=word").shoot("written", 1440, 1130)
        browser.close()


if __name__ == "__main__":
    main()
