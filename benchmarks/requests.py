"""A simulated round of requests: Anchored against its literal twin and against LinTS-PBMRank, in the same run.

Rounds are in processor time; the first of three runs may compile, and the shortest counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.naive_anchored import Anchored as Twin

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most, seconds
from recurrank.rankers.contextual import LinTSPBMRank

ROUNDS, TWIN_ROUNDS = 100_000, 200
ITEMS, CALLS = 100_000, 5000


def run() -> list[Figure]:
    figures = []
    for candidates, positions, items, limit in ((40, 10, 2000, 8), (200, 20, 8000, 25)):
        requests = rr.requests.Clusters(items=items, candidates=candidates)

        def simulated(kind: Any, requests: rr.requests.Clusters = requests, positions: int = positions) -> float:
            ranker, began = kind(dim=10, positions=positions, seed=0), time.process_time()
            rr.simulate(ranker, clicks="position", requests=requests, rounds=ROUNDS, seed=0)
            return (time.process_time() - began) / ROUNDS

        ours, theirs = (min(simulated(kind) for _ in range(3)) for kind in (rr.Anchored, LinTSPBMRank))
        world, rng = requests.world(), np.random.default_rng(0)
        twin = Twin(world.features, positions, ROUNDS, rng)

        def literal(candidates: int = candidates, positions: int = positions, twin: Twin = twin, rng: Any = rng) -> None:
            for _ in range(TWIN_ROUNDS):
                slate = twin.rank_request(rng.permutation(candidates).tolist())
                twin.learn(slate, (rng.random(positions) < 0.1).tolist())

        slow = seconds(literal, repeat=1) / TWIN_ROUNDS
        size, detail = f"{candidates} x {positions}", f"{ours * 1e6:.1f} us; LinTS-PBMRank {theirs * 1e6:.1f} us"
        figures += [
            at_least(f"requests of {size}: times faster than the literal twin", slow / ours, 100, "x", detail),
            at_most(f"requests of {size}: a round over LinTS-PBMRank's", ours / theirs, 2.5, "x", detail),
            at_most(f"requests of {size}, a round (an aim, not a ratio)", ours * 1e6, limit, "us", detail),
        ]
    return figures + whole_catalogue()


def whole_catalogue() -> list[Figure]:
    """Slates of 10^5 items without candidates, from Python: rank() alone, and 5,000 rounds with estimates, beside Balanced."""
    points = np.random.default_rng(0).standard_normal((ITEMS, 10)) / 5
    alone, rounds = [], []
    for ranker in (rr.Anchored(points, positions=10, seed=0), rr.Balanced(points, positions=10, rounds=ROUNDS, seed=0)):
        rng = np.random.default_rng(1)

        def ranked(ranker: rr.Ranker = ranker) -> None:
            for _ in range(CALLS):
                ranker.rank()

        def played(ranker: rr.Ranker = ranker, rng: np.random.Generator = rng) -> None:
            for _ in range(CALLS):
                ranker.learn(ranker.rank(), rng.random(10) < 0.1)

        ranker.learn(ranker.rank(), [False] * 10)  # which may compile
        alone.append(min(_processor(ranked) for _ in range(3)) / CALLS * 1e6)
        rounds.append(_processor(played) / CALLS * 1e6)
    return [
        at_least(f"{what} over 10^5 items: throughput by Balanced's", other / ours, 0.5, "x", f"{ours:.0f} and {other:.0f} us")
        for what, (ours, other) in (("rank()", alone), ("5,000 first rounds", rounds))
    ]


def _processor(function: Callable[[], None]) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began
