"""What version 0.1.0 left to the last bits, which differ between processors: its rankers' logs must fold to the same states."""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Floats, Ints

BETWEEN_QR = 32
"""Points that are dropped before the null vectors are computed anew: each dropped one costs them a little accuracy."""


def pivots(rows: Floats, slack: float) -> Ints:
    """:func:`recurrank.design.basis.pivots` by LAPACK's pivoted QR: the last bits decide between equal lengths."""
    from scipy.linalg import qr

    triangle, order = qr(rows.T, mode="r", pivoting=True)
    chosen: Ints = order[: max(1, int((np.abs(np.diag(triangle)) > slack).sum()))]
    return chosen


def caratheodory(points: Floats, weights: Floats) -> Floats:
    """:func:`recurrank.design.steps.caratheodory` by null vectors of a QR, whose directions are rounding where x x' depend."""
    from scipy.linalg import qr

    weights = weights / weights.sum()
    rank = points.shape[1]
    most, upper = rank * (rank + 1) // 2, np.triu_indices(rank)
    held = np.flatnonzero(weights > 0)
    while len(held) > most:
        squares = points[held][:, upper[0]] * points[held][:, upper[1]]
        # What a complete QR has beyond the columns: as many v, orthogonal to each other, as there are points too many.
        null = qr(squares)[0][:, most:]
        for _ in range(min(null.shape[1], BETWEEN_QR)):
            v = null[:, 0] if null[:, 0].sum() <= 0 else -null[:, 0]
            falling = np.flatnonzero(v < 0)
            limits = weights[held[falling]] / -v[falling]
            gone = falling[np.argmin(limits)]
            weights[held] = np.maximum(weights[held] + limits.min() * v, 0.0)
            weights[held[gone]] = 0.0
            # The other v without the point that is gone.
            null = np.delete(null[:, 1:] - np.outer(v, null[gone, 1:] / v[gone]), gone, axis=0)
            held = np.delete(held, gone)
        weights /= weights.sum()
    return weights
