"""The shared mathematics of optimistic rankers: KL bounds against bisection, and sorted insertion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive_rankers import kl_ucb, top

import recurrank as rr
from recurrank.rankers.engines.optimism import insert, kl_slope, kl_upper


@given(st.floats(0, 1), st.floats(1e-9, 30))
def test_kl_upper_is_what_bisection_finds(p, level):
    assert abs(kl_upper(p, level) - kl_ucb(p, level)) < 1e-9


@given(st.floats(0.01, 0.99), st.integers(1, 10**6), st.floats(0.1, 20), st.floats(0, 5))
def test_the_tangent_bounds_the_index_from_above(p, seen, f, more):
    q = kl_upper(p, f / seen)
    assert kl_upper(p, (f + more) / seen) <= q + more * kl_slope(p, q, seen) + 1e-9


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, np.inf]), min_size=1, max_size=30), st.integers(1, 8), st.randoms())
def test_insert_keeps_the_best_in_any_order(scores, size, order):
    best, score, count = np.zeros(size, np.int64), np.zeros(size), 0
    items = list(range(len(scores)))
    order.shuffle(items)
    for item in items:
        count = insert(best, score, count, item, scores[item])
    assert best[:count].tolist() == top(scores, size)


@pytest.mark.parametrize("name", ["cascade-klucb", "cascade-ucb1", "dcm-klucb", "pbm-ucb"])
def test_one_position_and_a_thousand_ties_come_to_an_end(name):
    """With K = 1 the best item often ties with hundreds while its bound is old: the search for it must still end."""
    attraction = np.full(1000, 0.01)
    attraction[::100] = 0.5
    features = np.ones((1000, 1))
    for seed in range(3):
        ranker = rr.rankers.make(name, features=features, positions=1, rounds=20_000, seed=seed)
        run = rr.simulate(ranker, rr.clicks.DocumentBased(attraction), rounds=20_000, seed=seed)
        assert run.regret[-1] < 0.49 * 20_000
