"""Interleaved lists by enumeration of all coins, scores by enumeration of all assignments, and the test's false alarms."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive_rollout as naive

from recurrank.rollout import Interleaved, Preference, probabilistic, team_draft
from recurrank.rollout.interleaving import BETS

FIRST, SECOND = [0, 1, 2, 3], [2, 0, 3, 1]


def frequencies(lists):
    counts = Counter(lists)
    return {key: count / len(lists) for key, count in counts.items()}


def test_team_draft_is_the_captains_choice():
    rng = np.random.default_rng(0)
    drawn = [team_draft(FIRST, SECOND, 4, rng) for _ in range(4_000)]
    seen = frequencies([(tuple(one.items.tolist()), tuple(one.share.tolist())) for one in drawn])
    exact = {}
    for (items, teams), probability in naive.team_drafts(FIRST, SECOND, 4).items():
        key = items, naive.credited(FIRST, SECOND, items, teams)
        exact[key] = exact.get(key, 0.0) + probability
    assert set(seen) == set(exact)
    for key, probability in exact.items():
        assert seen[key] == pytest.approx(probability, abs=4 * math.sqrt(0.25 / 4_000))


@settings(max_examples=40)
@given(st.permutations(range(6)), st.permutations(range(6)), st.integers(1, 6))
def test_clicks_that_do_not_depend_on_the_items_favour_no_captain_at_any_position(first, second, positions):
    total = np.zeros(positions)
    for (items, teams), probability in naive.team_drafts(first, second, positions).items():
        total += probability * (2 * np.array(naive.credited(first, second, items, teams)) - 1)
    assert total == pytest.approx(0, abs=1e-12)


def test_probabilistic_lists_occur_as_often_as_enumerated_and_credit_is_bayes_rule():
    rng = np.random.default_rng(1)
    drawn = [probabilistic(FIRST, SECOND, 3, rng, tau=1.0) for _ in range(4_000)]
    exact, posterior = naive.probabilistic_lists(FIRST, SECOND, 3, tau=1.0)
    assert sum(exact.values()) == pytest.approx(1)
    seen = frequencies([tuple(one.items.tolist()) for one in drawn])
    for key, probability in exact.items():
        assert seen.get(key, 0) == pytest.approx(probability, abs=4 * math.sqrt(0.25 / 4_000))
    for one in drawn[:50]:
        assert one.share == pytest.approx(posterior[tuple(one.items.tolist())])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.data())
def test_credit_is_the_expected_difference_over_all_assignments(share, data):
    clicked = data.draw(st.lists(st.integers(0, len(share) - 1), unique=True))
    expected = 0.0
    for teams in itertools.product([0, 1], repeat=len(clicked)):
        probability = math.prod(share[at] if team else 1 - share[at] for at, team in zip(clicked, teams, strict=True))
        expected += probability * (2 * sum(teams) - len(clicked))
    expected = max(-1.0, min(1.0, expected))
    assert Interleaved(np.arange(len(share)), np.array(share)).credit(clicked) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=20)
@given(st.permutations(range(8)), st.permutations(range(8)), st.integers(1, 8), st.integers(0, 9))
def test_lists_have_no_repeats_and_equal_orders_give_no_credit_on_average(first, second, positions, seed):
    rng = np.random.default_rng(seed)
    for draw in (team_draft, probabilistic):
        one = draw(first, second, positions, rng)
        assert len(set(one.items.tolist())) == positions
        assert set(one.items.tolist()) <= set(first)
    assert probabilistic(first, first, positions, rng).credit([0]) == 0


def test_no_preference_is_an_alarm_in_at_most_5_percent_at_all_times():
    """1,000 experiments of 1,000 sessions, looked at after every session: random clicks on lists of two orders."""
    rng = np.random.default_rng(5)
    scores = rng.choice([-1.0, 0.0, 1.0, 0.3, -0.3], p=[0.15, 0.5, 0.15, 0.1, 0.1], size=(1_000, 1_000))
    up, down = np.zeros((1_000, 1_000)), np.zeros((1_000, 1_000))
    whole = sum(1 / j for j in range(1, len(BETS) + 1))
    for j, bet in enumerate(BETS, 1):
        up += np.exp(np.cumsum(np.log1p(bet * scores), axis=1)) / (j * whole)
        down += np.exp(np.cumsum(np.log1p(-bet * scores), axis=1)) / (j * whole)
    largest = np.maximum(up, down)
    alarms = (largest >= 2 / 0.05).any(axis=1).mean()
    assert 0 < alarms <= 0.05
    test = Preference()
    for credit in scores[7, :500]:
        test.observe(credit)
    assert test.p_value() == pytest.approx(min(1, 2 / largest[7, 499]))
    assert test.mean == pytest.approx(scores[7, :500].mean())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda rng: team_draft([1, 1], [1, 2], 2, rng), "first: an order has indices of items, each once"),
        (lambda rng: team_draft([1, 2], [1, 2], 3, rng), "positions is 3"),
        (lambda rng: probabilistic([1, 2], [1, 3], 2, rng), "same items"),
        (lambda rng: probabilistic([1, 2], [2, 1], 2, rng, tau=0), "tau is 0"),
        (lambda rng: team_draft([1, 2], [2, 1], 2, rng).credit([2]), "clicked"),
        (lambda rng: team_draft([1, 2], [2, 1], 2, rng).credit([True, False]), "True, False. are not positions"),
        (lambda rng: team_draft([1, 2], [2, 1], 2, rng).credit([0.7]), "0.7. are not positions"),
        (lambda rng: Preference().observe(2), "credit is 2"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(ValueError, match=says):
        call(np.random.default_rng(0))
