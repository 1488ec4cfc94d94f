"""A basis of a catalogue's span made of its own rows, in which leverages are computed.

Leverages do not change under an invertible change of coordinates. The one chosen here avoids rounding errors: r
independent rows become the unit vectors. Then neither the scale of the features (1e-6 or 1e6, or both in one matrix) nor
one row far from all others costs accuracy, and rows outside the span show by their distance from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank.catalogue.scan import Lens
from recurrank.design import version_0_1_0

Pivot = Callable[[Floats, float], Ints]
"""A function that chooses rows for a basis: see :func:`pivots`."""
START_ROWS = 2000
"""Rows drawn to start from: enough to span, and to include some extremes."""
EQUAL = 1e-9
"""Lengths that differ by less than this share count as equal: they are sums of rounded numbers."""
LARGEST_COORDINATE = 8.0
"""Coordinates beyond this lead to a new basis, in which a row far from all others is a unit vector and costs no accuracy."""


class Basis(NamedTuple):
    """r independent rows as a coordinate system: ``x = (x @ to_coordinates) @ chosen rows`` for x in their span."""

    to_coordinates: Floats  # (d, r)
    complement: Floats  # (d, d - r): directions outside the span, orthonormal after the scales are divided out
    scales: Floats  # (d,) column scales, divided out before lengths are compared
    slack: float  # distances from the span, relative to a row's length, up to this are rounding

    @property
    def rank(self) -> int:
        return int(self.to_coordinates.shape[1])

    def changed(self, change: Floats) -> Basis:
        """The same span in other coordinates."""
        return self._replace(to_coordinates=self.to_coordinates @ change)


def start(count: int, most: int = START_ROWS) -> Ints:
    """Indices of the rows to begin with: a fixed pseudo-random choice, or all rows if they are few."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.random.default_rng(0).integers(count, size=most))  # fewer if some were drawn twice


def pivots(rows: Floats, slack: float) -> Ints:
    """One after the other, the row furthest from the span of those before, while that is further than ``slack``.

    A pivoted QR makes the same choices, but between rows at equal distances, as rows of length 1 are at first, its last bits
    decide, which differ between processors. Here the first row is taken.
    """
    rest = rows.copy()
    chosen: list[int] = []
    directions = np.zeros((0, rows.shape[1]))
    while len(chosen) < min(rows.shape):
        lengths = np.sqrt(np.einsum("ij,ij->i", rest, rest))
        if lengths.max() <= slack and chosen:
            break
        chosen.append(int(np.argmax(lengths >= lengths.max() * (1 - EQUAL))))
        direction = rest[chosen[-1]] - (directions @ rest[chosen[-1]]) @ directions  # exactly orthogonal to those before
        direction /= np.linalg.norm(direction) or 1.0
        directions = np.vstack([directions, direction])
        rest -= np.outer(rest @ direction, direction)
        rest[chosen] = 0.0
    return np.array(chosen, dtype=np.int64)


def pivots_by(rules: int) -> Pivot:
    """The pivots in this version of the rankers' rules."""
    return version_0_1_0.pivots if rules == 1 else pivots


def basis_of(rows: Floats, scales: Floats, precise: bool, pivot: Pivot = pivots) -> tuple[Basis, Ints]:
    """A basis of the rows' span, and the indices of the rows in it; ``precise`` if they have the precision of float64."""
    slack = 1e-9 if precise else 3e-6
    scaled = rows / scales
    lengths = np.linalg.norm(scaled, axis=1)
    unit = scaled / np.where(lengths > 0, lengths, 1.0)[:, None]
    first = pivot(unit, slack)
    rank = len(first)
    q, r = np.linalg.qr(scaled[first].T, mode="complete")
    coordinates = np.linalg.solve(r[:rank], q[:, :rank].T).T
    return Basis(coordinates / scales[:, None], q[:, rank:] / scales[:, None], scales, slack), np.sort(first)


def rebase(points: Floats, pivot: Pivot = pivots) -> tuple[Floats, Ints]:
    """A change of coordinates that makes r of the points, chosen greedily for volume, the unit vectors; and their indices."""
    chosen = pivot(points, 0.0)
    return inverse(points[chosen]), chosen


def enlarged(basis: Basis, rows: Floats, precise: bool, pivot: Pivot = pivots) -> tuple[Basis, Ints]:
    """A basis of the rows' larger span; if the span did not grow, the old basis with a larger rounding tolerance."""
    larger, first = basis_of(rows, basis.scales, precise, pivot)
    if larger.rank > basis.rank:
        return larger, first
    return basis._replace(slack=4 * basis.slack), first[:0]


def inverse(matrix: Floats) -> Floats:
    """The inverse of a matrix."""
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def root(matrix: Floats) -> Floats:
    """F with F F' = matrix, for a positive definite matrix that rounding has made slightly asymmetric."""
    return np.asarray(np.linalg.cholesky((matrix + matrix.T) / 2), dtype=np.float64)


def by_length(scales: Floats) -> Lens:
    """A lens that computes the lengths of rows, with columns scaled to 1, instead of leverages."""
    return Lens(np.diag(1 / scales), np.empty((len(scales), 0)), scales, np.inf)


def lens(basis: Basis, precision: Floats) -> Lens:
    """A lens that computes leverages under Q^-1 = precision, and finds rows outside the basis's span."""
    return Lens(basis.to_coordinates @ root(precision), basis.complement, basis.scales, basis.slack)
