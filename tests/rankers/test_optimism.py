"""The shared mathematics of optimistic rankers: KL bounds against bisection, and sorted insertion."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.naive_rankers import kl_ucb, top

from recurrank.rankers.optimism import insert, kl_slope, kl_upper


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
