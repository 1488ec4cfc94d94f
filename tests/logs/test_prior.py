"""From a log to a warm start: what a fit says of the items of a catalogue."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.logs.sessions import Sessions

ITEMS, POSITIONS, PAGES = 12, 4, 20_000


@pytest.fixture(scope="module")
def logged():
    """Position-based clicks on random pages of ten of twelve items, one query."""
    rng = np.random.default_rng(0)
    attraction = np.linspace(0.1, 0.8, ITEMS)
    items = np.argsort(rng.random((PAGES, ITEMS - 2)), axis=1)[:, :POSITIONS].astype(np.int32)
    clicks = (rng.random(items.shape) < attraction[items] * np.array([0.9, 0.5, 0.3, 0.2])).astype(np.uint8)
    ids = [f"film-{n}" for n in range(ITEMS)]
    return attraction, rr.fit(Sessions(np.zeros(PAGES, np.int32), items, clicks, ["all"], ids), models="pbm")


def test_a_fit_becomes_what_is_clicked_at_the_first_position(logged):
    """Standard errors of a share of 2,000 views are at most 0.011; items that the log lacks say nothing."""
    attraction, fit = logged
    catalogue = rr.Catalogue(np.eye(ITEMS), [f"film-{n}" for n in range(ITEMS)])
    prior = fit.prior(catalogue, answers=500, query="all", model="pbm")
    np.testing.assert_allclose(prior.theta()[: ITEMS - 2], 0.9 * attraction[: ITEMS - 2], atol=0.05)
    assert prior.theta()[ITEMS - 2 :].tolist() == [0, 0]
    warm = rr.RecurRank(catalogue, positions=3, rounds=1000, seed=0, prior=prior)
    assert warm.rank().ids is not None
    assert warm.knowledge().leaders == [9, 8, 7]


def test_bad_input(logged):
    _, fit = logged
    with pytest.raises(ValueError, match="catalogue: none of its items is in the log"):
        fit.prior(rr.Catalogue(np.eye(3), ["a", "b", "c"]))
    with pytest.raises(ValueError, match="query: 'shoes' is not in the log"):
        fit.prior(rr.Catalogue(np.eye(3)), query="shoes")
