"""Theta from clicks at all positions, of which only those at the first are unbiased: scales, and the guard.

Every answer belongs to a stratum g (``Strata``), within which E[click] = s_g alpha(x) for one unknown scale s_g. V_g and b_g
are the moments of y = (o, f) and the sums of y times the click, both divided by the variances of the clicks, alpha(x) being
o + <f, theta> (o = 0, f = x where attraction is linear). Position 1 has s = 1: the *anchor* A. The others are two groups e,
without and with a click above.

    s_g   = (phi'b_g + p s_parent) / (phi'V_g phi + p),  phi = (1, theta), from the position's scale down to the stratum's
    S_e   = sum s_g^2 V_g,  r_e = sum s_g b_g - s_g^2 V_g o
    J_e   = S_e - sum s_g^2 V_g phi phi'V_g / (phi'V_g phi + 1), nothing left along theta: the scales profiled out
    D     = theta_A - theta_e;  f_e = 1 where D'(J_A^-1 + J_e^-1)^-1 D <= limit;
            else (the guard is on) the least f_e with D'(J_A^-1 + f_e J_e^-1)^-1 D <= d
    theta = (J_A + sum S_e / f_e)^-1 (b_A + sum r_e / f_e),  J = J_A + sum J_e / f_e,  J_A = ridge I + V_A
    check: where |theta - theta_A|^2 in J_A exceeds the limit, all f are raised until it does not

with limit = d + 3 sqrt(2 d), three standard deviations above the mean of chi-square, so that the guard is hardly ever on
without cause. Where it is on, the group's weight makes the two differ by as much as they do by chance on average.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import compiled
from recurrank.rankers.engines.solving import factor, solved

THIRDS = 3
PRIOR = (10.0, 20.0, 10.0, 40.0, 80.0)
"""How many units of information a scale's parent counts for: of a position, a segment, with or without a click above, the last
click's position, and the stratum."""
KNOWN = 1.0
"""Prior information on a scale where the scales are profiled out: small, or the guard would be on without cause."""
NEAR = 1e-3
"""The turns end when the next step is shorter than this, squared and in the metric J: far below the error of theta."""
RAISE, RAISES = 1.5, 80
"""The check multiplies f by RAISE, at most RAISES times."""


class Strata(NamedTuple):
    """How the strata of K positions nest, for ``segments`` segments; one label per stratum at each level."""

    position: Ints  # (G,)
    clicked: Ints  # (G,) 0 or 1: whether there is a click above
    levels: Ints  # (5, G) by position; and segment; and clicked; and the last click's position; and the third

    @staticmethod
    def of(positions: int, segments: int) -> Strata:
        k, last = np.array([(k, last) for k in range(positions) for last in range(-1, k)]).T
        shape = (segments, len(k), THIRDS)
        segment, cell, _ = (axis.ravel() for axis in np.indices(shape))
        k, clicked, last = k[cell], (last[cell] >= 0).astype(np.int64), last[cell] + 1
        by_segment = segment * positions + k
        levels = (k, by_segment, by_segment * 2 + clicked, segment * (shape[1]) + cell, np.arange(len(k)))
        return Strata(k, clicked, np.stack(levels))


def strata_per_segment(positions: int) -> int:
    """How many strata one segment has."""
    return THIRDS * positions * (positions + 1) // 2


class Estimate(NamedTuple):
    """Theta, its information and the scales, estimated from the answers."""

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
    """A new estimate, starting from the last theta and inflation."""
    count, size = sums.shape
    dim = len(theta)
    offset = size - dim  # 1 where y has an o
    first = strata.position == 0
    anchor_moments = _whole(moments[first].sum(0))
    anchor_information = ridge * np.eye(dim) + anchor_moments[offset:, offset:]
    anchor_sums = sums[first].sum(0)[offset:]
    if offset:
        anchor_sums = anchor_sums - anchor_moments[1:, 0]
    anchor = solved(anchor_information, anchor_sums)
    used = np.flatnonzero(~first & (moments[:, -1, -1] + moments[:, offset, offset] > 0))
    scales = np.ones(count)
    if not len(used):
        return Estimate(anchor, anchor_information, anchor, anchor_information, scales, np.ones(2))
    limit = dim + 3 * math.sqrt(2 * dim)
    f = inflation
    for turn in range(turns + 1):
        phi = np.concatenate([np.ones(offset), theta])
        s_e, r_e, j_e = profiled(moments, sums, used, strata.clicked, strata.levels, phi, offset, scales)
        # a step of Newton's method on theta, the scales following
        slope = anchor_information @ theta - anchor_sums + (1 / f) @ (s_e @ theta - r_e)
        step = solved(anchor_information + j_e[0] / f[0] + j_e[1] / f[1], slope)
        if turn == turns or slope @ step <= NEAR:
            break
        theta = theta - step
    f = np.array([_least_inflation(anchor, anchor_information, s_e[e], r_e[e], j_e[e], limit) for e in range(2)])
    theta, f = _checked(anchor, anchor_information, anchor_sums, s_e, r_e, f, limit)
    information = anchor_information + j_e[0] / f[0] + j_e[1] / f[1]
    return Estimate(theta, information, anchor, anchor_information, scales, f)


@compiled
def profiled(
    moments: Floats, sums: Floats, used: Ints, clicked: Ints, levels: Ints, phi: Floats, offset: int, scales: Floats
) -> tuple[Floats, Floats, Floats]:
    """S_e, r_e and J_e of both groups at the present theta; ``scales`` of the strata in use are filled in on the way."""
    size = len(phi)
    image, seen, number = np.zeros((len(used), size)), np.zeros(len(used)), np.zeros(len(used))
    for u in range(len(used)):
        v, b = moments[used[u]], sums[used[u]]
        for i in range(size):  # V_g phi, from the lower triangle
            total = v[i, i] * phi[i]
            for j in range(i):
                total += v[i, j] * phi[j]
                image[u, j] += v[i, j] * phi[i]
            image[u, i] += total
        for i in range(size):
            seen[u] += image[u, i] * phi[i]
            number[u] += b[i] * phi[i]
    _scales(number, seen, used, levels, scales)
    dim = size - offset
    s_e, r_e, j_e = np.zeros((2, dim, dim)), np.zeros((2, dim)), np.zeros((2, dim, dim))
    for u in range(len(used)):
        g = used[u]
        e, s = clicked[g], scales[g]
        lost = s * s / (seen[u] + KNOWN)
        for i in range(dim):
            o = moments[g, offset + i, 0] if offset else 0.0
            r_e[e, i] += s * sums[g, offset + i] - s * s * o
            for j in range(i + 1):
                v = s * s * moments[g, offset + i, offset + j]
                s_e[e, i, j] += v
                j_e[e, i, j] += v - lost * image[u, offset + i] * image[u, offset + j]
    for e in range(2):
        for i in range(dim):
            for j in range(i):
                s_e[e, j, i], j_e[e, j, i] = s_e[e, i, j], j_e[e, i, j]
        _without(j_e[e], phi[offset:])
    return s_e, r_e, j_e


@compiled
def _scales(clicked: Floats, seen: Floats, used: Ints, levels: Ints, scales: Floats) -> None:
    """The scale of every stratum in use: clicks over expected clicks, each level shrunk to the one above it."""
    for h in range(len(levels)):
        own, prior = levels[h], PRIOR[h]
        size = own.max() + 1
        number, total, centre = np.zeros(size), np.zeros(size), np.zeros(size)
        for u in range(len(used)):
            g = used[u]
            number[own[g]] += clicked[u]
            total[own[g]] += seen[u]
            centre[own[g]] = scales[g]  # of the level above, which is the same for all of them
        if h == 0:  # positions, from the top: the parent of each is the one above it
            centre[0] = 1.0
            for k in range(1, size):
                centre[k] = max(0.0, (number[k] + prior * centre[k - 1]) / (total[k] + prior))
        else:
            for i in range(size):
                centre[i] = max(0.0, (number[i] + prior * centre[i]) / (total[i] + prior))
        for u in range(len(used)):
            scales[used[u]] = centre[own[used[u]]]


def _whole(triangle: Floats) -> Floats:
    """The symmetric matrix whose lower triangle this is."""
    return triangle + np.tril(triangle, -1).T


@compiled
def _without(matrix: Floats, direction: Floats) -> None:
    """Remove from the matrix all that lies along the direction."""
    dim, along = len(direction), 0.0
    image = np.zeros(dim)
    for i in range(dim):
        for j in range(dim):
            image[i] += matrix[i, j] * direction[j]
        along += image[i] * direction[i]
    if along > 0:
        for i in range(dim):
            for j in range(dim):
                matrix[i, j] -= image[i] * image[j] / along


def _least_inflation(anchor: Floats, information: Floats, s: Floats, r: Floats, j: Floats, limit: float) -> float:
    """1 where D'(J_A^-1 + J_e^-1)^-1 D <= limit; else the least f with D'(J_A^-1 + f J_e^-1)^-1 D <= d.

    At f = 1 that is D'J_A D - D'J_A (J_A + J_e)^-1 J_A D. Where it exceeds the limit: with J_A = L L' and
    L^-1 J_e L^-T = Q diag(lambda) Q' it is sum_i q_i^2 lambda_i / (f + lambda_i), q = Q'L'D.
    """
    differ = anchor - solved(s + 1e-6 * np.eye(len(anchor)), r)
    image = information @ differ
    if differ @ image - image @ solved(information + j, image) <= limit:
        return 1.0
    root = factor(information)
    half = solved(root, solved(root, j).T)
    values, vectors = np.linalg.eigh((half + half.T) / 2)
    values = np.maximum(values, 0.0)
    squares = (vectors.T @ (root.T @ differ)) ** 2
    low, high = 0.0, 40.0
    for _ in range(30):
        middle = (low + high) / 2
        if (squares * values / (math.exp(middle) + values)).sum() > len(anchor):
            low = middle
        else:
            high = middle
    return math.exp(high)


def _checked(
    anchor: Floats, information: Floats, sums: Floats, s: Floats, r: Floats, f: Floats, limit: float
) -> tuple[Floats, Floats]:
    """Theta, and f raised until theta stays within the anchor's ellipsoid."""
    for _ in range(RAISES):
        theta = solved(information + s[0] / f[0] + s[1] / f[1], sums + (1 / f) @ r)
        apart = theta - anchor
        if apart @ information @ apart <= limit:
            return np.asarray(theta), f
        f = f * RAISE
    return anchor, f
