"""Equal seeds for a ranker and its users against different ones: the regret must be the same, for every ranker.

The ratio of the two is a geometric mean over paired runs on the same problems. It is 1 within noise if the interval
that covers all rankers at once with 95 % (Student's t, Bonferroni) contains 1.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

import recurrank as rr
from benchmarks.measure import Figure
from benchmarks.rankers import OWN

ITEMS, DIM, POSITIONS, ROUNDS, PROBLEMS = 1000, 5, 10, 100_000, 8


def run() -> list[Figure]:
    names = [name for name in rr.rankers.names() if name != "oracle"]  # it loses nothing
    return [_one(name, 0.05 / len(names)) for name in names]


def _one(name: str, doubt: float) -> Figure:
    logs = np.array([np.log(_regret(name, n, n) / _regret(name, n, PROBLEMS + n)) for n in range(PROBLEMS)])
    error = logs.std(ddof=1) / np.sqrt(PROBLEMS)
    low, high = (np.exp(logs.mean() + side * stats.t.ppf(1 - doubt / 2, PROBLEMS - 1) * error) for side in (-1, 1))
    plain = [np.exp(logs.mean() + side * stats.t.ppf(0.975, PROBLEMS - 1) * error) for side in (-1, 1)]
    detail = (
        f"95 % interval {plain[0]:.3f} to {plain[1]:.3f}; {PROBLEMS} problems, L = {ITEMS}, K = {POSITIONS}, T = {ROUNDS:,}"
    )
    return Figure(
        f"regret, equal over different seeds: {name}",
        float(np.exp(logs.mean())),
        "",
        "1 within noise",
        bool(low <= 1 <= high),
        detail,
    )


def _regret(name: str, number: int, users: int) -> float:
    problem = rr.synthetic(items=ITEMS, dim=DIM, seed=number)
    model = rr.clicks.make(OWN.get(name, "position"), problem.attraction, POSITIONS)
    ranker = rr.rankers.make(name, features=problem.features, positions=POSITIONS, rounds=ROUNDS, seed=number)
    return float(rr.simulate(ranker, model, ROUNDS, seed=users, checkpoints=[ROUNDS]).regret[-1])
