"""The best candidates of a request, against a sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurrank._compiled import loop
from recurrank.rankers.engines.requests import Work, best


@loop
def best_of(score, count, size, order, work):
    best(score, count, size, order, work)


def found(score, size):
    order = np.zeros(size, np.int64)
    best_of(score, len(score), size, order, Work.of(len(score), size, 1, 1))
    return order.tolist()


def sort(score, size):
    return np.argsort(-score, kind="stable")[:size].tolist()


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), size=st.integers(1, 12), values=st.sampled_from([1, 2, 5, 1000]))
def test_the_best_are_those_of_a_stable_sort(seed, count, size, values):
    """With few different values most scores are tied; with one, all are."""
    score = np.random.default_rng(seed).integers(values, size=count).astype(float)
    size = min(size, count)
    assert found(score, size) == sort(score, size)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_orders_that_defeat_the_bar(size):
    """One heap has all of the best, or scores fall or rise throughout: many rows reach the bar, and are inserted."""
    one_heap = np.where(np.arange(400) % (2 * size) == 0, 1000.0, 0.0) + np.arange(400)
    for score in (np.arange(400.0), -np.arange(400.0), one_heap, one_heap[::-1].copy(), np.zeros(400)):
        assert found(score, size) == sort(score, size)
