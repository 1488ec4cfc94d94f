"""Algorithms in the service: Balanced against RecurRank, stopping a busy server, and learning compared with a simulation."""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from typing import Any

import numpy as np

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most
from benchmarks.serving import DIM, ITEMS, POSITIONS, folded, load, put, server
from benchmarks.users import Habits, regret_of, visit

TIMES, SECONDS, REPORTS = 3, 3.0, 300
STOPPED = ("balanced", "recurrank", "toprank", "cascade-klucb", "linucb", "ranked-bandits", "pbm-pie", "grab")
SLATES, SEEDS = 10_000, 4


def beside() -> list[Figure]:
    """The same requests to Balanced and RecurRank on one server, in turn."""
    rates: dict[str, list[float]] = {}
    slow: dict[str, list[float]] = {}
    behind: dict[str, list[float]] = {"balanced": [], "recurrank": []}
    with tempfile.TemporaryDirectory() as folder, server(folder) as port:
        for name in behind:
            put(port, name, rr.synthetic(items=ITEMS, dim=DIM, seed=0).features, 10**7, f"&algorithm={name}")
            load(port, 16, 1.0, [[["POST", f"/v1/rankers/{name}/rank", "{}"]]])
        for turn in range(TIMES):
            for name in behind:
                path = f"/v1/rankers/{name}/rank"
                names = [[f"{name}-{turn}-{c}-{i}" for i in range(REPORTS)] for c in range(32)]
                results = {"rank": load(port, 16, SECONDS, [[["POST", path, "{}"]]])}
                load(port, 32, 0, [[["POST", path, json.dumps({"slate": slate})] for slate in line] for line in names])
                sent = [[["POST", "/v1/feedback", json.dumps([{"slate": s, "clicks": [1]}])] for s in line] for line in names]
                results["feedback"] = load(port, 32, 0, sent)
                began = time.perf_counter()
                folded(port)
                behind[name].append(time.perf_counter() - began)
                for what, measured in results.items():
                    rates.setdefault(f"{name} {what}", []).append(measured["a_second"])
                    slow.setdefault(f"{name} {what}", []).append(measured["p99"])
    figures = []
    for what in ("rank", "feedback"):
        ours, theirs = (statistics.median(rates[f"{name} {what}"]) for name in behind)
        late, usual = (statistics.median(slow[f"{name} {what}"]) for name in behind)
        detail = f"{ours:,.0f} and {theirs:,.0f} per second, L = 10^5, d = 10"
        figures.append(at_least(f"/{what} with balanced over recurrank", 100 * ours / theirs, 80, "%", detail))
        detail = f"{1000 * late:.1f} and {1000 * usual:.1f} ms"
        figures.append(at_most(f"/{what}, 99 % within, balanced over recurrank", late / usual, 1.5, "x", detail))
    detail = f"at the longest; recurrank {max(behind['recurrank']):.2f} s"
    return [*figures, at_most("balanced: from the last request to a lag of 0", max(behind["balanced"]), 2, "s", detail)]


def stopping() -> list[Figure]:
    """From SIGTERM to the end of the process, while 32 connections rank and report."""
    return [_stopped(name) for name in STOPPED]


def _stopped(name: str) -> Figure:
    features = rr.synthetic(items=ITEMS, dim=DIM, seed=0).features
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "recurrank", "serve", "--port", "0", "--store", f"sqlite:///{folder}/log.db"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "http://127.0.0.1:" in line)
            port = int(line.partition("http://127.0.0.1:")[2].split()[0].rstrip("/"))
            put(port, "films", features, 10**7, f"&algorithm={name}")
            path = "/v1/rankers/films/rank"
            load(port, 16, 1.0, [[["POST", path, "{}"]]])
            both = [[request for i in range(2000) for request in _round(path, f"{c}-{i}")] for c in range(32)]
            users = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.load", str(port), "32", "60"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            assert users.stdin is not None
            users.stdin.write("\n".join(json.dumps(requests) for requests in both))
            users.stdin.close()
            time.sleep(6)
            lag = _lag(port)
            began = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            status = process.wait(timeout=120)
            seconds = time.perf_counter() - began
            users.wait(timeout=60)
    return at_most(f"SIGTERM to the end, {name}", seconds, 10, "s", f"status {status}; {lag:,} events behind when it was sent")


def _round(path: str, slate: str) -> list[list[str]]:
    return [
        ["POST", path, json.dumps({"slate": slate})],
        ["POST", "/v1/feedback", json.dumps([{"slate": slate, "clicks": [0]}])],
    ]


def _lag(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            return int(json.load(answer)["lag"])
    except urllib.error.HTTPError as error:
        return int(json.load(error).get("lag", -1))


def gap() -> list[Figure]:
    """Expected clicks per slate with the service at full speed, and in a simulation with the same problems and seeds."""
    return [_gap(name) for name in ("linucb", "cascade-linucb", "balanced")]


def _gap(name: str) -> Figure:
    clicks = np.array([_clicks(name, seed) for seed in range(SEEDS)])
    share = clicks[:, 0] / clicks[:, 1]
    error = share.std(ddof=1) / np.sqrt(SEEDS)
    service, library, rate = clicks.mean(axis=0)
    detail = (
        f"{service:.3f} and {library:.3f}; {rate:,.0f} slates per second; {SEEDS} runs of {SLATES:,}, s.e. {100 * error:.1f}"
    )
    return at_least(f"clicks per slate in the service over the library's, {name}", 100 * share.mean(), 95, "%", detail)


def _clicks(name: str, seed: int) -> tuple[float, float, float]:
    problem = rr.synthetic(items=1000, dim=10, seed=seed)
    model: Any = rr.clicks.make("position-based", problem.attraction, POSITIONS)
    best = float(model.expected(model.best(POSITIONS)).sum())
    ranker = rr.rankers.make(name, features=problem.features, positions=POSITIONS, rounds=SLATES, seed=seed)
    library = best - float(rr.simulate(ranker, model, SLATES, seed=seed).regret[-1]) / SLATES
    with tempfile.TemporaryDirectory() as folder, server(folder) as port:
        put(port, "films", problem.features, SLATES, f"&algorithm={name}")
        began = time.perf_counter()
        outcome = asyncio.run(visit(port, "films", model, SLATES, Habits(), seed))
        rate = SLATES / (time.perf_counter() - began)
    return best - regret_of(model, outcome)[1] / SLATES, library, rate


def run() -> list[Figure]:
    return [*beside(), *stopping(), *gap()]
