"""Positions that were never on the screen teach nothing, whatever the ranker; a page cut off is learned without bias."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr

POSITIONS = 4
NAMES = [name for name in rr.rankers.names() if name != "oracle"]


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
    """Clicks over slates seen, of each item, where half of the visitors see only the first two of four positions."""
    users, attraction = np.random.default_rng(3), np.linspace(0.2, 0.8, 6)
    ranker = rr.rankers.make(name, features=np.eye(6), positions=POSITIONS, rounds=6000, seed=1)
    for _ in range(6000):
        slate = ranker.rank()
        seen = np.arange(POSITIONS) < (2 if users.random() < 0.5 else POSITIONS)
        clicks = seen & (users.random(POSITIONS) < attraction[slate.items])
        if name.startswith("cascade"):
            clicks &= np.cumsum(clicks) <= 1
        ranker.learn(slate, clicks, seen if told else None)
    beliefs = ranker.state.beliefs
    return beliefs.clicks / np.maximum(beliefs.seen, 1) - attraction


@pytest.mark.parametrize("name", ["cascade-ucb1", "cascade-klucb"])
def test_a_page_that_is_cut_off_is_learned_without_bias(name):
    """Items that stood low are believed to be worse than they are, unless the ranker is told what was seen."""
    assert np.abs(believed(name, told=True)).max() < 0.06  # four standard errors of some 1,100 observations
    assert believed(name, told=False).min() < -0.1
