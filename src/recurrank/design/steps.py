"""Weights on a few points: Wolfe's and Atwood's steps, and Caratheodory's reduction of the support.

Q is the weighted sum of the points' x x', ``inverse`` is its inverse, r the points' dimension; a point's leverage is
x' Q^-1 x. ``optimal.py`` explains their use, Todd (2016), chapter 3, derives them.
"""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Floats
from recurrank.design.basis import EQUAL, pivots
from recurrank.design.basis import inverse as invert

BETWEEN_BASES = 32
"""Points that are dropped before a new basis is chosen: each costs the shares a little accuracy."""
DEPENDENT = 1e-9
"""An x x' nearer to the span of others than this share of its length counts as dependent."""


def levers(points: Floats, inverse: Floats) -> Floats:
    """The leverage of each point."""
    out: Floats = np.einsum("ij,ij->i", points @ inverse, points)
    return out


def solve(points: Floats, weights: Floats, tolerance: float) -> Floats:
    """Optimise the weights of the active points in place; returns Q^-1 in their coordinates."""
    rank = points.shape[1]
    if rank == 1:  # the longest row takes all
        weights[:] = 0.0
        longest = int(np.argmax(np.abs(points[:, 0])))
        weights[longest] = 1.0
        return np.array([[points[longest, 0] ** -2.0]])
    # Rank-one updates lose a digit or two in a few hundred steps; then Q^-1 is computed again.
    for _ in range(2000):
        inverse = invert((points.T * weights) @ points)
        if wolfe_atwood(points, weights, inverse, tolerance, 300):
            break
    return invert((points.T * weights) @ points)


def wolfe_atwood(points: Floats, weights: Floats, inverse: Floats, tolerance: float, steps: int) -> bool:
    """Up to ``steps`` Wolfe-Atwood steps from ``weights`` with Q^-1 = ``inverse``, both changed in place.

    True once every leverage is at most r (1 + tolerance) and every supporting one at least r (1 - tolerance).
    """
    rank = points.shape[1]
    lever = levers(points, inverse)
    for _ in range(steps):
        held = np.flatnonzero(weights)
        high, low = int(lever.argmax()), int(held[lever[held].argmin()])
        if lever[high] <= rank * (1 + tolerance) and lever[low] >= rank * (1 - tolerance):
            return True
        # The best step along e_j - pi: lambda = (g/r - 1) / (g - 1), g the leverage of j (Todd, section 3.2).
        if lever[high] - rank >= rank - lever[low]:
            j = high
            step = (lever[j] / rank - 1) / (lever[j] - 1)
        else:  # away from j, at most until its weight is 0
            j = low
            step = -weights[j] / (1 - weights[j])
            if lever[j] > 1:
                step = max(step, (lever[j] / rank - 1) / (lever[j] - 1))
        gone = step <= -weights[j] / (1 - weights[j])
        direction = inverse @ points[j]
        # Q+ = (1 - step) Q + step x x'; Sherman-Morrison for its inverse and for every leverage.
        ratio = step / (1 - step + step * lever[j])
        lever -= ratio * (points @ direction) ** 2
        lever /= 1 - step
        inverse -= ratio * np.outer(direction, direction)
        inverse /= 1 - step
        weights *= 1 - step
        weights[j] = 0.0 if gone else weights[j] + step
    return False


def caratheodory(points: Floats, weights: Floats) -> Floats:
    """The same weights, or fewer of them on at most r(r+1)/2 points with no larger leverage anywhere.

    More points than that have dependent x x': some v has sum v_i x_i x_i' = 0, and with the sign for which
    sum v_i <= 0, weights + t v keep Q while their sum falls, until one of them is 0. Scaled back to sum 1, Q grows.

    Each v writes one point's x x' in a basis of others'. Points of one length have sum v_i = 0 up to the last bits, and the
    x x' of transformed items are dependent. So the basis and the sign do not depend on bits that differ between processors.
    """
    weights = weights / weights.sum()
    rank = points.shape[1]
    upper = np.triu_indices(rank)
    held = np.flatnonzero(weights > 0)
    while len(held) > rank * (rank + 1) // 2:
        squares = points[held][:, upper[0]] * points[held][:, upper[1]]
        lengths = np.linalg.norm(squares, axis=1)
        squares /= lengths[:, None]
        base = pivots(squares, DEPENDENT)
        others = np.setdiff1d(np.arange(len(held)), base)[:BETWEEN_BASES]
        # x_i x_i' = sum_j c_ij x_j x_j' for i beside the basis and j in it, all of length 1
        share = np.linalg.lstsq(squares[base].T, squares[others].T, rcond=None)[0].T
        for i, other in enumerate(others):
            v = np.zeros(len(held))
            v[other], v[base] = -1.0, share[i]
            v /= lengths
            if v.sum() > EQUAL * np.abs(v).sum():
                v = -v
            falling = np.flatnonzero(v < 0)
            limits = weights[held[falling]] / -v[falling]
            gone = falling[np.argmin(limits)]
            weights[held] = np.maximum(weights[held] + limits.min() * v, 0.0)
            weights[held[gone]] = 0.0
            if gone != other:  # the other one replaces it in the basis
                j = int(np.flatnonzero(base == gone)[0])
                base[j], row = other, share[i] / share[i, j]
                row[j] = 1 - 1 / share[i, j]
                share[i + 1 :] -= np.outer(share[i + 1 :, j], row)
        weights /= weights.sum()
        held = np.flatnonzero(weights > 0)
    return weights
