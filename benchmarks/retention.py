"""A service whose old events leave its log: size of the store, memory, p99 of ``/rank``; and throughput during backups.

``python -m benchmarks.retention --slates 10000000 --retain 1000000`` runs another size and prints intermediate results. A
slate has two events. At the end all events, from the first one in the archive on, are folded into a new ranker, as without
retention, and compared with the snapshots of the server, byte by byte.
"""

from __future__ import annotations

import argparse
import gc
import glob
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most
from benchmarks.serving import load, put, server
from recurrank.catalogue import Catalogue
from recurrank.serving.audit import replay
from recurrank.serving.restore import restore
from recurrank.serving.retention import Policy, Retention
from recurrank.serving.retention_worker import answer
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report, Serve
from recurrank.serving.verify import verify

SLATES, RETAIN = 100_000, 20_000
CONNECTIONS, TENTHS = 16, 10
WINDOW = 5
"""Window of a slate in seconds; its id is kept as long."""
LOOK = 0.5
"""Seconds between two measurements of sizes."""


class Sizes(NamedTuple):
    """MB of the store, its WAL and the archive, of the memory of server and worker; number of events not archived."""

    file: float
    wal: float
    archive: float
    memory: float
    worker: float
    events: float


class Tenth(NamedTuple):
    """A part of the run: p50 and p99 of ``/rank`` in seconds, slates per second, refused requests, and the largest sizes."""

    p50: float
    p99: float
    a_second: float
    refused: int
    sizes: Sizes


def _server_id(folder: str) -> int:
    """The process that serves the store in ``folder``."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if f"sqlite:///{folder}/log.db".encode() in path.read_bytes() and b"serve" in path.read_bytes():
            return int(path.parent.name)
    raise RuntimeError("there is no server")


def _workers(process: int) -> list[int]:
    """The server's own processes that verify and archive."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                if b"retention_worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


def _memory(process: int) -> float:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
    return 0.0


def _seconds(process: int) -> float:
    """Seconds of processor time, including those of its child processes that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _megabytes(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_size / 1e6
    return 0.0


class Watch:
    """Measures sizes in a thread; :meth:`largest` gives those since its last call."""

    def __init__(self, folder: str, process: int) -> None:
        self._folder, self._process = Path(folder), process
        self._store = open_store(f"sqlite:///{folder}/log.db", read_only=True)
        self._seen: list[Sizes] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _look(self) -> Sizes:
        parts = glob.glob("archive/**/*.parquet", root_dir=self._folder, recursive=True)  # some folders come and go
        archive = sum(_megabytes(self._folder / part) for part in parts)
        worker = sum(map(_memory, _workers(self._process)))
        events = self._store.head().seq - self._store.floor().seq
        file, wal = self._folder / "log.db", self._folder / "log.db-wal"
        return Sizes(_megabytes(file), _megabytes(wal), archive, _memory(self._process), worker, events)

    def _run(self) -> None:
        while not self._over.wait(LOOK):
            self._seen.append(self._look())

    def largest(self) -> Sizes:
        seen, self._seen = self._seen or [self._look()], []
        return Sizes(*(max(column) for column in zip(*seen, strict=True)))

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._store.close()


def _stream(port: int, watch: Watch, slates: int) -> list[Tenth]:
    """The slates, a tenth at a time."""
    command = [sys.executable, "-m", "benchmarks.stream", *map(str, (port, CONNECTIONS, slates, TENTHS))]
    parts: list[Tenth] = []
    print(
        "tenth  p50 ms  p99 ms  slates/s | at most: store, WAL, archive, server, worker MB; events not archived",
        file=sys.stderr,
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as visitors:
        assert visitors.stdout is not None
        for line in visitors.stdout:
            found, sizes = json.loads(line), watch.largest()
            parts.append(Tenth(found["p50"], found["p99"], found["a_second"], found["refused"], sizes))
            row = f"{len(parts):5} {1000 * found['p50']:7.2f} {1000 * found['p99']:7.2f} {found['a_second']:9,.0f} |"
            print(row, *(f"{size:9,.1f}" for size in sizes[:-1]), f"{sizes.events:12,.0f}", file=sys.stderr, flush=True)
    assert (visitors.returncode, len(parts)) == (0, TENTHS)
    return parts


def bounded(slates: int = SLATES, retain: int = RETAIN) -> list[Figure]:
    """Store, memory and p99 over a run; the state, folded from the archive and the log, against the snapshots' bytes."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        with server(folder, "--retain", str(retain), "--archive", f"{folder}/archive") as port:
            put(port, "films", rr.synthetic(items=1_000, dim=5, seed=0).features, 10**7, f"&window_seconds={WINDOW}")
            process = _server_id(folder)
            load(port, CONNECTIONS, 2.0, [[["POST", "/v1/rankers/films/rank", "{}"]]])
            watch = Watch(folder, process)
            try:
                parts = _stream(port, watch, slates)
            finally:
                watch.close()
            served = time.perf_counter() - began
            time.sleep(WINDOW + 10)  # old events leave the log
            took = _seconds(process)
        began = time.perf_counter()
        address = f"sqlite:///{folder}/log.db"
        with closing(open_store(address, read_only=True)) as store:
            left, events, floor = len(store.lines(0, 2**62, 2**62)), store.newest(), store.floor().seq
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            sound, folded = pool.submit(_verified, address), pool.submit(_folded, address)
            faults, (compared, wrong) = sound.result(), folded.result()
    checked = time.perf_counter() - began
    first, half, last = (parts[tenth].sizes for tenth in (0, TENTHS // 2, -1))
    p99 = [1000 * part.p99 for part in parts]
    kept = f"{events:,} events, {floor:,} archived, {left:,} in the log after {WINDOW + 10} s of rest; asked {retain:,}"
    spent = (
        f"{served:,.0f} s for the slates, {checked:,.0f} s to verify and fold all; processor time of the server {took:,.0f} s"
    )
    store_size = ", ".join(f"{when} {size.file:.0f} MB and a WAL of {size.wal:.0f}" for when, size in _named(first, half, last))
    memory = ", ".join(f"{when} {size.memory:.0f} MB" for when, size in _named(first, half, last))
    return [
        at_most("p99 of /rank, last tenth over first", p99[-1] / p99[0], 1.1, "times", f"{p99[0]:.1f} and {p99[-1]:.1f} ms"),
        at_most(
            "size of the store, last tenth over the middle",
            (last.file + last.wal) / (half.file + half.wal),
            1.1,
            "times",
            f"{store_size}; archive {last.archive:.0f}",
        ),
        at_most("memory of the server, last tenth over the middle", last.memory / half.memory, 1.1, "times", memory),
        at_most("events in the log under load over those asked", last.events / retain, 2.0, "times", kept),
        at_most("requests refused", sum(part.refused for part in parts), 0, "", spent),
        at_most("faults of log and archive", len(faults), 0, "", "; ".join(faults[:1])),
        at_most(
            "states that differ from a fold of all events", len(wrong), 0, "", "; ".join(wrong[:1]) or f"{compared} snapshots"
        ),
    ]


def _named(*sizes: Sizes) -> Iterator[tuple[str, Sizes]]:
    return zip(("first tenth", "sixth", "last"), sizes, strict=True)


def _verified(address: str) -> list[str]:
    """Faults of the log and its archive."""
    with closing(open_store(address, read_only=True)) as store:
        return verify(store).faults


def _folded(address: str) -> tuple[int, list[str]]:
    """The number of snapshots compared with a fold of all events, and the differences."""
    with closing(open_store(address, read_only=True)) as store:
        findings = [replay(store, stored) for stored in store.rankers()]
    return sum(finding.snapshots for finding in findings), [fault for finding in findings for fault in finding.faults]


def cost(events: int = 100_000) -> list[Figure]:
    """Processor time of retention per event: to verify, archive, list and remove it. A slate has two events."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite:///{folder}/log.db"
        store = open_store(address)
        old = Retention(store, address, Policy(events=1_000, archive=f"{folder}/archive"), answer)
        service = Service(store, seed=0, start=False, retention=old)
        spec = RankerSpec(algorithm="recurrank", positions=10, rounds=10**7, window_seconds=0.001)
        service.create("films", spec, Catalogue(rr.synthetic(items=1_000, dim=5, seed=0).features))
        hosted = service.hosted("films")
        began = time.process_time()
        for _ in range(events // 400):  # groups as a busy server has them
            slates = [rng.bytes(12).hex() for _ in range(200)]
            store.commit([Serve(slate, hosted.stored.number, hosted.draw().payload) for slate in slates])
            store.commit([Report(slate, (1,), True) for slate in slates])
            service.step()
        written = (time.process_time() - began) / events
        service.learner.keep_all(time.monotonic() + 60)
        gc.disable()  # as the worker does
        began = time.process_time()
        removed = old.step()
        took = (time.process_time() - began) / max(removed, 1)
        gc.enable()
        assert old.failed is None
        service.close()
    detail = f"{1e6 * took:.0f} us per event, {removed:,} events; to rank, write and learn them took {1e6 * written:.0f} us"
    return [at_least("events that retention removes per second of a processor", 1 / took, 20_000, "", detail)]


def backups(seconds: float = 10.0) -> list[Figure]:
    """Throughput of ``/rank`` while the store is copied repeatedly, over that without."""
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
        faults = verify(store).faults + [fault for stored in store.rankers() for fault in replay(store, stored).faults]
        store.close()
    share = 100 * sum(rates[True]) / sum(rates[False])
    detail = f"{sum(rates[False]) / 2:,.0f}/s without, {copies} copies; faults of the last one, restored: {len(faults)}"
    return [at_least("throughput of /rank beside backups", share, 80, "%", detail)]


def run() -> list[Figure]:
    return [*cost(), *bounded(), *backups()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slates", type=int, default=SLATES)
    parser.add_argument("--retain", type=int, default=RETAIN, help="events that stay in the log")
    given = parser.parse_args()
    for figure in [*cost(), *bounded(given.slates, given.retain)]:
        mark = "holds" if figure.holds else "missed"
        print(f"{figure.name}: {figure.value:,.3f} {figure.unit} ({figure.limit}: {mark}); {figure.detail}")
