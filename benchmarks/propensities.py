"""Logged probabilities against what is drawn: ``python -m benchmarks.propensities [DRAWS]``, by default a million per ranker.

From one state of each ranker that draws at random, slates are drawn again and again: chi-squared of slates against the joint
probability that each had, and of the items at each position against the marginal one; cells with fewer than five expected
draws are put together. With some sixty tests, p-values below 10^-4 would be a finding.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
from scipy import stats

import recurrank as rr

ITEMS, POSITIONS = 8, 4
RANKERS = (
    "anchored",
    "balanced",
    "batchrank",
    "bubblerank",
    "epsilon-greedy",
    "pbm-pie",
    "pie",
    "random",
    "ranked-bandits",
    "recurrank",
    "toprank",
)


def learned(name: str) -> rr.Ranker:
    """A ranker after 60 rounds."""
    problem = rr.synthetic(items=ITEMS, dim=3, seed=0)
    ranker = rr.rankers.make(name, features=problem.features, positions=POSITIONS, rounds=5000, seed=0)
    rr.simulate(ranker, rr.clicks.PositionBased(problem.attraction, examination=1 / np.arange(1, POSITIONS + 1)), 60, seed=1)
    return ranker


def chi_squared(seen: dict, said: dict, draws: int) -> float:
    """The p-value of counts against probabilities."""
    often = [cell for cell in said if draws * said[cell] >= 5]
    rest = max(0.0, 1 - sum(said[cell] for cell in often))
    observed = [seen[cell] for cell in often] + [draws - sum(seen[cell] for cell in often)] * (rest > 5 / draws)
    expected = np.array([draws * said[cell] for cell in often] + [draws * rest] * (rest > 5 / draws))
    if len(expected) < 2:
        return 1.0
    return float(stats.chisquare(observed, expected * sum(observed) / expected.sum()).pvalue)


def measure(name: str, draws: int) -> tuple[float, float]:
    """p-values: of whole slates, and the least of the positions', times their number."""
    ranker, copy = learned(name), None
    slates: Counter[tuple[int, ...]] = Counter()
    joint: dict[tuple[int, ...], float] = {}
    marginal: list[dict[int, float]] = [{} for _ in range(POSITIONS)]
    for seed in range(draws):
        copy = ranker.copy(seed, into=copy)
        slate = copy.rank()
        items = tuple(slate.items.tolist())
        slates[items] += 1
        if items not in joint:
            joint[items] = float(slate.joint)
            for k, item in enumerate(items):
                marginal[k][item] = float(slate.propensity[k])
    by_position = []
    for k in range(POSITIONS):
        seen: Counter[int] = Counter()
        for items, count in slates.items():
            seen[items[k]] += count
        if not np.isnan(list(marginal[k].values())).any():  # ranked bandits do not know all of theirs
            by_position.append(chi_squared(seen, marginal[k], draws))
    return chi_squared(slates, joint, draws), min(1.0, len(by_position) * min(by_position, default=1.0))


def main(draws: int, names: list[str]) -> None:
    for name in names or RANKERS:
        whole, single = measure(name, draws)
        mark = "passes" if min(whole, single) > 1e-4 else "FAILS"
        print(f"{name:15s} {draws:,} draws: slates p = {whole:.3f}, positions p = {single:.3f}: {mark}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, sys.argv[2:])
