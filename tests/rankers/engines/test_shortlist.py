"""The rows that matter where several vectors may rank: those of a full sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recurrank.rankers.engines import shortlist
from recurrank.rankers.engines.pieces import PIECE

SIZE = 4


def literal(points, items, vectors):
    """The first of each full sort."""
    orders = (np.argsort(-(points[items] @ v[1:]), kind="stable") for v in vectors)
    return {int(items[row]) for order in orders for row in order[:SIZE]}


@given(
    seed=st.integers(0, 10**6), count=st.integers(SIZE, 40) | st.sampled_from([PIECE - 1, PIECE, 3 * PIECE + 1]),
    ties=st.booleans(), likely=st.integers(0, 30),
)  # fmt: skip
def test_leading_items_are_those_of_a_sort(seed, count, ties, likely):
    rng = np.random.default_rng(seed)
    points, vectors = rng.standard_normal((2 * count, 3)), rng.standard_normal((3, 4))
    if ties:  # whole numbers, whose sums are exact in any order
        points, vectors = points.round(), vectors.round()
        vectors[0] = 0.0
    items = np.sort(rng.choice(2 * count, count, replace=False))
    some = np.sort(rng.choice(items, min(likely, count), replace=False))
    found = shortlist.leading(points, items, vectors, SIZE, some)
    assert found.tolist() == sorted(literal(points, items, vectors))
