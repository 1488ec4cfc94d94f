"""Coordinates in which an optimal design has unit moments, and how data are kept when these change.

With sum pi(x) x x' = I, attractions of at most 1 mean |theta|^2 = sum pi(x) <x, theta>^2 <= 1, and |x|^2 <= r (1 + tolerance).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Features, Floats, Ints
from recurrank.catalogue.rows import Rows, without_zeros
from recurrank.design.basis import Pivot, basis_of, pivots, rebase
from recurrank.design.optimal import optimal_design

TOLERANCE = 0.1
"""Relative tolerance of the design."""
FAR = 4.0
"""An item may be this many times as long as the longest of the design."""
LONGEST = 1e6
"""Greatest length that data may get in coordinates that they are moved to."""
IN_SPAN, IN_SPAN_SINGLE = 1e-8, 1e-5
"""A row is in the span if at most this share of its length is outside; the other for features of single precision."""


class Coordinates(NamedTuple):
    """A linear map to coordinates, ``x @ map``, and back, for x in the span of the items that it was made for."""

    map: Floats  # (d, r)
    back: Floats  # (r, d)
    support: Ints  # the items of the design

    @staticmethod
    def of(
        features: Features, items: NDArray[np.integer] | None, scales: Floats, pivot: Pivot = pivots,
        precise: bool | None = None,
    ) -> Coordinates:  # fmt: skip
        """Coordinates for these items, None for all; ``scales`` are the largest values of each feature."""
        rows = Rows(features, items, precise=precise)
        design = optimal_design(rows, TOLERANCE, pivot)
        support = rows.take(design.support)
        basis, _ = basis_of(support, scales, rows.precise, pivot)
        change, _ = rebase(support @ basis.to_coordinates, pivot)
        map_ = basis.to_coordinates @ change
        points = support @ map_
        root = np.linalg.cholesky((points * design.weights[:, None]).T @ points)
        map_ = map_ @ np.linalg.inv(root).T
        back = np.linalg.lstsq(support @ map_, support, rcond=None)[0]
        chosen = design.support if items is None else items[design.support].astype(np.int64)
        return Coordinates(map_, np.asarray(back, np.float64), chosen)

    def after(self, features: Features, alive: Ints, same: Ints, precise: bool = True) -> Coordinates:
        """Coordinates for other items: the rows ``alive``, of which the rows ``same`` are unchanged.

        They stay while the items of the design are unchanged and all others are within reach. New ones must be able to hold
        all that was learned, unless an item is outside the span of all others: then theta has more coordinates.
        """
        rows, share = np.asarray(features[alive], np.float64), IN_SPAN if precise else IN_SPAN_SINGLE
        reached = self.reach(rows, share)
        if reached and np.isin(self.support, same).all():
            return self
        new = Coordinates.of(features, alive, without_zeros(np.abs(rows).max(axis=0)), precise=precise)
        return self if reached and not new.takes(self, share) else new

    def takes(self, other: Coordinates, share: float = IN_SPAN) -> bool:
        """Whether data in other coordinates can be moved to these: their span is in this one, and not too far from it."""
        with np.errstate(over="ignore", invalid="ignore"):
            longest = np.abs(other.back @ self.map).max()
        return bool(longest <= LONGEST) and self.span(other.back, share)

    def points(self, features: Features) -> Floats:
        """All items in these coordinates."""
        rows = Rows(features)
        whole = np.empty((len(rows), self.map.shape[1]))
        for part, chunk in rows.chunks():
            whole[part] = chunk @ self.map
        return whole

    def span(self, rows: Floats, share: float = IN_SPAN) -> bool:
        """Whether these rows are in the span, but for this share of their length."""
        rows = rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        left = rows - (rows @ self.map) @ self.back
        return bool((np.linalg.norm(left, axis=1) <= share * np.linalg.norm(rows, axis=1)).all())

    def reach(self, rows: Floats, share: float = IN_SPAN) -> bool:
        """Whether these rows are in the span, and not far longer than those of the design."""
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.abs(rows @ self.map).max(axis=1) <= FAR * np.sqrt(self.map.shape[1])
        return bool(near.all()) and self.span(rows, share)
