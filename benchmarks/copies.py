"""Copying every ranker at 10^5 items, and renewing a view in the memory of an earlier one, as the service does.

A copy shares the state until one of the two changes it. The time of copying the state is that of the copy's first ``rank()``
less that of a second one.
"""

from __future__ import annotations

import statistics
import time

import recurrank as rr
from benchmarks.measure import Figure, at_most
from benchmarks.rankers import OWN
from recurrank.rankers.unirank import UniRank

ITEMS, POSITIONS, ROUNDS, ANSWERS, REPEAT = 100_000, 10, 2_000, 16, 15


def run() -> list[Figure]:
    problem = rr.synthetic(items=ITEMS, dim=10, seed=0)
    names = [name for name in rr.rankers.names() if name != UniRank.name]  # it refuses so many items
    return [figure for name in names for figure in _one(name, problem)]


def _one(name: str, problem: rr.Problem) -> list[Figure]:
    """Processor times, the medians of several copies, each after a few more answers."""
    options = {"attraction": problem.attraction.tolist()} if name == "oracle" else {}
    ranker = rr.rankers.make(name, features=problem.features, positions=POSITIONS, rounds=10**6, seed=0, **options)
    model = rr.clicks.make(OWN.get(name, "document"), problem.attraction, POSITIONS)
    rr.simulate(ranker, model, ROUNDS, seed=1)
    view, retired = ranker.copy(), ranker.copy()
    copies, firsts, views = [], [], []
    for seed in range(REPEAT):
        for _ in range(ANSWERS):
            ranker.learn(ranker.rank(), [False] * POSITIONS)
        began = time.process_time()
        copy = ranker.copy()
        copied = time.process_time()
        copy.rank()
        ranked = time.process_time()
        copy.rank()
        copies.append(copied - began)
        firsts.append(ranked - copied - (time.process_time() - ranked))
        del copy
        began = time.process_time()
        view, retired = ranker.copy(seed, into=retired), view
        views.append(time.process_time() - began)
        view.rank()
    return [
        at_most(f"{name}, copy()", statistics.median(copies) * 1e3, 1.0, "ms", f"L = {ITEMS:,}, processor time"),
        at_most("... and copying the state in its first rank()", statistics.median(firsts) * 1e3, 20.0, "ms", ""),
        at_most(f"{name}, a view renewed", statistics.median(views) * 1e3, 2.0, "ms", ""),
    ]
