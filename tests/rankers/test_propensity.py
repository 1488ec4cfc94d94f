"""How probable a slate was: exactly, by adding up all slates there are, and against what is really drawn."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import recurrank as rr
from recurrank.rankers.dispatch import Buffer, once
from recurrank.rankers.ranker import registered

ITEMS, POSITIONS = 6, 3
SLATES = list(itertools.permutations(range(ITEMS), POSITIONS))
UNKNOWN = {"cascade-lints", "pb-mhb"}
"""Only sampling would tell."""
BY_MARKS = {"ranked-bandits"}
"""What a bandit chose is in the slate's marks: there is no telling of a slate that was not drawn."""
STOCHASTIC = [
    "anchored",
    "balanced",
    "batchrank",
    "bubblerank",
    "epsilon-greedy",
    "pbm-pie",
    "pie",
    "random",
    "rank1-elim",
    "rank1-elim-kl",
    "recurrank",
    "toprank",
    "unirank",
]


NOT_GIVEN = {"anchored", "batchrank", "epsilon-greedy", "rank1-elim", "rank1-elim-kl"}
"""What is above tells more than follows from single positions and the whole."""


def learned(name: str, rounds: int, seed: int = 0) -> rr.Ranker:
    """A ranker after so many rounds, with some slates still out."""
    problem = rr.synthetic(items=ITEMS, dim=3, seed=seed)
    truth = {"attraction": problem.attraction} if name == "oracle" else {}
    ranker = rr.rankers.make(name, features=problem.features, positions=POSITIONS, rounds=2000, seed=seed, **truth)
    model = rr.clicks.PositionBased(problem.attraction, examination=1 / np.arange(1, POSITIONS + 1))
    if rounds:
        rr.simulate(ranker, model, rounds, seed=1)
    for _ in range(rounds % 7):
        ranker.rank()
    return ranker


def probabilities(ranker: rr.Ranker) -> tuple[dict, np.ndarray, dict]:
    """The joint probability of every slate there is, marginals, and those given the items above, by the ranker's own word."""
    joint, marginals, given = {}, np.zeros((POSITIONS, ITEMS)), {}
    calls = ranker.calls
    asked = calls.round
    for items in SLATES:
        asked.slate.items[:], asked.slate.marks[:] = items, -1
        once(calls.recall)
        once(calls.tell)
        once(calls.tell_given)
        joint[items], given[items] = float(asked.joint[0]), asked.given.copy()
        for k, item in enumerate(items):
            marginals[k, item] = asked.marginal[k]
    return joint, marginals, given


@pytest.mark.parametrize("name", STOCHASTIC)
@pytest.mark.parametrize("rounds", [0, 40, 333])
def test_all_slates_add_up(name, rounds):
    joint, marginals, given = probabilities(learned(name, rounds))
    assert sum(joint.values()) == pytest.approx(1, abs=1e-9)
    added = np.zeros((POSITIONS, ITEMS))
    for items, chance in joint.items():
        added[range(POSITIONS), items] += chance
    np.testing.assert_allclose(marginals, added, atol=1e-9)
    for items in (items for items in joint if joint[items] > 0):
        down_to = [sum(joint[other] for other in joint if other[:k] == items[:k]) for k in range(1, POSITIONS + 1)]
        if name not in NOT_GIVEN or not np.isnan(given[items]).any():
            np.testing.assert_allclose(np.cumprod(given[items]), down_to, atol=1e-9)


@pytest.mark.parametrize("name", STOCHASTIC)
def test_what_is_drawn_has_the_probability_that_it_had_before(name):
    ranker = learned(name, 40)
    for _ in range(30):
        joint, marginals, given = probabilities(ranker.copy())
        slate = ranker.rank()
        assert slate.joint == pytest.approx(joint[tuple(slate.items)], abs=1e-12)
        np.testing.assert_allclose(slate.propensity, marginals[range(POSITIONS), slate.items], atol=1e-12)
        np.testing.assert_allclose(slate.conditional, given[tuple(slate.items)], atol=1e-12)
        ranker.learn(slate, [True, False, False])


@pytest.mark.parametrize("name", [*STOCHASTIC, "ranked-bandits"])
def test_draws_come_as_often_as_is_said(name):
    """4,000 draws from one state; chi-squared at 10^-4, fixed seeds."""
    ranker, copy, seen, said = learned(name, 40), None, Counter(), {}
    for seed in range(4000):
        copy = ranker.copy(seed, into=copy)
        slate = copy.rank()
        seen[tuple(slate.items)] += 1
        assert said.setdefault(tuple(slate.items), slate.joint) == slate.joint
    often = [items for items in seen if 4000 * said[items] >= 5]
    rest = 1 - sum(said[items] for items in often)
    observed = [seen[items] for items in often] + [4000 - sum(seen[items] for items in often)] * (rest > 1e-9)
    expected = [4000 * said[items] for items in often] + [4000 * rest] * (rest > 1e-9)
    assert all(4000 * said[items] > 1e-9 for items in seen)
    if len(expected) > 1:
        assert stats.chisquare(observed, np.array(expected) * sum(observed) / sum(expected)).pvalue > 1e-4


@pytest.mark.parametrize("name", sorted(set(registered()) - set(STOCHASTIC) - UNKNOWN - BY_MARKS))
def test_who_draws_nothing_is_certain(name):
    ranker = learned(name, 40)
    again = ranker.copy(7)
    slate = ranker.rank()
    assert slate.joint == 1
    assert slate.propensity.tolist() == [1] * POSITIONS
    assert again.rank().items.tolist() == slate.items.tolist()


def test_what_only_sampling_tells_is_estimated():
    ranker = learned("cascade-lints", 40)
    slate = ranker.rank()
    assert slate.propensity is None
    assert slate.joint is None
    share, error = ranker.estimate_propensity(slate, draws=400)
    again, _ = ranker.estimate_propensity(slate, draws=400, seed=1)
    assert ((share > 0) & (share <= 1)).all()
    assert (np.abs(share - again) < 5 * np.sqrt(2) * error).all()


def test_an_estimate_agrees_with_what_is_known():
    ranker = learned("toprank", 40)
    slate = ranker.rank()
    share, error = ranker.estimate_propensity(slate, draws=1000)
    assert (np.abs(share - slate.propensity) < 4.5 * error).all()


def test_simulated_rounds_and_single_ones_draw_alike():
    """``draw`` is rank and what it says of it: the random stream is the same."""
    one, other = learned("recurrank", 40), learned("recurrank", 40)
    buffer = Buffer.empty(POSITIONS)
    for _ in range(20):
        type(other).compiled_rank(other.state, other.rng, buffer)
        assert one.rank().items.tolist() == buffer.items.tolist()
