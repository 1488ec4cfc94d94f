"""Volumetric spanners: cheaper to find than a G-optimal design, with less extreme items.

A set S of rows is a volumetric spanner of X when every x in X is ``sum_i alpha_i s_i`` with ``|alpha| <= 1``,
that is when ``x' (sum_{s in S} s s')^+ x <= 1``. The uniform distribution pi on S then has (the paper's Appendix B)

    x' Q(pi)^+ x  <=  |S|      for every x in X.

The randomised algorithm of Hazan and Karnin (2016): draw O(r log r) rows, half by leverage and half uniformly, keep
them, discard every row that the kept ones already span, repeat on the others. Each time discards a constant share, so
|S| = O(r log r log n) and the time is O(n r^2).

| paper | code |
|---|---|
| S | ``chosen`` |
| the rows not yet spanned | ``left`` |
| the alpha of smallest norm | its squared norm is the leverage under the kept rows' Gram matrix |
| D, ``max_x x' Q^+ x`` | ``value``, measured by a scan and checked against the size of S |
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, as_features
from recurrank.catalogue.rows import Rows, leverages, one_thread, without_zeros
from recurrank.design.basis import (
    START_ROWS,
    Basis,
    basis_of,
    by_length,
    enlarged,
    inverse,
    lens,
    rebase,
    root,
    start,
)
from recurrank.design.optimal import Design
from recurrank.seeds import stream


def volumetric_spanner(features: ArrayLike, seed: int | np.random.Generator = 0) -> Design:
    """A volumetric spanner of the rows of ``features``, as a uniform design on it.

    ``value`` is the exact largest leverage under that design, never above the size of the support.

    >>> spanner = volumetric_spanner(np.eye(3))
    >>> spanner.support.tolist(), round(spanner.value, 6)
    ([0, 1, 2], 3.0)
    """
    rng = stream(seed, "design")
    return spanner_design(Rows(as_features(features)), rng)


@one_thread()
def spanner_design(rows: Rows, rng: np.random.Generator) -> Design:
    """:func:`volumetric_spanner` for a view of a catalogue's rows; the support has indices of its rows."""
    basis = _spanning_basis(rows)
    draws = math.ceil(2 * basis.rank * (1 + math.log(basis.rank))) + 1
    left = np.arange(len(rows))
    chosen = np.empty(0, np.int64)
    while len(left):
        remaining = rows if len(left) == len(rows) else rows.part(left)
        if len(left) <= draws:
            chosen = np.union1d(chosen, left)
            break
        likely = _sampling(remaining, basis)
        chosen = np.union1d(chosen, left[rng.choice(len(left), draws, p=likely)])
        spanned = _spanned(remaining, rows.take(chosen), basis)
        left = left[~(spanned | np.isin(left, chosen))]

    weights = np.full(len(chosen), 1.0 / len(chosen))
    points = rows.take(chosen) @ basis.to_coordinates
    change, _ = rebase(points)
    points, basis = points @ change, basis.changed(change)
    value = float(rows.scan(lens(basis, inverse(points.T @ points / len(chosen))), 1).lever[0])
    if value > len(chosen) * (1 + 1e-6):  # Appendix B, checked on every call
        raise ArithmeticError(f"spanner of {len(chosen)} rows has a leverage of {value}: features too close to dependent")
    return Design(chosen, weights, value, basis.rank, 1)


def _spanning_basis(rows: Rows) -> Basis:
    """A basis of the span of all rows."""
    held, scales = rows.take(start(len(rows))), without_zeros(rows.scales())
    if not held.any():  # most rows are zero: begin with the longest
        held = rows.scan(by_length(scales), START_ROWS).rows
    basis, first = basis_of(held, scales, rows.precise)
    while basis.rank < rows.dim:
        outside = rows.scan(lens(basis, np.eye(basis.rank)), 1).outside_rows
        if not len(outside):
            break
        wider = np.concatenate([held[first], outside])
        basis, members = enlarged(basis, wider, rows.precise)
        if len(members):
            held, first = wider, members
    return basis


def _sampling(rows: Rows, basis: Basis) -> Floats:
    """p(x) = leverage(x) / 2r + 1 / 2n: constant factors in the leverages only change constants in |S|."""
    moments = np.zeros((basis.rank, basis.rank))
    for _, chunk in rows.chunks():
        points = chunk @ basis.to_coordinates
        moments += points.T @ points
    values, vectors = np.linalg.eigh(moments)
    held = values > values[-1] * 1e-12
    lever = leverages(rows, basis.to_coordinates @ (vectors[:, held] / np.sqrt(values[held])))
    likely: Floats = lever / (2 * lever.sum()) + 1 / (2 * len(rows))
    likely /= likely.sum()
    return likely


def _spanned(rows: Rows, chosen: Floats, basis: Basis) -> Bools:
    """Which rows are combinations of the chosen rows with |alpha| <= 1."""
    points = chosen @ basis.to_coordinates
    if np.linalg.matrix_rank(points / np.linalg.norm(points, axis=1, keepdims=True).clip(1e-300), tol=1e-9) < basis.rank:
        return np.zeros(len(rows), bool)
    change, _ = rebase(points)
    points = points @ change
    whitening: Floats = basis.to_coordinates @ change @ root(inverse(points.T @ points))
    spanned: Bools = leverages(rows, whitening) <= 1.0
    return spanned
