"""The pictures of the dashboard: ``python docs/make_pictures.py`` starts the demo, waits for it to learn, and looks at it."""

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


def keep(page: Any, name: str, height: int) -> None:
    from PIL import Image

    whole = Image.open(io.BytesIO(page.screenshot(clip={"x": 0, "y": 0, "width": 1280, "height": height}, full_page=True)))
    path = IMAGES / name
    whole.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KB")


def main(learn: float = 60.0) -> None:
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
            for scheme, ending in (("light", ""), ("dark", "-dark")):
                page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
                page.goto(url)
                page.locator("#rankers tr").nth(1).wait_for()
                keep(page, f"dashboard{ending}.png", 640)
                page.goto(f"{url}/rankers/demo")
                page.locator("#by-position.js-plotly-plot .main-svg").first.wait_for()
                page.wait_for_timeout(500)
                keep(page, f"ranker{ending}.png", 1500)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(
                f"{url}/playground?problem=movielens&rankers=balanced,recurrank,toprank,cascade-linucb&positions=10&seed=1"
            )
            page.locator("#run").click()
            page.locator("body[data-run=done]").wait_for(timeout=120_000)
            page.wait_for_timeout(800)
            keep(page, "playground.png", 1600)
            browser.close()
    finally:
        served.terminate()
        served.wait(timeout=30)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
