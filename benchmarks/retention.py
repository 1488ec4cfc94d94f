"""Does a service stay as it is while old events leave its log: size of the store, memory, p99 of ``/rank``; and beside backups.

``python -m benchmarks.retention SLATES RETAIN`` runs another size, such as 10000000 2000000 (a slate has two events).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most
from benchmarks.serving import load, put, server
from recurrank.serving.audit import replay
from recurrank.serving.restore import restore
from recurrank.serving.store import open_store
from recurrank.serving.verify import verify

SLATES, RETAIN = 100_000, 20_000
CONNECTIONS, TENTHS = 16, 10
WINDOW = 5
"""Seconds: a slate's id is kept as long as its window lasts."""


class Tenth(NamedTuple):
    """A part of the run: p99 of ``/rank`` in seconds, MB of the store and of the server's memory."""

    p99: float
    store: float
    memory: float


def _server_id(folder: str) -> int:
    """The process that serves the store in ``folder``."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if f"sqlite:///{folder}/log.db".encode() in path.read_bytes() and b"serve" in path.read_bytes():
            return int(path.parent.name)
    raise RuntimeError("there is no server")


def _memory(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _megabytes(folder: str) -> float:
    return sum(path.stat().st_size for path in Path(folder).glob("log.db*")) / 1e6


def _part(port: int, folder: str, process: int, tenth: int, slates: int) -> Tenth:
    each = slates // TENTHS // CONNECTIONS
    names = [[f"{tenth}-{connection}-{i}" for i in range(each)] for connection in range(CONNECTIONS)]
    ranks = [[["POST", "/v1/rankers/films/rank", json.dumps({"slate": name})] for name in line] for line in names]
    found = load(port, CONNECTIONS, 0, ranks)
    reports = [[["POST", "/v1/feedback", json.dumps([{"slate": name, "clicks": [1]}])] for name in line] for line in names]
    load(port, CONNECTIONS, 0, reports)
    return Tenth(found["p99"], _megabytes(folder), _memory(process))


def bounded(slates: int = SLATES, retain: int = RETAIN) -> list[Figure]:
    """Store, memory and p99 over a run; the state, folded from the archive and the log, against the snapshots' bytes."""
    with tempfile.TemporaryDirectory() as folder:
        with server(folder, "--retain", str(retain), "--archive", f"{folder}/archive") as port:
            put(port, "films", rr.synthetic(items=1_000, dim=5, seed=0).features, 10**7, f"&window_seconds={WINDOW}")
            process = _server_id(folder)
            load(port, CONNECTIONS, 1.0, [[["POST", "/v1/rankers/films/rank", "{}"]]])
            parts = []
            for tenth in range(TENTHS):
                parts.append(_part(port, folder, process, tenth, slates))
                print(f"{tenth + 1} of {TENTHS}: {parts[-1]}", file=sys.stderr)
            time.sleep(WINDOW + 10)  # what is old goes
        store = open_store(f"sqlite:///{folder}/log.db")
        left, events, floor = len(store.lines(0, 2**62, 2**62)), store.newest(), store.floor().seq
        faults = verify(store).faults + [fault for one in store.rankers() for fault in replay(store, one).faults]
        store.close()
    first, last, half = parts[0], parts[-1], parts[TENTHS // 2]
    kept = f"{events:,} events, {floor:,} archived, {left:,} in the log"
    return [
        at_most("p99 of /rank, last tenth over first", last.p99 / first.p99, 1.1, "times", f"{1000 * first.p99:.1f} ms first"),
        at_most("size of the store, last tenth over the middle", last.store / half.store, 1.1, "times", f"{last.store:.0f} MB"),
        at_most("memory of the server, last tenth over the middle", last.memory / half.memory, 1.1, "times", kept),
        at_most("faults of log, archive, snapshots and replay", len(faults), 0, "", "; ".join(faults[:1])),
    ]


def backups(seconds: float = 10.0) -> list[Figure]:
    """Throughput of ``/rank`` while the store is copied again and again, over that without."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        address, copies = f"sqlite:///{folder}/log.db", 0
        with server(folder) as port:
            put(port, "films", rr.synthetic(items=1_000, dim=5, seed=0).features, 10**7)
            rank: list[Any] = [[["POST", "/v1/rankers/films/rank", "{}"]]]
            load(port, CONNECTIONS, 2.0, rank)
            for _ in range(2):
                rates[False].append(load(port, CONNECTIONS, seconds, rank)["a_second"])
                stop = threading.Event()

                def copy(stop: threading.Event = stop) -> None:
                    nonlocal copies
                    while not stop.is_set():
                        target = Path(folder, f"copy{copies}.db")
                        command = [sys.executable, "-m", "recurrank", "backup", str(target), "--store", address]
                        subprocess.run(command, check=True, capture_output=True)
                        copies += 1

                copying = threading.Thread(target=copy)
                copying.start()
                rates[True].append(load(port, CONNECTIONS, seconds, rank)["a_second"])  # every answer is a 200
                stop.set()
                copying.join()
        restore(Path(folder, f"copy{copies - 1}.db"), f"sqlite:///{folder}/again.db")
        store = open_store(f"sqlite:///{folder}/again.db")
        faults = verify(store).faults + [fault for one in store.rankers() for fault in replay(store, one).faults]
        store.close()
    share = 100 * sum(rates[True]) / sum(rates[False])
    detail = f"{sum(rates[False]) / 2:,.0f}/s without, {copies} copies; faults of the last one, restored: {len(faults)}"
    return [at_least("throughput of /rank beside backups", share, 80, "%", detail)]


def run() -> list[Figure]:
    return [*bounded(), *backups()]


if __name__ == "__main__":
    for figure in bounded(*(int(one) for one in sys.argv[1:3])):
        print(figure)
