"""The brake: wrong stops, and how soon a bad ranker is stopped."""

from __future__ import annotations

import math

import numpy as np
import pytest

from recurrank.rollout import ArmComparison, Brake, slates_until_stopped


def stop_after(ranker: float, share: float, margin: float, seed: int, most: int = 30_000) -> int:
    """Slates until the brake stops, looked at after every 200; ``most`` if it does not. The baseline has 1 click per slate."""
    rng, both, brake = np.random.default_rng(seed), ArmComparison(5.0), Brake(margin)
    for slates in range(200, most, 200):
        for clicks in rng.binomial(5, ranker / 5, round(200 * share)):
            both.observe("ranker", clicks)
        for clicks in rng.binomial(5, 0.2, round(200 * (1 - share))):
            both.observe("baseline", clicks)
        if brake.look(both):
            return slates
    return most


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_twenty_percent_fewer_clicks_are_stopped_within_what_theory_says(share):
    """30 experiments: more than half within the stated number of slates, all but two within twice as many."""
    limit = slates_until_stopped(gap=0.15, variance=0.8, share=share, most=5)
    ended = sorted(stop_after(0.8, share, 0.05, seed) for seed in range(30))
    assert ended[15] <= limit
    assert ended[27] <= 2 * limit


def test_a_ranker_at_the_margin_is_hardly_ever_stopped():
    """40 experiments of 4,000 slates with alpha 5 %: at most 4 wrong stops (probability of more: 1 in 100 at 5 %)."""
    assert sum(stop_after(0.9, 0.5, 0.1, seed, most=4_000) < 4_000 for seed in range(40)) <= 4


def test_it_says_why_stays_stopped_and_is_released():
    both, brake = ArmComparison(1.0), Brake(0.05)
    for _ in range(300):
        both.observe("baseline", 1)
        both.observe("ranker", 0.5)
    assert brake.look(both)
    assert "0.5000 clicks per slate (300 slates), the baseline 1.0000 (300)" in brake.stopped
    assert brake.look(ArmComparison(1.0))  # whatever comes later
    brake.release()
    assert not brake.look(ArmComparison(1.0))


def test_without_a_margin_it_is_half_of_the_comparison():
    both = ArmComparison(3.0)
    for clicks in np.random.default_rng(0).binomial(3, 0.5, 400):
        both.observe("baseline", clicks)
        both.observe("ranker", clicks // 2)
    assert Brake(0.0).p_value(both) == pytest.approx(both.p_value() / 2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Brake(margin=1), "margin is 1"),
        (lambda: Brake(alpha=0), "alpha is 0"),
        (lambda: slates_until_stopped(0, 1, 0.5, most=1), "gap, variance, share: 0, 1, 0.5"),
        (lambda: slates_until_stopped(math.inf, 1, 0.5, most=1), "gap, variance, share: inf"),
        (lambda: slates_until_stopped(0.1, math.nan, 0.5, most=1), "gap, variance, share: 0.1, nan"),
        (lambda: slates_until_stopped(0.1, 1, 0.5, most=-1), "most, alpha: -1, 0.05"),
        (lambda: slates_until_stopped(0.1, 1, 0.5, most=1, alpha=2), "most, alpha: 1, 2"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(ValueError, match=says):
        call()
