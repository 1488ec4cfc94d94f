"""A round of the compiled simulation against the literal twin, and of the paper's three rankers, on its second problem."""

from __future__ import annotations

import time

import numpy as np
from tests import naive

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most, seconds

ITEMS, DIM, POSITIONS, ROUNDS = 10_000, 5, 10, 5_000_000
TWIN_ROUNDS = 20_000


def run() -> list[Figure]:
    problem = rr.synthetic(items=ITEMS, dim=DIM, seed=0)
    examination = 1 / np.arange(1, POSITIONS + 1)
    model = rr.clicks.PositionBased(problem.attraction, examination)

    def compiled(name: str) -> float:
        """Processor time of a round, decisions included: the least of three runs, after one that may compile."""
        times = []
        for _ in range(4):
            ranker = rr.rankers.make(name, features=problem.features, positions=POSITIONS, rounds=ROUNDS, seed=0)
            began = time.process_time()
            rr.simulate(ranker, model, ROUNDS, seed=0)
            times.append((time.process_time() - began) / ROUNDS)
        return min(times[1:])

    ours = compiled("recurrank")
    twin = naive.RecurRank(problem.features, positions=POSITIONS, rounds=ROUNDS, seed=0)
    users = np.random.default_rng(0)

    def literal() -> None:
        for _ in range(TWIN_ROUNDS):
            naive.position_based_round(twin, problem.attraction, examination, users)

    theirs = seconds(literal, repeat=1) / TWIN_ROUNDS
    detail = f"{ours * 1e9:.0f} ns against {theirs * 1e6:.1f} us a round"
    rounds = {
        "recurrank": (ours, 90),
        "cascade-linucb": (compiled("cascade-linucb"), 150),
        "toprank": (compiled("toprank"), 300),
    }
    where = "position-based, L = 10^4, d = 5, K = 10, T = 5 * 10^6; processor time, decisions included"
    return [
        at_least("recurrank, a round: times faster than the literal twin", theirs / ours, 200, "x", detail),
        *(at_most(f"{name}, a round", each * 1e9, limit, "ns", where) for name, (each, limit) in rounds.items()),
    ]
