"""The cost of storing probabilities in ``rank``: ``python -m benchmarks.logged_probabilities [TURNS]``.

Slates of ten positions are drawn ahead as the service does it, with and without computing and storing their probabilities, in
turns. Times are processor times, which other work disturbs least; ``benchmarks.serving`` measures whole requests.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import recurrank as rr
from recurrank._addresses import call
from recurrank._compiled import loop
from recurrank.serving import hosted, rounds
from recurrank.serving.events import pack_slates
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store

POSITIONS, TURN = 10, 30
ALGORITHMS = ("recurrank", "balanced", "toprank", "cascade-linucb")


@loop
def draw_only(drawing, drawn, rng, items, marks, used, chances, catalogue, share, certain):  # type: ignore[no-untyped-def]
    """``rounds.draw`` without probabilities."""
    slate = drawn.slate
    for i in range(len(items)):
        call(drawing.rank)
        used[i] = len(slate.items)
        for k in range(len(slate.items)):
            items[i, k] = slate.items[k]
        for k in range(len(slate.items)):
            if slate.marks[k, 0] < 0:
                used[i] = k
                break
            marks[i, k, 0], marks[i, k, 1] = slate.marks[k, 0], slate.marks[k, 1]


@contextmanager
def silent() -> Iterator[None]:
    """Draw and pack slates without probabilities."""
    with_them = rounds.draw, hosted.HostedRanker._packed
    rounds.draw = draw_only
    hosted.HostedRanker._packed = lambda self, view, items, marks, used, chances: pack_slates(items, marks, used)  # type: ignore[method-assign]
    try:
        yield
    finally:
        rounds.draw, hosted.HostedRanker._packed = with_them  # type: ignore[method-assign]


def drawn(host: Any) -> tuple[float, int]:
    """Processor seconds per slate drawn ahead, and its bytes."""
    began = time.process_time()
    for _ in range(TURN):
        slates = host._drawn(host._view, hosted.AHEAD)
    return (time.process_time() - began) / (TURN * hosted.AHEAD), len(slates[0])


def main(turns: int) -> None:
    problem = rr.synthetic(items=1_000, dim=5, seed=0)
    for algorithm in ALGORITHMS:
        with tempfile.TemporaryDirectory() as folder:
            service = Service(open_store(f"sqlite:///{folder}/log.db"), seed=0, start=False)
            try:
                service.create("items", RankerSpec(algorithm=algorithm, positions=POSITIONS), rr.Catalogue(problem.features))
                host, times, sizes = service.registry.find("items"), [], (0, 0)
                for _ in range(turns + 1):
                    spent, size = drawn(host)
                    with silent():
                        other, least = drawn(host)
                    times.append((spent, other))
                    sizes = size, least
            finally:
                service.close()
        with_them, without = np.median(times[1:], axis=0)  # the first turn compiles
        print(
            f"{algorithm:15s} {1e6 * without:.1f} us without, {1e6 * with_them:.1f} us with, {sizes[0] - sizes[1]:+d} bytes: "
            f"{1e6 * (with_them - without):.1f} us per slate for probabilities",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
