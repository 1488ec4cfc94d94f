"""Two arms compared at all times: supermartingales by enumeration, a literal twin, false alarms, coverage, power."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from tests import naive_rollout as naive

from recurrank.rollout import Arm, ArmComparison
from recurrank.rollout.sequence import RATES, log_mixture


@pytest.mark.parametrize("mean", [0.01, 0.2, 0.5, 0.9, 0.999])
def test_each_step_of_each_rate_is_a_supermartingale(mean):
    """By enumeration, for clicks in {0, 1}, whatever was predicted, on both sides."""
    for rate in RATES:
        psi = -math.log(1 - rate) - rate
        for predicted in np.linspace(0, 1, 21):
            for side in (1, -1):
                steps = [math.exp(side * rate * (x - mean) - psi * (x - predicted) ** 2) for x in (0, 1)]
                assert (1 - mean) * steps[0] + mean * steps[1] <= 1 + 1e-12


@given(
    excess=st.floats(-1e4, 1e4), deviation=st.floats(0, 1e5), most=st.sampled_from([1.0, 3.0, 10.0]),
)  # fmt: skip
def test_the_mixture_is_its_sum_and_the_slope_its_derivative(excess, deviation, most):
    value, slope = log_mixture(excess, deviation, most)
    if -600 < value < 600:
        assert value == pytest.approx(math.log(naive.mixture(excess, deviation, most, RATES)), abs=1e-9)
    step = 1e-4 * most
    risen = log_mixture(excess + step, deviation, most)[0] - log_mixture(excess - step, deviation, most)[0]
    assert slope == pytest.approx(risen / (2 * step), rel=1e-2, abs=1e-6)


def test_the_grid_is_close_to_the_gamma_exponential_mixture():
    """Howard et al., proposition 9, integrated numerically: its boundary, tuned for one V, is at most a quarter below ours."""

    def boundary(log_m, v):
        low, high = 0.0, 50 * math.sqrt(v) + 100
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if log_m(middle, v) < math.log(40) else (low, middle)
        return high

    def gamma_exponential(s, v, rho):
        """The density proportional to exp(-rho psi_E(x)) on [0, 1), mixed over."""
        psi = lambda x: -math.log(1 - x) - x  # noqa: E731
        density = quad(lambda x: math.exp(-rho * psi(x)), 0, 1, points=[1 / math.sqrt(rho)])[0]
        mixed = quad(lambda x: math.exp(x * s - (v + rho) * psi(x)), 0, 1, points=[min(0.9, s / (v + rho))], limit=200)[0]
        return math.log(mixed / density)

    for v in (30.0, 300.0, 3_000.0):
        ours = boundary(lambda s, v: log_mixture(s, v, 1.0)[0], v)
        theirs = boundary(lambda s, v: gamma_exponential(s, v, v / 10), v)
        assert theirs < ours < 1.25 * theirs


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_p_values_and_intervals_are_those_of_the_literal_product(first, second):
    both = ArmComparison(most=5.0)
    for clicks in first:
        both.observe("baseline", clicks)
    for clicks in second:
        both.observe("ranker", clicks)
    arms = [tuple(column[0, -1] for column in naive.arms(np.array([clicks], float))) for clicks in (first, second)]
    assert both.baseline == pytest.approx(arms[0])
    assert both.ranker == pytest.approx(arms[1])
    means = np.linspace(0, 5, 1_001)
    above = naive.least_product(arms[1], arms[0], 0.0, 5.0, RATES, means)
    below = naive.least_product(arms[0], arms[1], 0.0, 5.0, RATES, means)
    assert both.p_value() == pytest.approx(min(1, 2 / max(above, below)), rel=0.01)
    low, high = both.interval()
    assert -5 <= low <= both.difference <= high <= 5
    for end in (low, high):  # an end is where the p-value passes alpha, or where differences end
        assert abs(end) == 5 or both.p_value(end) == pytest.approx(both.alpha, rel=1e-4)


def test_no_difference_looked_at_after_every_100_slates_is_an_alarm_in_at_most_5_percent():
    """1,000 experiments of 10,000 slates, a fifth of them the ranker's. The smallest product over a few means near 1.1 is
    never below the smallest over all means, so that at least the alarms of the program are counted.
    """
    rng = np.random.default_rng(20)
    looks = np.arange(100, 10_001, 100)
    users = np.array([0.5, 0.3, 0.2, 0.1])  # clicks of four positions
    table = [np.zeros((1_000, n)) for n in (8_000, 2_000)]
    for probability in users:
        for clicks in table:
            clicks += rng.random(clicks.shape) < probability
    slates = [looks * 4 // 5, looks // 5]
    arms = [[column[:, at - 1] for column in naive.arms(clicks)] for clicks, at in zip(table, slates, strict=True)]
    means = np.linspace(0.9, 1.3, 21)
    above = naive.least_product(arms[1], arms[0], 0.0, 4.0, RATES, means)
    below = naive.least_product(arms[0], arms[1], 0.0, 4.0, RATES, means)
    alarms = np.maximum(above, below) >= 2 / 0.05
    assert alarms.any(axis=1).mean() <= 0.05
    one = ArmComparison(4.0, baseline=Arm(*(c[3, 50] for c in arms[0])), ranker=Arm(*(c[3, 50] for c in arms[1])))
    assert one.p_value() == pytest.approx(min(1, 2 / max(above[3, 50], below[3, 50])), rel=0.05)


def test_the_truth_stays_inside_while_a_learner_improves_and_the_interval_closes_in():
    """The ranker's mean drifts from 0.4 to 0.8 clicks: the interval is about the average so far. 20 experiments."""
    rng = np.random.default_rng(3)
    means = 0.8 - 0.4 / np.sqrt(np.arange(1, 4_001))
    wrong, widths = 0, []
    for _ in range(20):
        baseline, ranker = (rng.random(4_000) < 0.6).astype(float), (rng.random(4_000) < means).astype(float)
        both = ArmComparison(most=1.0)
        outside = False
        for t in range(4_000):
            both.observe("baseline", baseline[t])
            both.observe("ranker", ranker[t])
            if (t + 1) % 2_000 == 0:
                low, high = both.interval()
                outside |= not low <= means[: t + 1].mean() - 0.6 <= high
        wrong += outside
        widths.append(high - low)
        assert low > 0  # it is better, and the interval says so
    assert wrong <= 1
    assert max(widths) < 0.2


def test_power_twenty_percent_fewer_clicks_are_found_within_3000_slates_per_arm():
    """Documented in docs/rollout.md; 50 experiments."""
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(50):
        baseline = rng.binomial(5, 0.2, 3_000)
        ranker = rng.binomial(5, 0.16, 3_000)
        both = ArmComparison(most=5.0)
        for t in range(3_000):
            both.observe("baseline", baseline[t])
            both.observe("ranker", ranker[t])
        found += both.p_value() <= 0.05
    assert found >= 45


def test_nothing_is_known_before_both_arms_have_slates():
    both = ArmComparison(most=4.0)
    both.observe("ranker", 4)
    assert both.interval() == (-4.0, 4.0)
    assert both.p_value() == 1.0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ArmComparison(most=0), "most is 0"),
        (lambda: ArmComparison(most=math.nan), "most is nan"),
        (lambda: ArmComparison(most=3, alpha=1), "alpha is 1"),
        (lambda: ArmComparison(most=3, baseline=Arm(-1, 5, 0)), "baseline: 5 clicks in -1 slates"),
        (lambda: ArmComparison(most=3, ranker=Arm(1, 5, 0)), "ranker: 5 clicks in 1 slates of at most 3 clicks"),
        (lambda: ArmComparison(most=3, ranker=Arm(1, math.nan, 0)), "ranker: nan clicks"),
        (lambda: ArmComparison(most=3, ranker=Arm(2, 5, -1)), "ranker: the deviation -1 of 2 slates"),
        (lambda: ArmComparison(most=3).observe("ranker", 4), "clicks is 4; it should be between 0 and 3"),
        (lambda: ArmComparison(most=3).observe("ranker", math.nan), "clicks is nan"),
        (lambda: ArmComparison(most=3).observe("control", 1), "arm is 'control'"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(ValueError, match=says):
        call()
