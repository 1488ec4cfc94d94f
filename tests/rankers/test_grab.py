"""GRAB and PB-MHB: positions may be examined in any order, and nobody says in which."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import recurrank as rr


@pytest.mark.parametrize(
    ("name", "examination", "best"), [("grab", [0.6, 0.2, 1.0], [4, 3, 5]), ("pb-mhb", [1.0, 0.2, 0.6], [5, 3, 4])]
)
def test_the_best_item_goes_where_people_look(name, examination, best):
    """After 20,000 rounds better items stand where people look more; PB-MHB takes it that they look at the first most."""
    attraction = np.array([0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
    model = rr.clicks.PositionBased(attraction, examination)
    ranker = rr.rankers.make(name, features=np.eye(6), positions=3, rounds=20_000, seed=0)
    rr.simulate(ranker, model, 20_000, seed=1)
    often = np.zeros((3, 6))
    users = np.random.default_rng(2)
    for _ in range(200):
        slate = ranker.rank()
        often[range(3), slate.items] += 1
        ranker.learn(slate, model.sample(slate, users))
    assert often.argmax(axis=1).tolist() == best


def test_the_leader_is_the_best_assignment_however_late_answers_come():
    ranker, rng = rr.rankers.make("grab", features=np.eye(15), positions=5, rounds=3000, seed=0), np.random.default_rng(0)
    waiting = []
    for _ in range(1500):
        waiting.append(ranker.rank())
        if len(waiting) > 10:
            slate = waiting.pop(int(rng.integers(10)))
            ranker.learn(slate, rng.random(5) < np.linspace(0.1, 0.8, 15)[slate.items])
        value, leader = ranker.state.value, ranker.state.leader
        best = linear_sum_assignment(value, maximize=True)[1]
        assert value[range(5), leader].sum() == pytest.approx(value[range(5), best].sum(), abs=1e-11)
        assert (ranker.state.place[leader] == range(5)).all()
        assert (ranker.state.place >= 0).sum() == 5
