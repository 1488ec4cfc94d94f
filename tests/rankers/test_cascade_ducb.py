"""CascadeDUCB and CascadeSWUCB: what was learned fades."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import TWINS

import recurrank as rr
from recurrank.rankers.cascade_ducb import LARGE, UNIT


def test_units_shrink_without_changing_a_choice():
    """With a discount of 0.9 the unit passes its limit after some 2,600 rounds."""
    model, users = rr.clicks.Cascade(np.linspace(0.1, 0.6, 8)), np.random.default_rng(0)
    ranker = rr.rankers.make("cascade-ducb", features=np.eye(8), positions=2, rounds=3000, seed=0, discount=0.9)
    twin = TWINS["cascade-ducb"](np.eye(8), 2, 3000, None, discount=0.9)
    for t in range(3000):
        slate = ranker.rank()
        assert slate.items.tolist() == twin.rank(), t
        clicks = model.sample(slate, users)
        ranker.learn(slate, clicks)
        twin.learn(slate.items.tolist(), clicks.tolist())
    assert 0.9**-3000 > LARGE > ranker.state.numbers[UNIT]


@pytest.mark.parametrize(
    ("name", "options"), [("cascade-ducb", {"discount": 0.9995, "exploration": 0.1}), ("cascade-swucb", {"window": 2000})]
)
def test_a_change_of_tastes_is_noticed(name, options):
    """The worst item becomes the best: in the next 20,000 rounds it loses half of what one that never forgets does."""
    before = np.array([0.05, *[0.2] * 7, 0.3, 0.3])
    after = np.array([0.8, *[0.2] * 7, 0.3, 0.3])
    lost = {}
    for kind, given in ((name, options), ("cascade-klucb", {})):
        ranker = rr.rankers.make(kind, features=np.eye(10), positions=2, rounds=320_000, seed=0, **given)
        rr.simulate(ranker, rr.clicks.Cascade(before), 300_000, seed=1)
        lost[kind] = rr.simulate(ranker, rr.clicks.Cascade(after), 20_000, seed=2).regret[-1]
    assert lost[name] < lost["cascade-klucb"] / 2


def test_a_window_holds_what_is_in_it():
    ranker = rr.rankers.make("cascade-swucb", features=np.eye(6), positions=3, rounds=1000, seed=0, window=11)
    rng, past = np.random.default_rng(3), []
    for _ in range(100):
        slate = ranker.rank()
        clicks = rng.random(3) < 0.3
        ranker.learn(slate, clicks)
        end = int(np.argmax(clicks)) + 1 if clicks.any() else 3
        past.append((slate.items[:end], clicks.any()))
        seen = np.concatenate([items for items, _ in past[-10:]])
        assert (ranker.state.beliefs.seen == np.bincount(seen, minlength=6)).all()
        assert ranker.state.beliefs.clicks.sum() == sum(clicked for _, clicked in past[-10:])
