"""The service under load: ranking and durable feedback against an empty route of the same server, in the same run."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import Any

import numpy as np

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most
from benchmarks.users import Habits, regret_of, visit
from recurrank.catalogue import Catalogue
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report, Serve

ITEMS, DIM, POSITIONS = 100_000, 10, 10
SECONDS, TIMES = 4.0, 3
TOGETHER = 20_000
"""Slates written per transaction when a log is made."""
Requests = list[list[str]]


@contextmanager
def server(folder: str, *options: str) -> Iterator[int]:
    """The port of a real server with a store in ``folder``."""
    command = [sys.executable, "-m", "recurrank", "serve", "--port", "0", "--store", f"sqlite:///{folder}/log.db", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "http://127.0.0.1:" in line:
                break
        else:
            raise RuntimeError("".join(lines))
        yield int(lines[-1].partition("http://127.0.0.1:")[2].split()[0].rstrip("/"))
    finally:
        process.terminate()
        process.communicate(timeout=60)


def load(port: int, connections: int, seconds: float, requests: list[Requests]) -> dict[str, Any]:
    """The results of the load generator, a separate process."""
    given = "\n".join(json.dumps(connection) for connection in requests)
    command = [sys.executable, "-m", "benchmarks.load", str(port), str(connections), str(seconds)]
    found = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    measured: dict[str, Any] = json.loads(found.stdout)
    assert set(measured["statuses"]) == {"200"}, measured
    return measured


def put(port: int, name: str, features: np.ndarray[Any, Any], rounds: int, more: str = "") -> None:
    """Make a ranker of these items."""
    body = BytesIO()
    np.save(body, features.astype(np.float32))
    url = f"http://127.0.0.1:{port}/v1/rankers/{name}?positions={POSITIONS}&rounds={rounds}{more}"
    request = urllib.request.Request(url, body.getvalue(), {"content-type": "application/x-npy"}, method="PUT")
    with urllib.request.urlopen(request, timeout=300) as answer:
        assert answer.status == 200


def throughput() -> list[Figure]:
    rates: dict[str, list[float]] = {"empty16": [], "nothing": [], "rank": [], "empty32": [], "feedback": []}
    slow: dict[str, list[float]] = {"rank": [], "feedback": []}
    with tempfile.TemporaryDirectory() as folder, server(folder) as port:
        put(port, "films", rr.synthetic(items=ITEMS, dim=DIM, seed=0).features, 10**7)
        empty: list[Requests] = [[["GET", "/healthz", ""]]]
        load(port, 16, 1.0, [[["POST", "/v1/rankers/films/rank", "{}"]]])
        for turn in range(TIMES):
            rates["empty16"].append(load(port, 16, SECONDS, empty)["a_second"])
            rates["nothing"].append(load(port, 16, SECONDS, [[["POST", "/v1/feedback", "[]"]]])["a_second"])
            found = load(port, 16, SECONDS, [[["POST", "/v1/rankers/films/rank", "{}"]]])
            rates["rank"].append(found["a_second"])
            slow["rank"].append(found["p99"])
            names = [[f"{turn}-{c}-{i}" for i in range(400)] for c in range(32)]
            load(port, 32, 0, [[["POST", "/v1/rankers/films/rank", json.dumps({"slate": s})] for s in line] for line in names])
            rates["empty32"].append(load(port, 32, SECONDS, empty)["a_second"])
            reports = [[["POST", "/v1/feedback", json.dumps([{"slate": s, "clicks": [1]}])] for s in line] for line in names]
            found = load(port, 32, 0, reports)
            rates["feedback"].append(found["a_second"])
            slow["feedback"].append(found["p99"])
    figures = []
    for what, beside, share, limit in (("rank", "empty16", 60, 20), ("feedback", "empty32", 50, 25)):
        ratio = statistics.median(rates[what]) / statistics.median(rates[beside])
        detail = f"{statistics.median(rates[what]):,.0f}/s, empty {statistics.median(rates[beside]):,.0f}/s"
        if what == "rank":  # the same path through the server, without writing
            detail += f", feedback of nothing {statistics.median(rates['nothing']):,.0f}/s"
        figures.append(at_least(f"/{what}, L = 10^5, K = 10, over an empty route", 100 * ratio, share, "%", detail))
        figures.append(at_most(f"/{what}, 99 % of answers within", 1000 * statistics.median(slow[what]), limit, "ms", ""))
    return figures


def write_log(folder: str, events: int) -> None:
    """Write a ranker's log with this many events, half slates and half answers, and no snapshot."""
    problem = rr.synthetic(items=ITEMS, dim=DIM, seed=0)
    store = open_store(f"sqlite:///{folder}/log.db")
    service = Service(store, seed=0, start=False, settings=Settings(snapshot_events=10**9, snapshot_seconds=1e9))
    config = RankerSpec(algorithm="recurrank", positions=POSITIONS, rounds=10**7, window_seconds=1e6)
    service.create("films", config, Catalogue(problem.features))
    hosted, rng = service.hosted("films"), np.random.default_rng(0)
    for group in range(events // 2000):
        slates = [f"{group:06}-{number}" for number in range(1000)]
        store.commit([Serve(slate, hosted.stored.number, hosted.draw()[0]) for slate in slates])
        clicks = (rng.random((1000, POSITIONS)) < 0.2).tolist()
        store.commit([Report(s, tuple(k for k, c in enumerate(row) if c), True) for s, row in zip(slates, clicks, strict=True)])
        if group % 50 == 49:
            service.step()
    store.close()  # closing the service would take a snapshot


def folded(port: int, lag: int = 0) -> None:
    """Wait until all rankers are restored and at most ``lag`` events have to be folded."""
    while True:
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            found = json.load(answer)
            if found["learning"] and found["lag"] <= lag:
                return
        time.sleep(0.05)


def write_rankers(folder: str, rankers: int, events: int, opened: int) -> None:
    """Write many rankers, ten of them busy, with snapshots; a part of the slates is open."""
    service = Service(open_store(f"sqlite:///{folder}/log.db"), seed=0, start=False)
    rng, slates = np.random.default_rng(0), (events + opened) // 2
    spec = RankerSpec(algorithm="recurrank", positions=POSITIONS, rounds=10**7, window_seconds=1e6)
    for number in range(rankers):
        service.create(f"r{number}", spec, Catalogue(rng.standard_normal((100, 5))))
    busy = [service.hosted(f"r{number}") for number in range(10)]
    for start in range(0, slates, TOGETHER):
        drawn = [busy[number % 10].draw()[0] for number in range(TOGETHER)]
        names = [f"{start:07}-{number}" for number in range(TOGETHER)]
        service.store.commit([Serve(s, busy[i % 10].stored.number, drawn[i]) for i, s in enumerate(names)])
        service.store.commit([Report(s, (0,), True) for s in names[: TOGETHER - TOGETHER * opened // slates]])
    service.step()
    service.learner.keep_all(float("inf"))
    service.close()


def many() -> list[Figure]:
    """From the start of the process until it listens, and until every tenth of a thousand rankers has answered."""
    with tempfile.TemporaryDirectory() as folder:
        write_rankers(folder, 1_000, 1_000_000, 100_000)
        began = time.perf_counter()
        with server(folder) as port:
            listening = time.perf_counter() - began
            folded(port)
            for number in range(0, 1_000, 10):
                url = f"http://127.0.0.1:{port}/v1/rankers/r{number}/rank"
                with urllib.request.urlopen(urllib.request.Request(url, b"{}"), timeout=60) as answer:
                    assert answer.status == 200
            ranking = time.perf_counter() - began
    what = "start with 1,000 rankers, 10^6 events, 10^5 open slates"
    return [at_most(f"{what}: listening", listening, 3, "s", ""), at_most(f"{what}: ranking", ranking, 10, "s", "")]


def restart() -> list[Figure]:
    """From the start of the process to an answer of /readyz, a million events after the last snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        write_log(folder, 1_000_000)
        began = time.perf_counter()
        with server(folder) as port:
            folded(port)
            seconds = time.perf_counter() - began
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/rankers/films", timeout=60) as answer:
                status = json.load(answer)
            assert status["learned"] == 500_000, status
    return [at_most("restart with 10^6 events since the last snapshot", seconds, 10, "s", f"{status['version']:,} events")]


def learning() -> list[Figure]:
    """10^5 slates: a fifth is never reported, the others up to 2,000 slates late, a tenth twice."""
    slates, items = 100_000, 1_000
    problem = rr.synthetic(items=items, dim=5, seed=0)
    model = rr.clicks.PositionBased(problem.attraction, examination=1 / np.arange(1, POSITIONS + 1))
    immediate = statistics.mean(
        float(rr.simulate(rr.RecurRank(problem.features, POSITIONS, slates, seed), model, rounds=slates, seed=seed).regret[-1])
        for seed in range(5)
    )
    with tempfile.TemporaryDirectory() as folder, server(folder) as port:
        put(port, "films", problem.features, slates, "&window_seconds=5")
        outcome = asyncio.run(visit(port, "films", model, slates, Habits(lost=0.2, repeated=0.1, delay=2_000), seed=0))
    kept, everything = regret_of(model, outcome)
    detail = f"regret {kept:,.0f} ({everything:,.0f} with the lost slates); at once and without loss {immediate:,.0f}"
    return [at_most("learning over HTTP, late and lossy, over a simulation", kept / immediate, 1.5, "x", detail)]


def kills(rounds: int = 100) -> list[Figure]:
    """Repeated kill -9 under load, with the checks of ``tests/serving/test_crash.py``."""
    from tests.serving.test_crash import SERVERS, checked, crashed

    acknowledged: list[list[str]] = []
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([sys.executable, "-c", SERVERS], text=True, **pipes) as servers,
    ):
        for number in range(rounds):
            acknowledged += crashed(servers, f"sqlite:///{folder}/log.db", number)
            if number % 5 == 4:
                checked(f"sqlite:///{folder}/log.db", acknowledged)
    detail = f"{len(acknowledged):,} acknowledged requests, each found exactly once"
    return [at_least("kill -9 in the middle of load", rounds, rounds, "times", detail)]


def run() -> list[Figure]:
    return [*throughput(), *restart(), *many(), *learning(), *kills()]
