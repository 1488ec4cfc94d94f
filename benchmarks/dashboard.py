"""The dashboard: the time until pages and news appear, the cost of open pages, and the playground's speed."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most
from benchmarks.serving import ITEMS, load, put, server, write_log

PAGES, SECONDS, TIMES = 50, 4.0, 3
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def ask(port: int, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        body = answer.read()
        return json.loads(body) if body and "json" in answer.headers["content-type"] else body


def first_page() -> list[Figure]:
    """From the start of the command to a page with a ranker's numbers; at the second start, so that all is compiled."""
    times = []
    for _ in range(2):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder, server(folder, "--demo") as port:
            linked = time.perf_counter() - began
            assert b"<h1>demo</h1>" in ask(port, "/rankers/demo")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/dash/rankers/demo/live", timeout=60) as stream:
                assert stream.readline() == b"event: ranker\n"
                assert json.loads(stream.readline()[6:])["name"] == "demo"
            times.append(time.perf_counter() - began)
    detail = f"its link after {linked:.1f} s; {times[0]:.1f} s the time before"
    return [at_most("first page of `recurrank serve --demo`", times[-1], 5, "s", detail)]


@contextmanager
def browsing() -> Iterator[Any]:
    """A real browser."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def resident(folder: str) -> float:
    """Memory in MB of the server whose store is in this folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if f"sqlite:///{folder}/log.db" in path.read_bytes().decode(errors="replace"):
            return int((path.parent / "status").read_text().partition("VmRSS:")[2].split()[0]) / 1024
    return float("nan")


def large_page() -> list[Figure]:
    """10^5 items and 10^6 events: the time until a page shows flow chart, ranking, charts, items and events, in Chromium."""
    with tempfile.TemporaryDirectory() as folder:
        write_log(folder, 1_000_000)
        with server(folder) as port, browsing() as browser:
            browser.new_context().new_page().goto(f"http://127.0.0.1:{port}/new")  # starts the browser itself
            before, times, plotted = resident(folder), [], []
            for _ in range(5):
                page = browser.new_context().new_page()
                began = time.perf_counter()
                page.goto(f"http://127.0.0.1:{port}/rankers/films", wait_until="commit")
                page.locator("body[data-complete]").wait_for()
                page.locator("#items tr").nth(24).wait_for()
                times.append(time.perf_counter() - began)
                page.locator("#by-position.js-plotly-plot .main-svg").first.wait_for()
                plotted.append(time.perf_counter() - began)
                found = page.locator("#fact-learned").inner_text(), page.locator("#events tr").count()
                assert found == ("500,000", 20), found
                page.context.close()
            size = 0
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/dash/rankers/films/log", timeout=600) as log:
                while part := log.read(1 << 20):
                    size += len(part)
            grown = resident(folder) - before
    detail = f"5 times, the longest {max(times):.2f} s; {statistics.median(plotted):.2f} s until plotly has drawn the charts"
    return [
        at_most(f"a ranker's page, L = {ITEMS:,}, 10^6 events", statistics.median(times), 1, "s", detail),
        at_most("memory for 5 pages and the log as a file", grown, 100, "MB", f"the file has {size / 1e6:,.0f} MB"),
    ]


@contextmanager
def viewers(port: int, ranker: str, count: int, heard: list[Any]) -> Iterator[None]:
    """Keep this many pages open; ``heard`` gets the events that they received."""
    command = [sys.executable, "-m", "benchmarks.viewers", str(port), ranker, str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield
    heard += json.loads(process.communicate(timeout=60)[0])


def news() -> list[Figure]:
    """From the answer to feedback until the last of 50 pages shows it."""
    heard: list[Any] = []
    acknowledged = {}
    with tempfile.TemporaryDirectory() as folder, server(folder) as port:
        put(port, "films", rr.synthetic(items=ITEMS, dim=10, seed=0).features, 10**7)
        with viewers(port, "films", PAGES, heard):
            for number in range(1, 9):
                slate = ask(port, "/v1/rankers/films/rank", {})["slate"]
                assert ask(port, "/v1/feedback", [{"slate": slate, "clicks": [0]}])[0]["status"] == "learned"
                acknowledged[number] = time.monotonic()
                time.sleep(0.7 + 0.1 * number)
            time.sleep(2)
    late = [
        max(min(at for viewer, learned, at in heard if viewer == page and learned >= number) - sent for page in range(PAGES))
        for number, sent in acknowledged.items()
    ]
    detail = f"of {len(late)} reports; {statistics.median(late):.2f} s in the middle"
    return [at_most("from acknowledged feedback to the last of 50 pages", max(late), 2, "s", detail)]


def cost() -> list[Figure]:
    """/rank with 50 open pages and without, in turns."""
    rates: dict[str, list[float]] = {"without": [], "with": []}
    rank = [[["POST", "/v1/rankers/films/rank", "{}"]]]
    heard: list[Any] = []
    with tempfile.TemporaryDirectory() as folder, server(folder) as port:
        put(port, "films", rr.synthetic(items=ITEMS, dim=10, seed=0).features, 10**7)
        load(port, 16, 1.0, rank)
        for _ in range(TIMES):
            rates["without"].append(load(port, 16, SECONDS, rank)["a_second"])
            with viewers(port, "films", PAGES, heard):
                rates["with"].append(load(port, 16, SECONDS, rank)["a_second"])
    share = 100 * statistics.median(rates["with"]) / statistics.median(rates["without"])
    detail = ", ".join(f"{what} {statistics.median(rate):,.0f}/s" for what, rate in rates.items())
    return [at_least("/rank with 50 open pages, over without", share, 80, "%", f"{detail}; {len(heard):,} events sent")]


def playground() -> list[Figure]:
    """Three rankers, L = 10^4, 10^6 rounds, two seconds after the page is opened."""
    figures = []
    with tempfile.TemporaryDirectory() as folder, server(folder) as port:
        for rankers in ("recurrank,balanced,toprank", "recurrank,cascade-linucb,toprank"):
            for _ in range(2):  # the first time may compile
                ask(port, "/dash/playground/warm", {})
                time.sleep(2)
                began, first = time.perf_counter(), 0.0
                body = json.dumps({"rankers": rankers}).encode()
                run = urllib.request.Request(f"http://127.0.0.1:{port}/dash/playground/run", body, method="POST")
                with urllib.request.urlopen(run, timeout=300) as stream:
                    for line in stream:
                        if line == b"event: points\n":
                            first = first or time.perf_counter() - began
                        elif line == b"event: done\n":
                            done = time.perf_counter() - began
            figures.append(at_most("playground: first points", first, 2, "s", rankers))
            figures.append(at_most("playground: three curves of 10^6 rounds", done, 10, "s", rankers))
    return figures


def run() -> list[Figure]:
    return [*first_page(), *large_page(), *news(), *cost(), *playground()]
