"""A log as a stream of requests: its queries in its order, with fitted attractions."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.logs.requests import requests_of

ITEMS, K = 6, 3


@pytest.fixture(scope="module")
def log():
    """Pages of two queries with three items each."""
    rng = np.random.default_rng(0)
    query = np.array([0, 1, 1, 0, 1] * 60, np.int32)
    items = (np.argsort(rng.random((300, K)), axis=1) + K * query[:, None]).astype(np.int32)
    clicks = (rng.random((300, K)) < np.array([0.6, 0.4, 0.2, 0.1, 0.5, 0.3])[items] / np.arange(1, K + 1)).astype(np.uint8)
    return rr.Sessions(query, items, clicks, ["a", "b"], [f"i{i}" for i in range(ITEMS)])


@pytest.fixture(scope="module")
def fitted(log):
    return rr.fit(log, "pbm", jobs=1).models()


@pytest.fixture
def shop():
    return rr.Catalogue(np.random.default_rng(1).random((ITEMS + 1, 2)), ids=[f"i{i}" for i in range(ITEMS + 1)])


def test_pages_come_as_requests(log, fitted, shop):
    world = requests_of(log, shop, fitted).world()
    assert world.order[:5].tolist() == [0, 1, 1, 0, 1]
    for number, query in enumerate("ab"):
        rows = slice(world.start[number], world.start[number] + world.size[number])
        places = [int(name[1:]) for name in fitted.item_ids[query]]
        np.testing.assert_array_equal(world.features[rows], shop.features[places])
        np.testing.assert_array_equal(world.attraction[rows], fitted["pbm"][query].attraction)
    run = rr.simulate(
        rr.Anchored(dim=2, positions=K, seed=0), clicks="position", requests=requests_of(log, shop, fitted), rounds=50
    )
    assert run.rounds[-1] == 50


def test_what_cannot_be_a_request(log, fitted, shop):
    with pytest.raises(ValueError, match=r"^catalogue: 'i5' of query 'b' has no features"):
        requests_of(log, rr.Catalogue(shop.features[:5], ids=list(shop.ids[:5])), fitted)
    with pytest.raises(ValueError, match=r"^catalogue: it has no ids"):
        requests_of(log, rr.Catalogue(shop.features), fitted)
    with pytest.raises(ValueError, match=r"^log: no pages"):
        requests_of(log.take(slice(0, 0)), shop, fitted)
    with pytest.raises(ValueError, match=r"^fitted: query 'b' has no model"):
        requests_of(log, shop, rr.fit(log.take(log.query == 0), "pbm", jobs=1).models())
