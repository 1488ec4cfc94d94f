"""Theorem 1's bound and the rates."""

from __future__ import annotations

import math

import numpy as np
import pytest

import recurrank as rr
from recurrank.theory.bounds import phase_length


def test_upper_bound_is_the_proofs_sum():
    L, d, K, T = 100, 3, 4, 50_000
    delta = 1 / math.sqrt(T)
    total = 0.0
    for phase in range(1, 200):  # the tail of 200 halvings is nothing
        small = delta / (2 * K * phase * (phase + 1))
        length = d * (d + 1) / 2 + 1.05 * d / (2 * (2.0**-phase) ** 2) * math.log(L / small)
        total += min(length, T) * 2.0**-phase
    assert rr.theory.upper_bound(L, d, K, T) == pytest.approx(delta * T * K + 12 * K * total)


def test_the_failure_probabilities_add_up_to_delta():
    delta, K = 0.1, 7
    assert sum(2 * K * delta / (2 * K * ell * (ell + 1)) for ell in range(1, 10**5)) == pytest.approx(delta, rel=1e-4)


def test_no_phase_is_longer_than_the_bound_says():
    problem = rr.synthetic(items=60, dim=4, seed=0)
    ranker = rr.RecurRank(problem.features, positions=5, rounds=100_000, seed=0)
    rr.simulate(ranker, rr.clicks.PositionBased(problem.attraction, 1 / np.arange(1, 6)), 100_000, seed=0)
    assert len(ranker.history) > 3
    for closed in ranker.history:
        assert closed.closed - closed.opened <= phase_length(closed.phase, 60, 4, 5, ranker.delta)


def test_regret_stays_below_the_bound_and_both_have_the_rate():
    problem = rr.synthetic(items=200, dim=3, seed=0)
    model = rr.clicks.DocumentBased(problem.attraction)
    ranker = rr.RecurRank(problem.features, positions=3, rounds=100_000, seed=0)
    regret = rr.simulate(ranker, model, 100_000, seed=0).regret[-1]
    bound = rr.theory.upper_bound(200, 3, 3, 100_000)
    assert 0 < regret < bound
    small, large = (rr.theory.upper_bound(200, 3, 3, t) / rr.theory.upper_rate(200, 3, 3, t) for t in (10**6, 10**9))
    assert 0.5 < large / small < 2
    assert rr.theory.lower_rate(3, 3, 10**6) < rr.theory.upper_rate(200, 3, 3, 10**6)


@pytest.mark.parametrize(
    "change", [{"items": 0}, {"dim": 0}, {"positions": -1}, {"rounds": 0}, {"delta": 0.0}, {"delta": 1.5}, {"delta": "x"}]
)
def test_bad_input(change):
    with pytest.raises(ValueError, match=rf"^{next(iter(change))}: "):
        rr.theory.upper_bound(**{"items": 10, "dim": 2, "positions": 2, "rounds": 100, **change})
