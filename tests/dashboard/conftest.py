"""A real browser: Debian's Chromium, or whichever Chrome there is, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.conftest import LEFT_OUT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
AXE = Path(__file__).parents[2] / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]


def chromium() -> str | None:
    """Where the browser is."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="module")  # while it is there an event loop runs, which would be in the way of other modules' tests
def browser(request):
    """With ``back`` as its parameter, pages that were left stay in memory for the Back button, as they do for people."""
    path = chromium()
    if path is None:
        pytest.skip(f"{LEFT_OUT}no Chromium or Chrome; install one (apt-get install chromium), or set CHROMIUM to its path")
    from playwright.sync_api import sync_playwright

    alone = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    left_out = ["--disable-back-forward-cache"] if getattr(request, "param", "") == "back" else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *alone], ignore_default_args=left_out)
        yield running
        running.close()


@pytest.fixture
def said() -> list[str]:
    """What the pages complained about, in the browser's console or by an error."""
    return []


@pytest.fixture
def open_page(browser, said):
    """Opens pages; none of them may complain about anything but what a test has asked for."""
    contexts = []

    def opened(scheme: str = "light", width: int = 1280, **more):
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core."""
    if not AXE.is_file():
        pytest.skip(f"{LEFT_OUT}no axe-core; `make browser` installs it with npm")
    return AXE.read_text(encoding="utf-8")
