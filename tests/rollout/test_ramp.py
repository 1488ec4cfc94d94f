"""The ramp: its shares, what it allows at which evidence, and that it keeps to its budget."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive_rollout as naive

from recurrank.rollout import ArmComparison, Brake, affordable, ramp
from recurrank.rollout.sequence import RATES


@given(st.floats(0, 1), st.floats(0.001, 1))
def test_it_begins_with_what_any_ranker_may_cost_and_at_most_doubles_up_to_the_share(share, budget):
    shares = ramp(share, budget)
    assert shares[0] == min(share, budget)
    assert shares[-1] == share
    assert all(less < more <= 2 * less for less, more in itertools.pairwise(shares))


def test_evidence_is_that_of_the_literal_product():
    rng, both = np.random.default_rng(0), ArmComparison(3.0)
    table = [rng.binomial(3, 0.4, 300), rng.binomial(3, 0.35, 90)]
    for arm, clicks in zip(("baseline", "ranker"), table, strict=True):
        for one in clicks:
            both.observe(arm, one)
    one, other = (tuple(column[0, -1] for column in naive.arms(np.array([clicks], float))) for clicks in table)
    left = 1 - 0.05 / 0.1
    fewer = one[0], left * one[1], left**2 * one[2]
    least = naive.least_product(other, fewer, 0.0, 3.0, RATES, np.linspace(0, 3, 3_001))
    assert least > 1
    assert affordable(both, 0.1, 0.05) == pytest.approx(1 / least, rel=1e-3)
    assert affordable(both, 0.05, 0.05) == 0  # whatever the ranker
    assert affordable(ArmComparison(3.0), 0.1, 0.05) == 1  # nothing is known


def ramped(rng, ranker: float, baseline: float, share: float, budget: float, slates: int) -> tuple[list[float], float]:
    """The shares that were reached, and expected clicks over the baseline's."""
    shares = ramp(share, budget)
    step, both, lost, brake = 0, ArmComparison(2.0), 0.0, Brake(0.05, 0.05 / len(shares))
    for _ in range(slates // 100):
        count = int(rng.binomial(100, shares[step]))
        for clicks in rng.binomial(2, ranker / 2, count):
            both.observe("ranker", clicks)
        for clicks in rng.binomial(2, baseline / 2, 100 - count):
            both.observe("baseline", clicks)
        lost += count * (baseline - ranker)
        if brake.look(both):
            break
        if step + 1 < len(shares) and affordable(both, shares[step + 1], budget) <= brake.alpha:
            step, both = step + 1, ArmComparison(2.0)
    return shares[: step + 1], 1 - lost / (slates * baseline)


def test_a_bad_ranker_costs_less_than_the_budget_and_a_good_one_gets_its_share():
    """10 runs each: 60 % fewer clicks never come above what a loss of 60 % allows; equal ones have a tenth in the end."""
    for seed in range(10):
        reached, kept = ramped(np.random.default_rng(seed), 0.4, 1.0, 0.5, 0.04, 8_000)
        assert max(reached) * 0.6 <= 0.04 * 1.0001 or max(reached) == 0.04
        assert kept >= 0.96
        reached, _ = ramped(np.random.default_rng(seed), 1.0, 1.0, 0.1, 0.04, 8_000)
        assert reached == (0.04, 0.08, 0.1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ramp(1.5, 0.1), "share is 1.5"),
        (lambda: ramp(0.5, 0), "budget is 0; it should be a share of the baseline's clicks"),
        (lambda: affordable(ArmComparison(3.0), 0.5, -1), "budget is -1"),
        (lambda: affordable(ArmComparison(3.0), 0.5, math.nan), "budget is nan"),
        (lambda: affordable(ArmComparison(3.0), math.nan, 0.1), "share is nan"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(ValueError, match=says):
        call()
