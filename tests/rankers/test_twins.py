"""Every other algorithm against its literal twin, slate by slate, on many small problems and all click models."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import TWINS

import recurrank as rr
from recurrank.rankers import balanced
from recurrank.rankers.toprank import MIXED, SQUARE
from recurrank.seeds import stream

NAMES = sorted(TWINS)
CLICKS = rr.clicks.names()
CONFIGURATIONS = 20

LOOSE_AND_TIGHT = {
    "anchored": [{}, {"link": "logistic"}, {"intercept": False, "ridge": 0.5}, {"discount": 0.99}],
    "balanced": [{}, {"confidence": "proved"}, {"confidence": "proved", "delta": 1.0}],
    "bubblerank": [{"delta": 0.5}, {"initial": "falling"}, {"delta": 0.9, "initial": "falling"}, {}],
    "c3-ucb": [{}, {"delta": 0.9, "ridge": 0.5}, {"discounts": "falling"}],
    "cascade-ducb": [{}, {"discount": 0.93}, {"discount": 0.99, "exploration": 0.05}],
    "cascade-swucb": [{}, {"window": 40}, {"window": 9, "exploration": 0.1}, {"window": 2}],
    "cascade-klucb": [{}, {"exploration": 0.0}],
    "cascade-lints": [{}, {"scale": 0.1, "sigma": 0.5}],
    "cascade-linucb": [{}, {"width": 1.0}, {"width": 0.2}, {"width": 0.0}, {"width": 2.9, "sigma": 0.5}],
    "cascade-ucb-v": [{}, {"exploration": 0.2}, {"exploration": 0.0}],
    "cascade-woful": [{}, {"delta": 0.9, "width": 0.5}, {"width": 0.0}],
    "cascade-ucb1": [{}, {"exploration": 0.1}],
    "club-cascade": [{}, {"beta": 0.3}, {"ridge": 0.5, "beta": 1.0}],
    "dcm-klucb": [{}, {"exploration": 0.0}],
    "epsilon-greedy": [{}, {"epsilon": 0.0}, {"epsilon": 1.0}],
    "gl-cdcm": [{}, {"link": "identity"}, {"width": 0.1}],
    "grab": [{}, {"period": 2}, {"period": 1}],
    "linucb": [{}, {"alpha": 0.1}],
    "batchrank": [{}, {"exploration": 0.5}, {"exploration": 0.05}],
    "pb-mhb": [{}, {"scale": 1.0, "sweeps": 2}],
    "pbm-pie": [{}, {"epsilon": 0.5}, {"examination": "flat"}],
    "pie": [{}, {"exploration": 0.0}, {"explore_at": 1}],
    "pbm-ucb": [{}, {"epsilon": 0.5}, {"examination": "flat"}],
    "rank1-elim": [{"exploration": 0.05}, {"exploration": 0.2}, {}],
    "rank1-elim-kl": [{"exploration": 0.05}, {"exploration": 0.2}, {"exploration": 1.0}],
    "ranked-bandits": [
        {},
        {"inside": "klucb"},
        {"inside": "exp3"},
        {"inside": "exp3", "exploration": 1.0},
        {"exploration": 0.1},
    ],
    "vac2-ucb": [{}, {"delta": 0.9, "ridge": 0.5}],
    "ranked-zooming": [{"exploration": 0.05}, {"exploration": 0.02, "lipschitz": 2.0}, {}, {"exploration": 0.2}],
    "toprank": [{}, {"delta": 1.0}, {"delta": 0.5}, {"delta": 0.1}],
}


def test_every_other_algorithm_has_a_twin():
    assert {*NAMES, "recurrank"} == set(rr.rankers.names("catalogue"))


def setting(name, number):
    """A problem, a click model and options: L from 8 to 60, d from 2 to 6, K from 1 to 6, all click models, ties."""
    rng = np.random.default_rng([number, len(name)])
    items, dim = int(rng.integers(8, 61)), int(rng.integers(2, 7))
    if name == "anchored":
        dim = max(dim, 3)  # in two dimensions items point in two directions, and scores tie but for their last bits
    positions = int(rng.integers(1, min(7, items)))
    problem = rr.synthetic(items=items, dim=dim, seed=number)
    # Items of length 1 all have the same width at first: the last bits, which differ between processors, would decide.
    features = problem.features * np.random.default_rng(number).uniform(0.5, 1.0, (items, 1))
    problem = rr.Problem(features, problem.theta)
    if number % 5 == 4:  # repeated items: true ties everywhere
        features = features[rng.integers(0, items // 2, items)]
        problem = rr.Problem(features, problem.theta)
    attraction = problem.attraction * (0.3 if number % 3 == 2 else 1.0)
    model = rr.clicks.make(CLICKS[number % len(CLICKS)], attraction, positions)
    choices = LOOSE_AND_TIGHT.get(name, [{}])
    options = dict(choices[number % len(choices)])
    if options.get("discounts"):
        options["discounts"] = [0.9**k for k in range(positions)]
    if options.get("examination"):
        options["examination"] = [0.5] * positions
    if options.get("initial"):
        options["initial"] = [float(a % 7) for a in range(items)]
    if name == "oracle":
        options["attraction"] = attraction.tolist()
    return features, positions, model, options


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("square", [0, 12])
def test_toprank_with_few_pairs_in_a_square(number, square):
    """Large catalogues keep pairs in a table first, then in a square: forced here on small ones, with growing tables."""
    features, positions, model, options = setting("toprank", 4 * number + 1)
    ranker = rr.rankers.make("toprank", features=features, positions=positions, rounds=5000, seed=number, **options)
    ranker.state.counts[SQUARE] = square
    ranker.state = ranker.state._replace(pair=ranker.state.pair[:64].copy(), both=ranker.state.both[:64].copy())
    ranker.state = ranker.state._replace(start=ranker.state.start[:20].copy(), log=ranker.state.log[: len(features) + 1].copy())
    chance = stream(number, "ranker")
    assert_same_slates(ranker, TWINS["toprank"](features, positions, 5000, chance, **options), model, 5000, number)
    assert len(ranker.state.start) > 20  # tables did grow on the way


def test_toprank_meets_again():
    """Some of the configurations above get to several blocks on display, where items that had been parted meet."""
    mixed = 0
    for number in range(CONFIGURATIONS):
        features, positions, model, options = setting("toprank", number)
        ranker = rr.rankers.make("toprank", features=features, positions=positions, rounds=3000, seed=number, **options)
        rr.simulate(ranker, model, 3000, seed=number)
        mixed += int(ranker.state.counts[MIXED]) and int(ranker.state.level.max() >= 2)
    assert mixed >= 5


@pytest.mark.parametrize("number", range(CONFIGURATIONS))
@pytest.mark.parametrize("name", NAMES)
def test_same_slates(name, number):
    features, positions, model, options = setting(name, number)
    rounds = 120 if number % 4 else 400  # half as many again show no branch of a twin that these do not
    if name == "balanced":
        rounds = 200 if number % 4 else 600
    if name in ("anchored", "club-cascade", "pb-mhb", "ranked-zooming", "unirank"):
        rounds //= 2  # its twin takes long, and every branch is taken early
    if name in ("bubblerank", "rank1-elim", "rank1-elim-kl"):
        rounds *= 3
    if name in ("toprank", "batchrank"):
        rounds *= 10  # items must be parted, and meet again
    ranker = rr.rankers.make(name, features=features, positions=positions, rounds=rounds, seed=number, **options)
    chance = stream(number, "ranker")
    twin = TWINS[name](features, positions, rounds, chance, **options)
    assert_same_slates(ranker, twin, model, rounds, number)


@pytest.mark.parametrize("number", range(CONFIGURATIONS))
def test_balanced_with_large_blocks(number, monkeypatch):
    """What it does with thousands of items, on a few: blocks that are large, and become small on the way."""
    monkeypatch.setattr(balanced, "LARGE", 7)
    monkeypatch.setattr(balanced, "BETA", 2.0)
    features, positions, model, options = setting("balanced", number)
    ranker = rr.rankers.make("balanced", features=features, positions=positions, rounds=600, seed=number, **options)
    assert ranker.blocks[0].size > balanced.LARGE
    twin = TWINS["balanced"](features, positions, 600, stream(number, "ranker"), **options)
    assert_same_slates(ranker, twin, model, 600, number)


@pytest.mark.parametrize("clicks", ["cascade", "position-based", "document-based"])
def test_balanced_cuts(clicks, monkeypatch):
    """Certificates of fewer widths, so that blocks are soon cut and every data set has its own scale."""
    monkeypatch.setattr(balanced, "BETA", 1.5)
    features, positions, rounds = np.eye(9), 4, 2500
    model = rr.clicks.make(clicks, np.array([0.95, 0.7, 0.5, 0.3, 0.1, 0.05, 0.02, 0.02, 0.01]), positions)
    ranker = rr.rankers.make("balanced", features=features, positions=positions, rounds=rounds, seed=3)
    chance = stream(3, "ranker")
    assert_same_slates(ranker, TWINS["balanced"](features, positions, rounds, chance), model, rounds, 3)
    assert len(ranker.blocks) > 1


def assert_same_slates(ranker, twin, model, rounds, seed):
    users = np.random.default_rng(seed)
    for t in range(rounds):
        slate = ranker.rank()
        assert slate.items.tolist() == [int(a) for a in twin.rank()], f"round {t}"
        clicks = model.sample(slate, users)
        ranker.learn(slate, clicks)
        twin.learn(slate.items.tolist(), clicks.tolist())
