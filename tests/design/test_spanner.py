"""Volumetric spanners: every row is spanned, and the bound of Appendix B holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.design.test_optimal import shapes

import recurrank as rr


def norms(features, support, rcond=1e-11):
    """The smallest |alpha| with x = sum_i alpha_i s_i, for every row x, by least squares."""
    alpha, *_ = np.linalg.lstsq(features[support].T, features.T, rcond=rcond)
    residual = np.abs(features[support].T @ alpha - features.T).max()
    return np.linalg.norm(alpha, axis=0), residual


@pytest.mark.parametrize("name", [n for n in shapes() if not {"far", "further", "scales", "falling"} & set(n.split())])
def test_spans_every_row(name):
    features = np.asarray(shapes()[name][0], dtype=np.float64)
    spanner = rr.volumetric_spanner(shapes()[name][0])
    rough = "float32" in name  # then the span is only known to six digits
    size, residual = norms(features, spanner.support, 1e-5 if rough else 1e-11)
    assert residual < 1e-5 * np.abs(features).max()
    assert size.max() <= 1 + (1e-4 if rough else 1e-6)
    assert spanner.rank == shapes()[name][1]
    assert spanner.value <= len(spanner.support) * (1 + 1e-9)  # Appendix B
    assert np.allclose(spanner.weights, 1 / len(spanner.support))


@pytest.mark.parametrize("name", ["one far from all others", "columns of different scales", "one far and off the span"])
def test_hard_scales(name):
    features, rank = shapes()[name]
    spanner = rr.volumetric_spanner(features)
    assert spanner.rank == rank
    assert rank <= spanner.value <= len(spanner.support) * (1 + 1e-6)


@given(st.integers(0, 10**6), st.integers(1, 400), st.integers(1, 6))
def test_size_is_of_the_order_that_was_promised(seed, items, dim):
    features = np.random.default_rng(seed).standard_normal((items, dim))
    spanner = rr.volumetric_spanner(features, seed=seed)
    rank = min(items, dim)
    assert len(spanner.support) <= 2 * rank * (1 + math.log(rank) + 1) * (1 + math.log2(items)) + 2
    assert norms(features, spanner.support)[0].max() <= 1 + 1e-6


def test_same_seed_same_spanner_and_other_seeds_differ():
    features = np.random.default_rng(0).standard_normal((1000, 4))
    a, b, c = (rr.volumetric_spanner(features, seed=s).support.tolist() for s in (1, 1, 2))
    assert a == b != c
