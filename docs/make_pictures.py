"""The pictures of the dashboard: ``python docs/make_pictures.py`` starts the demo, waits for it to learn, and looks at it.

``python docs/make_pictures.py 60 requests`` takes those of requests alone.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parent / "img"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
COLOURS = 256
"""Of a picture: pages have few, and files so are a third of the size."""


def keep(page: Any, name: str, height: int | None = None) -> None:
    """The upper part of a page, or all of it."""
    from PIL import Image

    clip = {"clip": {"x": 0, "y": 0, "width": 1280, "height": height}} if height else {}
    whole = Image.open(io.BytesIO(page.screenshot(**clip, full_page=True)))
    path = IMAGES / name
    whole.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KB")


def shop(page: Any, url: str) -> None:
    """The ranker of the demo's shop: what it believes, and a request of one visitor."""
    page.goto(f"{url}/rankers/demo-shop")
    page.locator("#by-position.js-plotly-plot .main-svg").first.wait_for()
    page.locator("#try-body").fill('{"segment": "in a hurry", "context": [0, 1], "explore": 0}')
    page.locator("#try-form button").click()
    page.locator("#try-items li").nth(4).wait_for()
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(500)
    keep(page, "shop.png", 2350)


def playground_of_requests(page: Any, url: str) -> None:
    page.goto(
        f"{url}/playground?problem=requests&rankers=anchored,lints-pbmrank,naive-thompson&rounds=30000&positions=10&seed=1"
    )
    page.locator("#run").click()
    page.locator("body[data-run=done]").wait_for(timeout=300_000)
    page.wait_for_timeout(800)
    keep(page, "playground-requests.png")


def main(learn: float = 60.0, only: str = "") -> None:
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "recurrank", "serve", "--demo", "--port", "0"]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert served.stdout is not None
    try:
        url = served.stdout.readline().partition("serves at ")[2].split()[0]
        time.sleep(learn)
        path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            shop(page, url)
            playground_of_requests(page, url)
            for scheme, ending in () if only else (("light", ""), ("dark", "-dark")):
                page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
                page.goto(url)
                page.locator("#rankers tr").nth(1).wait_for()
                keep(page, f"dashboard{ending}.png", 680)
                page.goto(f"{url}/rankers/demo")
                page.locator("#by-position.js-plotly-plot .main-svg").first.wait_for()
                page.wait_for_timeout(500)
                keep(page, f"ranker{ending}.png", 1500)
            if not only:
                page = browser.new_page(viewport={"width": 1280, "height": 900})
                page.goto(
                    f"{url}/playground?problem=movielens&rankers=balanced,recurrank,toprank,cascade-linucb&positions=10&seed=1"
                )
                page.locator("#run").click()
                page.locator("body[data-run=done]").wait_for(timeout=120_000)
                page.wait_for_timeout(800)
                keep(page, "playground.png")
            browser.close()
    finally:
        served.terminate()
        served.wait(timeout=30)


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 60.0, *sys.argv[2:])
