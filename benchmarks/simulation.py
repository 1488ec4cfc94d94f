"""A round of the compiled simulation against the literal twin, on the paper's position-based problem."""

from __future__ import annotations

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

    def compiled() -> float:
        ranker = rr.RecurRank(problem.features, positions=POSITIONS, rounds=ROUNDS, seed=0)
        return rr.simulate(ranker, model, ROUNDS, seed=0).seconds / ROUNDS

    compiled()
    ours = min(compiled() for _ in range(3))
    twin = naive.RecurRank(problem.features, positions=POSITIONS, rounds=ROUNDS, seed=0)
    users = np.random.default_rng(0)

    def literal() -> None:
        for _ in range(TWIN_ROUNDS):
            naive.position_based_round(twin, problem.attraction, examination, users)

    theirs = seconds(literal, repeat=1) / TWIN_ROUNDS
    detail = f"{ours * 1e9:.0f} ns against {theirs * 1e6:.1f} us a round"
    return [
        at_least("recurrank, a round: times faster than the literal twin", theirs / ours, 200, "x", detail),
        at_most("recurrank, a round (an aim, not a ratio)", ours * 1e9, 100, "ns", "position-based, L = 10^4, d = 5, K = 10"),
    ]
