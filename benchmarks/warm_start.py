"""A warm start from a fit: ``python -m benchmarks.warm_start [RUNS]``.

10^5 sessions logged with a mediocre order (attractions with noise of twice their spread), position-based users, a fit of the
position-based model, its prior; regret of the first 10^4 rounds of Balanced with the prior over that without. Then a
wrong prior, with all attractions reversed: regret of 10^6 rounds with it over that without.
"""

from __future__ import annotations

import sys

import numpy as np

import recurrank as rr
from recurrank.logs.sessions import Sessions

ITEMS, DIM, POSITIONS, SESSIONS, ROUNDS, LONG = 1_000, 5, 10, 100_000, 10_000, 1_000_000


def logged(problem: rr.Problem, seed: int) -> Sessions:
    """Pages of a mediocre order: each session orders the items by attraction with noise."""
    rng = np.random.default_rng(seed)
    spread = problem.attraction.std()
    items = np.empty((SESSIONS, POSITIONS), np.int32)
    for begin in range(0, SESSIONS, 2_000):
        scores = problem.attraction + 2 * spread * rng.standard_normal((2_000, ITEMS))
        items[begin : begin + 2_000] = np.argsort(-scores, axis=1)[:, :POSITIONS]
    clicks = rng.random(items.shape) < problem.attraction[items] / np.arange(1, POSITIONS + 1)
    return Sessions(np.zeros(SESSIONS, np.int32), items, clicks.astype(np.uint8), [""], [str(i) for i in range(ITEMS)])


def main(runs: int) -> None:
    total = {"cold": 0.0, "warm": 0.0}
    for seed in range(runs):
        problem = rr.synthetic(items=ITEMS, dim=DIM, seed=seed)
        model = rr.clicks.PositionBased(problem.attraction, examination=1 / np.arange(1, POSITIONS + 1))
        catalogue = rr.Catalogue(problem.features, ids=[str(i) for i in range(ITEMS)])
        prior = rr.fit(logged(problem, seed), "pbm", split="none").prior(catalogue, answers=3_000)
        for label, believed in (("cold", None), ("warm", prior)):
            ranker = rr.Balanced(catalogue, positions=POSITIONS, rounds=1_000_000, seed=seed, prior=believed)
            total[label] += rr.simulate(ranker, model, rounds=ROUNDS, seed=seed).regret[-1]
    share = total["warm"] / total["cold"]
    print(f"{runs} runs: cold {total['cold'] / runs:.1f}, warm {total['warm'] / runs:.1f} clicks lost: {share:.0%}", flush=True)
    cold, wrong = np.array([misled(seed) for seed in range(runs)]).T
    print(f"reversed, {LONG:,} rounds: cold {cold.mean():.1f}, wrong prior {wrong.mean():.1f}: {wrong.sum() / cold.sum():.2f}")


def misled(seed: int) -> list[float]:
    """Regret of a long run without a prior, and with one that has all attractions reversed."""
    problem = rr.synthetic(items=ITEMS, dim=DIM, seed=seed)
    model = rr.clicks.PositionBased(problem.attraction, examination=1 / np.arange(1, POSITIONS + 1))
    backwards = problem.attraction.max() + problem.attraction.min() - problem.attraction
    wrong = rr.Prior.of(problem.features, np.clip(backwards, 0, 1), answers=3_000)
    rankers = (rr.Balanced(problem.features, POSITIONS, LONG, seed, prior=prior) for prior in (None, wrong))
    return [float(rr.simulate(ranker, model, rounds=LONG, seed=seed).regret[-1]) for ranker in rankers]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
