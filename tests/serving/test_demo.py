"""The demonstration: what it says about its problems, and whether its ranker of requests can learn them."""

from __future__ import annotations

import numpy as np

import recurrank as rr
from recurrank.serving import demo_shop
from recurrank.serving.demo_shop import CANDIDATES, CONTEXT, FEATURES, KINDS, POSITIONS, Shop


def test_the_coefficients_of_the_shop_can_be_learned():
    """Intervals shrink with the number of slates; those of numbers that sum to another one would keep the prior's width."""
    shop, rng = Shop(), np.random.default_rng(0)
    names, rows = list(shop.items), shop.catalogue.features
    spec = shop.spec
    ranker = rr.Anchored(shop.catalogue, positions=spec.positions, rounds=spec.rounds, seed=0, **spec.options)
    for _ in range(4_000):
        kind = int(rng.integers(len(KINDS)))
        candidates = [names[i] for i in rng.permutation(len(names))[:CANDIDATES]]
        slate = ranker.rank(candidates=candidates, context=shop.context(kind), segment=KINDS[kind])
        attraction = demo_shop._attraction(rows[np.asarray(slate.items)], kind)
        ranker.learn(slate, rng.random(POSITIONS) < attraction * demo_shop._looked(kind))
    known = ranker.knowledge().coefficients
    assert len(known) == 1 + len(FEATURES) + len(CONTEXT) + len(FEATURES) * len(CONTEXT)
    assert max(one.high - one.low for one in known) < 0.7  # with a number for each kind: 1.0 or more, all of them
    tastes = np.array([one.value for one in known[1 : 1 + len(FEATURES)]])
    np.testing.assert_allclose(tastes, demo_shop.TASTES[0], atol=0.1)  # those of the kind that the context leaves out


def test_a_perfect_ranking_of_the_shop_gets_what_its_visitors_would_click():
    """Against slates sorted one visit at a time."""
    rng, clicks = np.random.default_rng(1), []
    for kind in np.arange(3_000) % len(KINDS):
        attraction = demo_shop._attraction(rng.random((CANDIDATES, len(FEATURES))), kind)
        clicks.append(sorted(attraction, reverse=True)[:POSITIONS] * demo_shop._looked(kind))
    np.testing.assert_allclose(Shop.truth(), np.mean(clicks, axis=0), atol=0.01)
