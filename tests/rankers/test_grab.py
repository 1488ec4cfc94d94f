"""GRAB and PB-MHB: positions may be examined in any order, and nobody says in which."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from tests.naive import TWINS

import recurrank as rr
from recurrank.rankers.engines.optimism import kl_upper
from recurrank.rankers.grab import BLOCK, DERIVED
from recurrank.rankers.pb_mhb import FEW
from recurrank.seeds import stream


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


def answered_late(rounds, items=150, positions=5):
    """A ranker after some rounds, each answer up to ten rounds late."""
    ranker = rr.rankers.make("grab", features=np.eye(items), positions=positions, rounds=rounds, seed=0)
    rng, waiting = np.random.default_rng(1), []
    for _ in range(rounds):
        waiting.append(ranker.rank())
        if len(waiting) > 10:
            slate = waiting.pop(int(rng.integers(10)))
            ranker.learn(slate, rng.random(positions) < np.linspace(0.1, 0.8, items)[slate.items])
        yield ranker


def test_bounds_that_are_not_computed_are_below_them():
    """Those of the leader alone may be missing; some are in nearly all rounds, and what is kept of them is not far off."""
    missing = 0
    for ranker in answered_late(3000):
        state = ranker.state
        assert (state.bound[np.arange(150) != state.leader[:, None]] >= 0).all()
        for k, item in enumerate(state.leader):
            exact = 1.0
            if state.seen[k, item]:
                exact = kl_upper(state.clicks[k, item] / state.seen[k, item], state.level[0] / state.seen[k, item])
            kept = state.bound[k, item]
            assert kept == exact or state.value[k, item] - 1e-6 < -kept < exact + 1e-12
            missing += kept < 0
    assert missing > 3000


def test_blocks_have_the_largest_numbers_of_the_items_that_are_not_shown():
    for ranker in answered_late(1000):
        state = ranker.state
        for table, high in ((state.value, state.most), (state.bound, state.high)):
            others = np.where(state.place < 0, table, -1.0)
            blocks = [others[:, first : first + BLOCK].max(axis=1) for first in range(0, 150, BLOCK)]
            assert (blocks == high.T).all()
        assert (state.spare == np.where(state.place < 0, state.value, -1.0).argmax(axis=1)).all()


def test_the_same_slates_with_several_blocks():
    items, positions, rounds = 150, 4, 1500
    model = rr.clicks.PositionBased(np.linspace(0.05, 0.9, items), [1.0, 0.4, 0.7, 0.2])
    ranker = rr.rankers.make("grab", features=np.eye(items), positions=positions, rounds=rounds, seed=0)
    twin, users = TWINS["grab"](np.eye(items), positions, rounds, None), np.random.default_rng(3)
    for t in range(rounds):
        slate = ranker.rank()
        assert slate.items.tolist() == twin.rank(), f"round {t}"
        clicks = model.sample(slate, users)
        ranker.learn(slate, clicks)
        twin.learn(slate.items.tolist(), clicks.tolist())


def test_saved_states_do_not_depend_on_what_was_computed():
    *_, ranker = answered_late(500)
    other = rr.load(ranker.save(), ranker.catalogue)
    for _ in range(20):
        slate = ranker.rank()
        ranker.learn(slate, slate.items > 100)
        other.adopt(slate)
        other.learn(slate, slate.items > 100)
    missing = (other.state.bound < 0).sum(), (ranker.state.bound < 0).sum()
    assert missing[0] > missing[1] or missing[0] == 5  # who does not rank computes less
    (_, ours), (_, theirs) = ranker.pack(), other.pack()
    assert not set(DERIVED) & set(ours)
    for name in set(ours) - {"state.order"}:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.mark.parametrize(("items", "positions", "rounds"), [(8, 3, 400), (200, 10, 20)])
def test_pb_mhb_with_many_clicks_and_with_many_items(items, positions, rounds):
    """Decisions from products, and from logs where there are more clicks or misses than fit into one: those of its twin."""
    model = rr.clicks.PositionBased(np.linspace(0.05, 0.9, items), np.linspace(1, 0.3, positions))
    ranker = rr.rankers.make("pb-mhb", features=np.eye(items), positions=positions, rounds=rounds, seed=5)
    twin = TWINS["pb-mhb"](np.eye(items), positions, rounds, stream(5, "ranker"))
    users = np.random.default_rng(7)
    for t in range(rounds):
        slate = ranker.rank()
        assert slate.items.tolist() == twin.rank(), f"round {t}"
        clicks = model.sample(slate, users)
        ranker.learn(slate, clicks)
        twin.learn(slate.items.tolist(), clicks.tolist())
    assert (ranker.state.clicked.max() > FEW) == (items == 8)
