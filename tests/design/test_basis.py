"""Rows for a basis: chosen greedily, and the same whatever the last bits are."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.design import version_0_1_0
from recurrank.design.basis import basis_of, pivots


def greedy(rows, slack):
    """By the distance of every row from the span of those chosen, each found by least squares."""
    chosen: list[int] = []
    while len(chosen) < min(rows.shape):
        span = rows[chosen].T
        distance = [float(np.linalg.norm(x - span @ np.linalg.lstsq(span, x, rcond=None)[0])) for x in rows]
        if chosen and max(distance) <= slack:
            break
        chosen.append(next(i for i, far in enumerate(distance) if far >= max(distance) * (1 - 1e-9)))
    return chosen


@pytest.mark.parametrize("seed", range(12))
def test_each_row_sticks_out_furthest(seed):
    rng = np.random.default_rng(seed)
    count, dim, rank = int(rng.integers(1, 40)), int(rng.integers(1, 7)), int(rng.integers(1, 7))
    rows = rng.standard_normal((count, rank)) @ rng.standard_normal((rank, dim))
    if seed % 2:
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert pivots(rows, 1e-9).tolist() == greedy(rows, 1e-9)


def test_without_ties_it_is_what_a_pivoted_qr_chooses():
    rows = np.random.default_rng(3).standard_normal((200, 8))
    assert pivots(rows, 0.0).tolist() == version_0_1_0.pivots(rows, 0.0).tolist()


def test_the_rows_of_a_basis_are_its_unit_vectors():
    rows = np.random.default_rng(4).standard_normal((50, 3)) @ np.random.default_rng(5).standard_normal((3, 6))
    basis, chosen = basis_of(rows, np.ones(6), precise=True)
    assert basis.rank == 3
    coordinates = rows[chosen] @ basis.to_coordinates
    np.testing.assert_allclose(np.sort(coordinates, axis=1), np.repeat([[0.0, 0.0, 1.0]], 3, axis=0), atol=1e-9)
    np.testing.assert_allclose(rows @ basis.complement, 0, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_last_bits_do_not_choose_the_support_of_a_design(seed):
    """Items of one length, whose x x' are dependent: what processors round differently must not change what is explored."""
    features = rr.synthetic(items=3000, dim=5, seed=seed).features
    noise = np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], features.shape)
    here, there = rr.g_optimal(features), rr.g_optimal(features * (1 + 2.0**-52 * noise))
    assert here.support.tolist() == there.support.tolist()
    np.testing.assert_allclose(here.weights, there.weights, rtol=1e-6)
