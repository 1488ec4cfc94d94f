"""Requests over HTTP: ids of a catalogue, features as JSON and as binary numbers, against an empty route of the same server.

Throughput is of real connections. The server's processor time per answer is measured too, since it hardly depends on other
load on the machine.
"""

from __future__ import annotations

import base64
import json
import os
import statistics
import tempfile
import urllib.request
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Figure, at_least, at_most
from benchmarks.serving import Requests, load, server

ITEMS, CANDIDATES, DIM, POSITIONS = 100_000, 100, 32, 10
CONNECTIONS, SECONDS, TIMES = 16, 2.0, 3
NPY = "application/x-npy"


class _Case(NamedTuple):
    """Requests, and their limits: the share of an empty route's throughput, and milliseconds for 99 % of the answers."""

    name: str
    requests: list[Requests]
    share: float
    within: float


def run() -> list[Figure]:
    """All of it, in one run."""
    with tempfile.TemporaryDirectory() as folder, server(folder) as port:
        return [*asking(port), *whole(port)]


def asking(port: int) -> list[Figure]:
    """Three kinds of requests."""
    rng, items = np.random.default_rng(0), 2_000
    ids = [f"item-{n}" for n in range(items)]
    listed = [{"id": name, "features": row.tolist()} for name, row in zip(ids, rng.random((items, DIM)), strict=True)]
    _put(port, "shop", {"algorithm": "anchored", "positions": POSITIONS, "items": listed})
    _put(port, "free", {"algorithm": "anchored", "positions": POSITIONS, "dim": DIM})
    cases = [
        _Case(
            "100 ids of a catalogue", [[_by_id(rng.permutation(items)) for _ in range(20)] for _ in range(CONNECTIONS)], 40, 10
        ),
        _Case("100 x 32 features as JSON", [[_as_json(rng) for _ in range(5)] for _ in range(CONNECTIONS)], 10, 25),
        _Case("100 x 32 features as binary", [[_as_npy(rng) for _ in range(5)] for _ in range(CONNECTIONS)], 25, 15),
    ]
    found = _measured(port, [_Case("empty", [[["GET", "/healthz", ""]]], 0, 0), *cases])
    rate, _, processor = found["empty"]
    figures = []
    for case in cases:
        a_second, p99, own = found[case.name]
        detail = f"{a_second:,.0f}/s, empty {rate:,.0f}/s; {own * 1e6:,.0f} us of the server, empty {processor * 1e6:,.0f} us"
        what = f"/rank, {case.name}"
        figures.append(at_least(f"{what}, over an empty route", 100 * a_second / rate, case.share, "%", detail))
        figures.append(at_most(f"{what}, 99 % of answers within", 1000 * p99, case.within, "ms", ""))
    return figures


def whole(port: int) -> list[Figure]:
    """All of 10^5 items, without candidates: Anchored against Balanced."""
    features = np.random.default_rng(0).random((ITEMS, 10)).astype(np.float32)
    for algorithm in ("anchored", "balanced"):
        body = BytesIO()
        np.save(body, features)
        path = f"/v1/rankers/{algorithm}?algorithm={algorithm}&positions={POSITIONS}"
        _send(port, "PUT", path, body.getvalue(), NPY)
    cases = [_Case(name, [[["POST", f"/v1/rankers/{name}/rank", "{}"]]], 0, 0) for name in ("anchored", "balanced")]
    found = _measured(port, cases)
    ours, theirs = found["anchored"], found["balanced"]
    detail = f"{ours[0]:,.0f}/s, {theirs[0]:,.0f}/s; {ours[2] * 1e6:,.0f} and {theirs[2] * 1e6:,.0f} us of the server"
    return [at_least("/rank of 10^5 items without candidates, over balanced", 100 * ours[0] / theirs[0], 50, "%", detail)]


def _measured(port: int, cases: list[_Case]) -> dict[str, tuple[float, float, float]]:
    """Answers per second, the 99th percentile and the server's seconds of processor time per answer: medians of runs."""
    server_process = _child()
    runs: dict[str, list[tuple[float, float, float]]] = {case.name: [] for case in cases}
    for case in cases:
        load(port, CONNECTIONS, 0.5, case.requests)
    for _ in range(TIMES):
        for case in cases:
            before = _processor(server_process)
            result = load(port, CONNECTIONS, SECONDS, case.requests)
            took = _processor(server_process) - before
            runs[case.name].append((result["a_second"], result["p99"], took / result["statuses"]["200"]))
    return {name: tuple(statistics.median(column) for column in zip(*rows, strict=True)) for name, rows in runs.items()}  # type: ignore[misc]


def _child() -> int:
    """The server's process: the only child of this one that serves."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == os.getpid() and b"serve" in (folder / "cmdline").read_bytes():
                    return int(folder.name)
            except (OSError, ValueError):  # it has ended
                continue
    raise RuntimeError("the server is not running")


def _processor(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _by_id(order: Any) -> list[str]:
    return ["POST", "/v1/rankers/shop/rank", json.dumps({"candidates": [f"item-{n}" for n in order[:CANDIDATES].tolist()]})]


def _as_json(rng: np.random.Generator) -> list[str]:
    rows = rng.random((CANDIDATES, DIM)).tolist()
    return [
        "POST",
        "/v1/rankers/free/rank",
        json.dumps({"candidates": [{"id": f"x{n}", "features": r} for n, r in enumerate(rows)]}),
    ]


def _as_npy(rng: np.random.Generator) -> list[str]:
    body = BytesIO()
    np.save(body, rng.random((CANDIDATES, DIM), np.float32))
    ids = ",".join(f"x{n}" for n in range(CANDIDATES))
    return ["POST", f"/v1/rankers/free/rank?ids={ids}", base64.b64encode(body.getvalue()).decode(), NPY]


def _put(port: int, name: str, document: dict[str, Any]) -> None:
    _send(port, "PUT", f"/v1/rankers/{name}", json.dumps(document).encode(), "application/json")


def _send(port: int, method: str, path: str, body: bytes, kind: str) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"content-type": kind}, method=method)
    with urllib.request.urlopen(request, timeout=300) as answer:
        assert answer.status == 200
