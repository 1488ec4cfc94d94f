"""A simulated round of requests: Anchored against its literal twin and against LinTS-PBMRank, in the same run.

Rounds are in processor time; the first of three runs may compile, and the shortest counts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from tests.naive_anchored import Anchored as Twin

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most, seconds
from recurrank.rankers.contextual import LinTSPBMRank

ROUNDS, TWIN_ROUNDS = 100_000, 200


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
    return figures
