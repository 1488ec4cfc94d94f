"""The service under attack: hostile bodies, silent and slow connections, more requests than it can answer."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most
from benchmarks.serving import load, put, server

ITEMS, DIM = 10_000, 5
RANK = [[["POST", "/v1/rankers/films/rank", "{}"]]]
SECONDS = 5.0
CONNECTIONS, OVERLOAD = 400, 30.0
"""Connections that send four times the capacity, and for how many seconds."""


def bodies() -> list[Figure]:
    """Every body in tests/serving/hostile."""
    from tests.serving.hostile.attack import attack
    from tests.serving.hostile.bodies import bodies as hostile
    from tests.serving.running import serving

    with tempfile.TemporaryDirectory() as folder, serving("--store", f"sqlite:///{folder}/log.db") as (process, url):
        put(int(url.rpartition(":")[2]), "films", rr.synthetic(items=100, dim=DIM, seed=0).features, 10**6)
        outcomes = list(attack(url, process.pid, hostile()))
    refused = sum(400 <= outcome.status < 500 for outcome in outcomes)
    slowest, sick, large = (max(outcomes, key=lambda outcome: getattr(outcome, f)) for f in ("seconds", "healthz", "memory"))
    return [
        at_least(f"hostile bodies of {len(outcomes)} refused with a 4xx", refused, len(outcomes), "", ""),
        at_most("slowest refusal", slowest.seconds, 3, "s", slowest.name),
        at_most("slowest /healthz meanwhile", 1000 * sick.healthz, 200, "ms", sick.name),
        at_most("most memory, server and worker", large.memory / 2**20, 1024, "MB", large.name),
    ]


def crowd() -> list[Figure]:
    """2,000 silent connections and 200 that send a byte of a header every half second."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder, server(folder) as port, contextlib.ExitStack() as held:
        put(port, "films", rr.synthetic(items=ITEMS, dim=DIM, seed=0).features, 10**7)
        load(port, 16, 2.0, RANK)
        before = load(port, 16, SECONDS, RANK)
        over = threading.Event()
        threading.Thread(target=_keep, args=(port, over, held), daemon=True).start()
        over.wait(3.0)
        during = load(port, 16, SECONDS, RANK)
        over.set()
    ratio = during["p99"] / before["p99"]
    detail = f"{1000 * before['p99']:.1f} ms before, {1000 * during['p99']:.1f} ms meanwhile"
    return [at_most("2,000 idle and 200 slow connections: others' p99", ratio, 2, "x", detail)]


def _keep(port: int, over: threading.Event, held: contextlib.ExitStack) -> None:
    """Attackers from another address than the visitors; a connection that is cut off is opened again."""
    sockets: list[socket.socket | None] = [None] * 2_200
    while not over.wait(0.5):
        for number, connection in enumerate(sockets):
            if over.is_set():
                return
            try:
                if connection is None:
                    connection = sockets[number] = held.enter_context(
                        socket.create_connection(("127.0.0.1", port), timeout=5, source_address=("127.0.0.2", 0))
                    )
                    connection.setblocking(False)
                    if number >= 2_000:
                        connection.send(b"POST /v1/feedback HTTP/1.1\r\n")
                elif number >= 2_000:
                    connection.send(b"x")
                elif connection.recv(1) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                pass
            except OSError:
                if connection is not None:
                    connection.close()
                sockets[number] = None


def overload() -> list[Figure]:
    """Four times as many requests as it can answer."""
    with tempfile.TemporaryDirectory() as folder, server(folder) as port:
        put(port, "films", rr.synthetic(items=ITEMS, dim=DIM, seed=0).features, 10**7)
        load(port, 64, 2.0, RANK)
        usual = load(port, 64, SECONDS, RANK)
        found = _storm(port, 4 * usual["a_second"], OVERLOAD)
    statuses = found["statuses"]
    answered, shed = statuses["200"], statuses.get("503", {"number": 0, "p99": 0.0})
    offered = sum(status["number"] for status in statuses.values()) / OVERLOAD
    detail = f"usual {usual['a_second']:,.0f}/s, p99 {1000 * usual['p99']:.1f} ms; offered {offered:,.0f}/s, answered "
    detail += (
        f"{answered['number'] / OVERLOAD:,.0f}/s, p99 {1000 * answered['p99']:.1f} ms; refused p99 {1000 * shed['p99']:.1f} ms"
    )
    assert set(statuses) <= {"200", "503", "429"}, statuses
    return [at_most("4 times the capacity: p99 of those answered", answered["p99"] / usual["p99"], 2, "x", detail)]


def _storm(port: int, rate: float, seconds: float) -> dict[str, Any]:
    arguments = [str(port), "/v1/rankers/films/rank", str(CONNECTIONS), str(rate), str(seconds)]
    command = [sys.executable, "-m", "benchmarks.storm", *arguments]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def run() -> list[Figure]:
    """All of it, in about two minutes."""
    return [*bodies(), *crowd(), *overload()]
