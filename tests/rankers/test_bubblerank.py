"""BubbleRank: safe, starts from a given order, and lets others in through the last position."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr


def made(items=12, positions=4, **options):
    return rr.rankers.make("bubblerank", features=np.eye(items), positions=positions, rounds=4000, seed=0, **options)


def test_slates_are_one_exchange_of_neighbours_from_the_base_list():
    ranker, users = made(delta=0.5), np.random.default_rng(1)
    model = rr.clicks.PositionBased(np.linspace(0.1, 0.9, 12), [1.0, 0.7, 0.5, 0.4])
    changed = 0
    for t in range(3000):
        base = ranker.state.base.copy()
        slate = ranker.rank()
        for k, item in enumerate(slate.items):
            place = int(np.flatnonzero(base == item)[0])
            assert abs(place - k) <= 1 or (k == 3 and place >= 4)
        pairs = slice(t % 2, 4 - (4 - t % 2) % 2)
        assert sorted(slate.items[pairs]) == sorted(base[pairs])
        ranker.learn(slate, model.sample(slate, users))
        changed += int((ranker.state.base != base).any())
    assert changed > 10


def test_the_given_order_comes_first():
    assert made().knowledge().leaders == [0, 1, 2, 3]
    scores = np.arange(12.0)
    assert made(initial=scores).knowledge().leaders == [11, 10, 9, 8]
    prior = rr.Prior.of(np.eye(12), scores / 20)
    ranker = made(prior=prior)
    assert ranker.knowledge().leaders == [11, 10, 9, 8]
    assert rr.load(ranker.save(), np.eye(12)).knowledge().leaders == [11, 10, 9, 8]
    with pytest.raises(ValueError, match=r"^initial: there is a prior, too; give one of the two"):
        made(initial=scores, prior=prior)
    with pytest.raises(ValueError, match=r"^initial: shape is \(3,\)"):
        made(initial=[1, 2, 3])


def test_better_items_come_in_and_there_is_room_for_all():
    """Everything outside is better than what is inside: most come in on the way, and comparisons grow with them."""
    ranker = made(items=30, positions=2, delta=0.9)
    room = len(ranker.state.wins)
    rr.simulate(ranker, rr.clicks.PositionBased(np.linspace(0.05, 0.95, 30), [1.0, 0.8]), 20_000, seed=3)
    assert min(ranker.knowledge().leaders) >= 25
    assert len(ranker.state.wins) > room
    assert sorted(ranker.state.base) == list(range(30))
    assert (ranker.state.base[ranker.state.place] == np.arange(30)).all()
