"""The rules of version 0.1.0, which depend on the processor's last bits: its rankers' logs must fold to the same states."""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Floats, Ints

BETWEEN_QR = 32
"""Points that are dropped before the null vectors are computed again: each costs them a little accuracy."""


def pivots(rows: Floats, slack: float) -> Ints:
    """:func:`recurrank.design.basis.pivots` by LAPACK's pivoted QR, where the last bits decide between equal lengths."""
    from scipy.linalg import qr

    triangle, order = qr(rows.T, mode="r", pivoting=True)
    chosen: Ints = order[: max(1, int((np.abs(np.diag(triangle)) > slack).sum()))]
    return chosen


def caratheodory(points: Floats, weights: Floats) -> Floats:
    """:func:`recurrank.design.steps.caratheodory` by null vectors of a QR, which are arbitrary if the x x' are dependent."""
    from scipy.linalg import qr

    weights = weights / weights.sum()
    rank = points.shape[1]
    most, upper = rank * (rank + 1) // 2, np.triu_indices(rank)
    held = np.flatnonzero(weights > 0)
    while len(held) > most:
        squares = points[held][:, upper[0]] * points[held][:, upper[1]]
        # The columns that a complete QR adds: one v per excess point, orthogonal to each other.
        null = qr(squares)[0][:, most:]
        for _ in range(min(null.shape[1], BETWEEN_QR)):
            v = null[:, 0] if null[:, 0].sum() <= 0 else -null[:, 0]
            falling = np.flatnonzero(v < 0)
            limits = weights[held[falling]] / -v[falling]
            gone = falling[np.argmin(limits)]
            weights[held] = np.maximum(weights[held] + limits.min() * v, 0.0)
            weights[held[gone]] = 0.0
            # The other v without the dropped point.
            null = np.delete(null[:, 1:] - np.outer(v, null[gone, 1:] / v[gone]), gone, axis=0)
            held = np.delete(held, gone)
        weights /= weights.sum()
    return weights
