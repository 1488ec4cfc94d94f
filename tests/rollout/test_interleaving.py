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
    shown = Interleaved(np.arange(len(share)), np.array(share), most=len(share))
    assert shown.credit(clicked) == pytest.approx(expected / len(share), abs=1e-12)


@settings(max_examples=20)
@given(st.permutations(range(8)), st.permutations(range(8)), st.integers(1, 8), st.integers(0, 9))
def test_lists_have_no_repeats_and_equal_orders_give_no_credit_on_average(first, second, positions, seed):
    rng = np.random.default_rng(seed)
    for draw in (team_draft, probabilistic):
        one = draw(first, second, positions, rng)
        assert len(set(one.items.tolist())) == positions
        assert set(one.items.tolist()) <= set(first)
    assert probabilistic(first, first, positions, rng).credit([0]) == 0


class Given:
    """Coins and draws that are given in place of random ones."""

    def __init__(self, coins=(), draws=()) -> None:
        self._coins, self._draws = iter(coins), iter(draws)

    def integers(self, _: int) -> int:
        return next(self._coins)

    def choice(self, _: int, p) -> int:
        return next(self._draws)


def drafts(first, second, positions):
    """Every list that team draft may give, once per way the coins may fall; all are equally probable."""
    coins = itertools.product((0, 1), repeat=(positions + 1) // 2)
    return [(team_draft(first, second, positions, Given(one)), 0.5 ** len(one)) for one in coins]


def drawn(first, second, positions):
    """Every probabilistic list, and its probability."""
    lists, _ = naive.probabilistic_lists(first, second, positions, tau=3.0)
    coins = [0] * positions  # which order an item was drawn from is not looked at
    return [
        (probabilistic(first, second, positions, Given(coins, map(first.index, one))), chance) for one, chance in lists.items()
    ]


CLICKS = {positions: np.array(list(itertools.product((0, 1), repeat=positions))) for positions in (2, 3, 4, 5)}


def credits_of(shown, positions):
    """Of every combination of clicks."""
    return np.array([shown.credit(np.flatnonzero(clicks)) for clicks in CLICKS[positions]])


@pytest.mark.parametrize(
    ("lists", "items", "positions"),
    [(drafts, 4, 3), (drafts, 4, 4), (drafts, 5, 4), (drafts, 5, 5), (drawn, 4, 3), (drawn, 4, 4), (drawn, 5, 2)],
)
def test_credit_has_mean_0_over_all_coins_where_clicks_do_not_depend_on_the_items(lists, items, positions):
    first, largest = list(range(items)), 0.0
    clicks = CLICKS[positions]
    chances = [np.prod(np.where(clicks, rate, 1 - rate), axis=1) for rate in (1.0, 0.5, 0.2)]
    for second in itertools.permutations(first):
        found = [(credits_of(shown, positions), chance) for shown, chance in lists(first, list(second), positions)]
        mean = sum(chance * credit for credit, chance in found)
        assert [mean @ chance for chance in chances] == pytest.approx([0, 0, 0], abs=1e-12)
        largest = max(largest, *(abs(credit).max() for credit, _ in found))
    assert largest <= 1


@pytest.mark.parametrize("positions", range(1, 9))
def test_the_largest_difference_of_a_draft_is_its_number_of_rounds(positions):
    """Of two orders without a common item, when all items of the one are clicked; never more (above)."""
    shown = team_draft(range(10), range(10, 20), positions, Given([0] * positions))
    assert shown.credit(np.flatnonzero(shown.items < 10)) == 1


def capital_of(credits):
    """The larger capital of the two gamblers after each session; one experiment per row."""
    up, down = np.zeros(credits.shape), np.zeros(credits.shape)
    whole = sum(1 / j for j in range(1, len(BETS) + 1))
    for j, bet in enumerate(BETS, 1):
        up += np.exp(np.cumsum(np.log1p(bet * credits), axis=1)) / (j * whole)
        down += np.exp(np.cumsum(np.log1p(-bet * credits), axis=1)) / (j * whole)
    return np.maximum(up, down)


def test_no_preference_is_an_alarm_in_at_most_5_percent_at_all_times():
    """1,000 experiments of 1,000 sessions, looked at after every session: random clicks on lists of two orders."""
    rng = np.random.default_rng(5)
    scores = rng.choice([-1.0, 0.0, 1.0, 0.3, -0.3], p=[0.15, 0.5, 0.15, 0.1, 0.1], size=(1_000, 1_000))
    largest = capital_of(scores)
    alarms = (largest >= 2 / 0.05).any(axis=1).mean()
    assert 0 < alarms <= 0.05
    test = Preference()
    for credit in scores[7, :500]:
        test.observe(credit)
    assert test.p_value() == pytest.approx(min(1, 2 / largest[7, 499]))
    assert test.mean == pytest.approx(scores[7, :500].mean())


@pytest.mark.parametrize("lists", [drafts, drawn])
@pytest.mark.parametrize("rate", [1.0, 0.5, 0.2])
@pytest.mark.parametrize("second", [[0, 2, 3, 1], [1, 2, 3, 0]])
def test_users_who_click_alike_on_both_orders_are_an_alarm_in_at_most_5_percent(lists, rate, second):
    """200 experiments of 1,000 sessions. In the first pair a coin decides whether a later round credits anybody."""
    rng = np.random.default_rng(6)
    shown, chances = zip(*lists([0, 1, 2, 3], second, 3), strict=True)
    credit = np.array([credits_of(one, 3) for one in shown])
    clicks = (rng.random((200, 1_000, 3)) < rate) @ [4, 2, 1]
    sessions = credit[rng.choice(len(shown), size=clicks.shape, p=chances), clicks]
    assert (capital_of(sessions) >= 2 / 0.05).any(axis=1).mean() <= 0.05


def test_users_who_differ_but_prefer_neither_order_on_average_are_an_alarm_in_at_most_5_percent():
    """Half of them click the items of the one order alone, half those of the other: a session's clicks depend on each other."""
    rng = np.random.default_rng(7)
    found = [shown for shown, _ in drafts(range(6), range(6, 12), 6)]
    credit = np.array([[one.credit(np.flatnonzero((one.items < 6) == fan)) for one in found] for fan in (False, True)])
    sessions = credit[rng.integers(2, size=(200, 1_000)), rng.integers(len(found), size=(200, 1_000))]
    assert (capital_of(sessions) >= 2 / 0.05).any(axis=1).mean() <= 0.05


@pytest.mark.parametrize("tau", [50.0, 700.0, 1e308])
def test_a_softmax_without_chance_shows_the_orders_themselves(tau):
    rng = np.random.default_rng(8)
    shown = probabilistic([0, 1, 2, 3, 4], [0, 1, 2, 4, 3], 5, rng, tau)
    assert sorted(shown.items.tolist()[3:]) == [3, 4]
    assert shown.items.tolist()[:3] == [0, 1, 2]
    assert shown.share.tolist()[:3] == [0.5, 0.5, 0.5]
    assert np.isfinite(shown.share).all()


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
