"""The rows that matter where several vectors may rank: those of a full sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurrank.rankers.engines import shortlist


@given(seed=st.integers(0, 10**6), count=st.integers(5, 40), ties=st.booleans())
def test_leading_rows_are_those_of_a_sort(seed, count, ties):
    rng = np.random.default_rng(seed)
    points, vectors = rng.standard_normal((count, 3)), rng.standard_normal((3, 4))
    if ties:
        points, vectors[0] = points.round(), 0.0
    expected = {int(row) for v in vectors for row in np.argsort(-(points @ v[1:]), kind="stable")[:4]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shortlist, "PIECE", 7)
        patch.setattr(shortlist, "RUN", 3)
        found = shortlist.leading(points, vectors, 4)
    assert set(found.tolist()) == expected or ties  # products of equal rows may round apart in a sum of another order
    if ties:
        scores = points @ vectors[:, 1:].T
        for v in range(3):
            best = np.sort(scores[:, v])[::-1][:4]
            np.testing.assert_allclose(np.sort(scores[found, v])[::-1][:4], best)
