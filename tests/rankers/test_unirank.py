"""UniRank: its leader, however late answers come, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import TWINS

import recurrank as rr
from recurrank.rankers.unirank import SETS


@pytest.mark.parametrize("clicks", ["position-based", "cascade"])
def test_it_finds_the_order(clicks):
    """After 30,000 rounds the first two sets are the two best items, in order, under both click models."""
    attraction = np.array([0.05, 0.6, 0.1, 0.4, 0.08, 0.02])
    model = rr.clicks.make(clicks, attraction, 2)
    ranker = rr.rankers.make("unirank", features=np.eye(6), positions=2, rounds=30_000, seed=0)
    rr.simulate(ranker, model, 30_000, seed=1)
    assert ranker.state.counts[SETS] == 2
    assert ranker.knowledge().leaders == [1, 3]


def test_the_leader_is_right_however_late_answers_come():
    """The twin's search for closed sets, on the ranker's own comparisons."""
    ranker, rng, eras = (
        rr.rankers.make("unirank", features=np.eye(12), positions=4, rounds=3000, seed=0),
        np.random.default_rng(0),
        0,
    )
    twin = TWINS["unirank"](np.eye(12), 4, 3000, rng)
    waiting = []
    for _ in range(1200):
        waiting.append(ranker.rank())
        if len(waiting) > 6:
            slate = waiting.pop(int(rng.integers(6)))
            ranker.learn(slate, rng.random(4) < np.linspace(0.1, 0.7, 12)[slate.items])
        state = ranker.state
        for item in np.flatnonzero(state.row >= 0):
            twin.w[item] = state.wins[state.row[item]]
        sets, outside = twin.leader()
        assert state.cuts[: state.counts[SETS]].tolist() == np.cumsum([len(one) for one in sets]).tolist()
        assert state.order.tolist() == [item for one in [*sets, outside] for item in one]
        eras += len(sets) > 1
        for item in np.flatnonzero(state.row >= 0):
            assert state.wins[state.row[item]].max() <= state.clicks[item]
    assert eras > 100


def test_too_many_items_are_one_line():
    with pytest.raises(ValueError, match=r"features: 10,001 items; unirank keeps every pair of them, give at most 10,000"):
        rr.rankers.make("unirank", features=np.ones((10_001, 1)), positions=2, rounds=10)
