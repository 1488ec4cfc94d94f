"""A round of ``rank()`` and ``learn()`` from Python, for small and large catalogues."""

from __future__ import annotations

import numpy as np

import recurrank as rr
from benchmarks.measure import Figure, at_most, seconds

POSITIONS, ROUNDS = 50, 2000


def run() -> list[Figure]:
    microseconds = {}
    rankers = {
        items: rr.RecurRank(rr.synthetic(items=items, dim=10, seed=0).features, positions=POSITIONS, rounds=10**6, seed=0)
        for items in (10_000, 1_000_000)
    }
    clicks = np.zeros(POSITIONS, np.bool_)

    def rounds(ranker: rr.RecurRank) -> None:
        for _ in range(ROUNDS):
            ranker.learn(ranker.rank(), clicks)

    for items, ranker in rankers.items():
        rounds(ranker)  # compile and warm up
        microseconds[items] = seconds(lambda ranker=ranker: rounds(ranker), repeat=7) / ROUNDS * 1e6
    small, large = microseconds[10_000], microseconds[1_000_000]
    return [
        at_most("rank() + learn() from Python, L = 10^6, K = 50", large, 40, "us", f"{small:.1f} us at L = 10^4"),
        at_most("the same over that at L = 10^4", large / small, 1.2, "x", ""),
    ]
