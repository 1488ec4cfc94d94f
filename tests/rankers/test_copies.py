"""Copies share their state until one of them changes it, and nobody can tell: run over every algorithm in the registry."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

import recurrank as rr
from recurrank.rankers.request_ranker import RequestRanker
from recurrank.rankers.restocking import Restocking
from recurrank.rankers.states import flatten

ROUNDS = 24


@pytest.fixture(params=rr.rankers.names("catalogue"))
def make(request, problem):
    def build():
        settings = {"features": problem.features, "positions": 4, "rounds": 2000, "seed": 3}
        return rr.rankers.make(request.param, **settings, told={"attraction": problem.attraction})

    return build


def arrays(ranker):
    return [part for _, part in flatten(ranker._state, ranker.from_catalogue)]


def played(ranker, seed, rounds=ROUNDS):
    """Everything that changes a ranker, round by round, and what it shows."""
    users, shown = np.random.default_rng(seed), []
    for t in range(rounds):
        slate = ranker.rank()
        shown.append(slate.items.tolist())
        if t % 5 == 3:
            ranker.drop(slate)
        elif t % 5 == 4:
            late = ranker.rank()
            ranker.learn(late, users.random(4) < 0.4, [True, True, False, False])
            ranker.learn(slate, users.random(4) < 0.4)
        else:
            ranker.learn(slate, users.random(4) < 0.4)
    return shown


def simulated(ranker, model, seed):
    rr.simulate(ranker, model, 200, seed=seed)
    return ranker.rank().items.tolist()


@pytest.mark.parametrize("order", ["source first", "copy first", "in turn"])
def test_either_goes_on_as_if_it_were_alone(make, order, position_model):
    source, alone, other = make(), make(), make()
    for ranker in (source, alone, other):
        played(ranker, 0)
    copy = source.copy()
    assert copy._state is source._state or isinstance(source, RequestRanker)  # whose room for a request is its own
    pairs = {"source": (source, alone, 1), "copy": (copy, other, 2)}
    turns = {"source first": ["source", "copy"], "copy first": ["copy", "source"], "in turn": 3 * ["copy", "source"]}[order]
    for turn, name in enumerate(turns):
        ranker, expected, seed = pairs[name]
        assert played(ranker, seed + 10 * turn, 8) == played(expected, seed + 10 * turn, 8)
        assert copy._state is not source._state
    for ranker, expected, seed in pairs.values():
        assert simulated(ranker, position_model, seed) == simulated(expected, position_model, seed)
        assert ranker.save() == expected.save()


def test_adopting_and_restocking_change_nobody_else(make):
    source, alone, other = make(), make(), make()
    for ranker in (source, alone, other):
        played(ranker, 0)
    copy = source.copy()
    source.adopt(copy.copy().rank())
    alone.adopt(other.copy().rank())
    third, still = source.copy(), alone.copy()
    if isinstance(source, Restocking):
        source.remove([1, 5])
        alone.remove([1, 5])
    assert played(source, 1) == played(alone, 1)
    assert played(copy, 2) == played(other, 2)
    assert source.save() == alone.save()
    assert played(third, 3) == played(still, 3)


def test_what_is_gone_leaves_its_arrays():
    ranker = rr.rankers.TopRank(np.eye(6), 2, 100, 0)
    before = arrays(ranker)
    copy = ranker.copy()
    first, second = ranker.copy(), copy.copy()
    del copy, first, second
    ranker.rank()
    assert all(a is b for a, b in zip(arrays(ranker), before, strict=True))


def test_a_copy_is_not_made_in_memory_that_others_use():
    ranker = rr.rankers.TopRank(np.eye(6), 2, 100, 0)
    lent = ranker.copy()
    again = ranker.copy(into=lent)  # the memory of ``lent`` is the ranker's own
    again.learn(again.rank(), [True, False])
    assert again._state is not ranker._state
    assert (ranker.served, int(ranker.state.clicks.sum())) == (0, 0)


def test_copies_are_pickled_with_their_state():
    ranker = rr.rankers.TopRank(np.eye(6), 2, 100, 0)
    copy = pickle.loads(pickle.dumps(ranker.copy()))
    assert copy.rank().items.tolist() == ranker.rank().items.tolist()


def test_copies_in_threads():
    """Each of many copies and the ranker itself start at the same moment, and play as they would alone."""
    ranker, alone = (rr.rankers.RankedBandits(np.eye(300), 4, 2000, 5) for _ in range(2))
    expected = [played(alone.copy(), seed) for seed in range(4)] + [played(alone, 4)]
    copies = [ranker.copy() for _ in range(4)]
    found, start = {}, threading.Barrier(5)

    def run(number, one):
        start.wait()
        found[number] = played(one, number)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate([*copies, ranker])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(5)] == expected
