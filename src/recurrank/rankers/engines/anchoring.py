"""Theta from clicks at all positions, of which only the first position's are sure: scales, and the guard.

Every answer belongs to a stratum g (``Strata``), within which E[click] = s_g alpha(x) for one unknown scale s_g. V_g and b_g
are the moments of y = (o, f) and the sums of y times the click, both divided by the variances of the clicks, alpha(x) being
o + <f, theta> (o = 0, f = x where attraction is linear). Position 1 has s = 1: the *anchor* A. The others are two groups e,
without and with a click above.

    s_g   = (phi'b_g + p s_parent) / (phi'V_g phi + p),  phi = (1, theta), from the position's scale down to the stratum's
    S_e   = sum s_g^2 V_g,  r_e = sum s_g b_g - s_g^2 V_g o
    J_e   = S_e - sum s_g^2 V_g phi phi'V_g / (phi'V_g phi + 1), nothing left along theta: the scales profiled out
    D     = theta_A - theta_e;  f_e >= 1 the least with D'(J_A^-1 + f_e J_e^-1)^-1 D <= limit
    theta = (J_A + sum S_e / f_e)^-1 (b_A + sum r_e / f_e),  J = J_A + sum J_e / f_e,  J_A = ridge I + V_A
    check: where |theta - theta_A|^2 in J_A exceeds the limit, all f are raised until it does not

with limit = d + 3 sqrt(2 d), three standard deviations above the mean of chi-square.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints

THIRDS = 3
PRIOR = (10.0, 20.0, 10.0, 40.0, 80.0)
"""How many units of information a scale's parent counts for: of a position, a segment, with or without a click above, the last
click's position, and the stratum."""
KNOWN = 1.0
"""What counts as known of a scale where the scales are profiled out: nearly nothing, or the guard is on for no reason."""
RAISE, RAISES = 1.5, 80
"""The check multiplies f by this, at most so often."""


class Strata(NamedTuple):
    """How the strata of K positions nest, for ``segments`` segments; one label per stratum at each level."""

    position: Ints  # (G,)
    clicked: Ints  # (G,) 0 or 1: whether there is a click above
    levels: tuple[Ints, ...]  # by position; and segment; and clicked; and the last click's position; and the third

    @staticmethod
    def of(positions: int, segments: int) -> Strata:
        k, last = np.array([(k, last) for k in range(positions) for last in range(-1, k)]).T
        shape = (segments, len(k), THIRDS)
        segment, cell, _ = (axis.ravel() for axis in np.indices(shape))
        k, clicked, last = k[cell], (last[cell] >= 0).astype(np.int64), last[cell] + 1
        by_segment = segment * positions + k
        levels = (k, by_segment, by_segment * 2 + clicked, segment * (shape[1]) + cell, np.arange(len(k)))
        return Strata(k, clicked, levels)


def strata_per_segment(positions: int) -> int:
    """How many strata one segment has."""
    return THIRDS * positions * (positions + 1) // 2


class Estimate(NamedTuple):
    """What the answers say."""

    theta: Floats  # (D,)
    information: Floats  # (D, D) J
    anchor: Floats  # (D,) theta_A
    anchor_information: Floats  # (D, D) J_A
    scales: Floats  # (G,)
    inflation: Floats  # (2,) f_e; 1 where the guard is off

    @staticmethod
    def none(dim: int, ridge: float, strata: int) -> Estimate:
        """Before any answer."""
        prior = ridge * np.eye(dim)
        return Estimate(np.zeros(dim), prior, np.zeros(dim), prior, np.ones(strata), np.ones(2))


def estimate(
    moments: Floats, sums: Floats, strata: Strata, theta: Floats, inflation: Floats, ridge: float, turns: int = 3
) -> Estimate:
    """Theta and all that belongs to it, starting from the last ones."""
    count, size = sums.shape
    dim = len(theta)
    offset = size - dim  # 1 where y has an o
    whole = moments + np.swapaxes(np.tril(moments, -1), 1, 2)
    first = strata.position == 0
    prior = ridge * np.eye(dim)
    anchor_moments = whole[first].sum(0)
    anchor_information = prior + anchor_moments[offset:, offset:]
    anchor_sums = sums[first].sum(0)[offset:]
    if offset:
        anchor_sums = anchor_sums - anchor_moments[1:, 0]
    anchor = np.linalg.solve(anchor_information, anchor_sums)
    used = np.flatnonzero(~first & (whole[:, -1, -1] + whole[:, offset, offset] > 0))
    scales = np.ones(count)
    if not len(used):
        return Estimate(anchor, anchor_information, anchor, anchor_information, scales, np.ones(2))
    flat, some = whole[used].reshape(len(used), -1), sums[used]
    groups = np.stack([strata.clicked[used] == 0, strata.clicked[used] == 1])
    limit = dim + 3 * math.sqrt(2 * dim)
    f = inflation
    for turn in range(turns + 1):
        phi = np.concatenate([np.ones(offset), theta])
        image = (flat.reshape(-1, size) @ phi).reshape(len(used), size)
        seen = image @ phi
        own = _scales(some @ phi, seen, used, strata)
        square = ((groups * own**2) @ flat).reshape(2, size, size)
        s_e, r_e = square[:, offset:, offset:], ((groups * own) @ some)[:, offset:]
        if offset:
            r_e = r_e - square[:, offset:, 0]
        lost = own**2 / (seen + KNOWN)
        part = image[:, offset:]
        j_e = np.stack([_without(s_e[e] - (part * (lost * groups[e])[:, None]).T @ part, theta) for e in range(2)])
        if turn < turns:  # a step of Newton's method on theta, the scales following
            slope = anchor_information @ theta - anchor_sums + (1 / f) @ (s_e @ theta - r_e)
            theta = theta - np.linalg.solve(anchor_information + np.tensordot(1 / f, j_e, 1), slope)
    scales[used] = own
    f = np.array([_least_inflation(anchor, anchor_information, s_e[e], r_e[e], j_e[e], limit) for e in range(2)])
    theta, f = _checked(anchor, anchor_information, anchor_sums, s_e, r_e, f, limit)
    information = anchor_information + np.tensordot(1 / f, j_e, 1)
    return Estimate(theta, information, anchor, anchor_information, scales, f)


def _scales(clicked: Floats, seen: Floats, used: Ints, strata: Strata) -> Floats:
    """The scale of every stratum in use: clicks over expected clicks, each level shrunk to the one above it."""
    parent = np.zeros(0)
    labels = strata.levels[0][used]
    for level, prior in zip(strata.levels, PRIOR, strict=True):
        own = level[used]
        size = int(level.max()) + 1
        number, total = np.bincount(own, clicked, size), np.bincount(own, seen, size)
        if not len(parent):  # positions, from the top: the parent of each is the one above it
            scale, above = np.ones(size), 1.0
            for k in range(1, size):
                scale[k] = above = max(0.0, (number[k] + prior * above) / (total[k] + prior))
        else:
            centre = np.zeros(size)
            centre[own] = parent[labels]
            scale = np.maximum(0.0, (number + prior * centre) / (total + prior))
        parent, labels = scale, own
    found: Floats = parent[labels]
    return found


def _without(matrix: Floats, direction: Floats) -> Floats:
    """The matrix with nothing left along the direction."""
    image = matrix @ direction
    along = float(direction @ image)
    return matrix - np.outer(image, image) / along if along > 0 else matrix


def _least_inflation(anchor: Floats, information: Floats, s: Floats, r: Floats, j: Floats, limit: float) -> float:
    """The least f >= 1 with D'(J_A^-1 + f J_e^-1)^-1 D <= limit.

    With J_A = L L' and L^-1 J_e L^-T = Q diag(lambda) Q' it is sum_i q_i^2 lambda_i / (f + lambda_i), q = Q'L'D.
    """
    dim = len(anchor)
    differ = anchor - np.linalg.solve(s + 1e-6 * np.eye(dim), r)
    root = np.linalg.cholesky(information)
    half = np.linalg.solve(root, np.linalg.solve(root, j).T)
    values, vectors = np.linalg.eigh((half + half.T) / 2)
    values = np.maximum(values, 0.0)
    squares = (vectors.T @ (root.T @ differ)) ** 2
    if (squares * values / (1 + values)).sum() <= limit:
        return 1.0
    low, high = 0.0, 40.0
    for _ in range(30):
        middle = (low + high) / 2
        if (squares * values / (math.exp(middle) + values)).sum() > limit:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _checked(
    anchor: Floats, information: Floats, sums: Floats, s: Floats, r: Floats, f: Floats, limit: float
) -> tuple[Floats, Floats]:
    """Theta, and f raised until theta stays within the anchor's ellipsoid."""
    for _ in range(RAISES):
        theta = np.linalg.solve(information + np.tensordot(1 / f, s, 1), sums + (1 / f) @ r)
        apart = theta - anchor
        if apart @ information @ apart <= limit:
            return np.asarray(theta), f
        f = f * RAISE
    return anchor, f
