"""Positions that were never on the screen teach nothing, whatever the ranker; a page cut off is learned without bias."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import recurrank as rr

POSITIONS = 4
NAMES = [name for name in rr.rankers.names("catalogue") if name != "oracle"]


@pytest.fixture(params=NAMES)
def ranker(request, problem):
    told = {"attraction": problem.attraction, "examination": np.ones(POSITIONS)}
    return rr.rankers.make(request.param, features=problem.features, positions=POSITIONS, rounds=5000, seed=7, told=told)


def learned(ranker, slate, clicks, seen=None) -> bytes:
    """What a ranker has learned from an answer, as bytes; the ranker itself stays as it was."""
    copy = ranker.copy()
    copy.learn(slate, clicks, seen)
    return copy.save()


def test_what_is_below_the_first_position_that_was_not_seen_makes_no_difference(ranker):
    for rounds in range(30):  # whatever it knows by then
        slate = ranker.rank()
        nothing, first = np.zeros(POSITIONS, bool), np.arange(POSITIONS) == 0
        top, gap = np.arange(POSITIONS) < 2, np.array([True, False, True, True])
        below = np.array([False, False, False, True])
        if rounds in (0, 29):
            assert learned(ranker, slate, first, np.ones(POSITIONS)) == learned(ranker, slate, first)
            assert learned(ranker, slate, nothing, gap) == learned(ranker, slate, below, gap & ~below)
            assert learned(ranker, slate, first, nothing) == learned(ranker, slate, first, first)  # a click was seen
            dropped = ranker.copy()
            dropped.drop(slate)
            assert learned(ranker, slate, nothing, nothing) == dropped.save()
        ranker.learn(slate, np.random.default_rng(rounds).random(POSITIONS) < 0.4, top)


@pytest.mark.parametrize(
    ("seen", "says"), [([True], "seen: shape is"), ([2, 0, 0, 0], "seen: not all are true or false"), ("no", "seen: ")]
)
def test_what_cannot_be_seen(problem, seen, says):
    ranker = rr.rankers.make("linucb", features=problem.features, positions=POSITIONS, rounds=100, seed=0)
    slate, before = ranker.rank(), ranker.save()
    with pytest.raises(ValueError, match=says):
        ranker.learn(slate, [False] * POSITIONS, seen)
    assert ranker.save() == before


def believed(name: str, told: bool) -> np.ndarray:
    """Errors of the items' click rates after random slates of which half of the visitors see only the first two positions."""
    users, attraction = np.random.default_rng(3), np.linspace(0.2, 0.8, 6)
    ranker = rr.rankers.make(name, features=np.eye(6), positions=POSITIONS, rounds=6000, seed=1)
    own = ranker.rank()
    for _ in range(6000):
        slate = dataclasses.replace(own, items=users.permutation(6)[:POSITIONS])
        seen = np.arange(POSITIONS) < (2 if users.random() < 0.5 else POSITIONS)
        clicks = seen & (users.random(POSITIONS) < attraction[slate.items])
        ranker.learn(slate, clicks & (np.cumsum(clicks) <= 1), seen if told else None)
    return ranker.state.beliefs.clicks / ranker.state.beliefs.seen - attraction


@pytest.mark.parametrize("name", ["cascade-ucb1", "cascade-klucb"])
def test_a_page_that_is_cut_off_is_learned_without_bias(name):
    """Visitors who leave after the top would count against everything below, unless the ranker is told what was seen."""
    assert np.abs(believed(name, told=True)).max() < 0.05  # four standard errors of 1,500 observations
    assert believed(name, told=False).max() < -0.02
