"""Coordinates in which an optimal design has unit moments, and what becomes of data when they change.

With sum pi(x) x x' = I, attractions of at most 1 mean |theta|^2 = sum pi(x) <x, theta>^2 <= 1, and |x|^2 <= r (1 + tolerance).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Features, Floats, Ints
from recurrank.catalogue.rows import Rows
from recurrank.design.basis import Pivot, basis_of, pivots, rebase
from recurrank.design.optimal import optimal_design

TOLERANCE = 0.1
"""Of the design, relative."""
IN_SPAN = 1e-8
"""Of a row's length: what may be left of it beside the span of the others."""


class Coordinates(NamedTuple):
    """A linear map to coordinates, ``x @ map``, and back, for x in the span of the items that it was made for."""

    map: Floats  # (d, r)
    back: Floats  # (r, d)
    support: Ints  # the items of the design

    @staticmethod
    def of(features: Features, items: NDArray[np.integer] | None, scales: Floats, pivot: Pivot = pivots) -> Coordinates:
        """Made for these items, by default for all; ``scales`` are the largest values of each feature."""
        rows = Rows(features, items)
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

    def points(self, features: Features) -> Floats:
        """All items in coordinates."""
        rows = Rows(features)
        whole = np.empty((len(rows), self.map.shape[1]))
        for part, chunk in rows.chunks():
            whole[part] = chunk @ self.map
        return whole

    def reach(self, rows: Floats) -> bool:
        """Whether these rows are in the span."""
        left = rows - (rows @ self.map) @ self.back
        return bool((np.linalg.norm(left, axis=1) <= IN_SPAN * np.linalg.norm(rows, axis=1)).all())
