"""G-optimal design by Frank-Wolfe with away steps on an active set.

The problem (the paper's equation (gopt); Kiefer and Wolfowitz 1960): find weights pi on the rows x of X with

    max_x  x' Q(pi)^+ x  =  r,      Q(pi) = sum_x pi(x) x x',      r = rank X,

which is also the D-optimal design (it maximises log det Q). The method is Wolfe's and Atwood's (Todd 2016,
*Minimum-Volume Ellipsoids*, chapter 3): move weight towards the row of largest leverage, or away from the
supporting row of smallest leverage, whichever is further from r, by the exact best step.

| paper        | code                                                            |
|--------------|-----------------------------------------------------------------|
| x, X         | a row, ``rows``; ``points`` are active rows in the basis below  |
| pi           | ``weights``                                                     |
| Q(pi)^+      | ``inverse``, in the basis                                       |
| x' Q^+ x     | leverage, ``lever``                                             |
| d            | r, the rank of the rows (deviations.md, "rank for dimension")   |

What makes it fast is what it does not read. Only a few thousand *active* rows take part in the iterations. A
full scan of the catalogue finds the violators and certifies the end; after one, most rows never have to be read
again, because leverages cannot grow by more than the factor

    rho = lambda_max(Q_scan Q_now^-1),      so      x' Q_now^+ x  <=  rho * x' Q_scan^+ x,

and a row whose bound stays below the largest leverage already known can hold no violator. The value that is
returned is still the exact maximum over all rows.

All of it happens in a basis made of r of the rows themselves (``basis.py``), so that neither the scale of the
features nor a row far from all others costs accuracy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_features, as_number
from recurrank.design.basis import LARGEST_COORDINATE, Scan, basis_of, enlarged, rebase, root, scales_of, scan, start
from recurrank.design.basis import inverse as invert
from recurrank.design.scan import Rows

MOST_VIOLATORS = 1500
"""Violators added after a scan: iterations cost time in proportion to the active rows."""
SMALLEST_TOLERANCE = 1e-6


class Design(NamedTuple):
    """Where to explore: ``weights`` on the rows ``support`` of a feature matrix.

    ``value`` is the exact largest leverage of any row under these weights (at least ``rank``); ``scans`` is how
    many times the whole matrix was read to find that out.
    """

    support: Ints
    weights: Floats
    value: float
    rank: int
    scans: int


def g_optimal(features: ArrayLike, tolerance: float = 0.05) -> Design:
    """A design on the rows of ``features`` whose largest leverage is at most ``rank * (1 + tolerance)``.

    The support has at most ``rank * (rank + 1) / 2`` rows and the weights sum to 1. The answer is a function of the
    features alone (no randomness that a caller could see). Features may be a memory map; they are read in chunks.

    Raises ValueError for features that are ragged, empty, not finite or all zero.

    >>> design = g_optimal([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> design.support.tolist(), design.weights.tolist(), round(design.value, 6)
    ([0, 1], [0.5, 0.5], 2.0)
    """
    if not SMALLEST_TOLERANCE <= as_number("tolerance", tolerance) < np.inf:
        raise ValueError(f"tolerance: {tolerance} is not a number of at least {SMALLEST_TOLERANCE}; give for example 0.05")
    return optimal_design(Rows(as_features(features)), tolerance)


def optimal_design(rows: Rows, tolerance: float) -> Design:
    """:func:`g_optimal` for a view of a catalogue's rows; the support counts places in that view."""
    scales = scales_of(rows)
    active = start(rows)
    basis, first = basis_of(rows, active, scales)
    weights = _equal_weights(len(active), first)
    last: Scan | None = None
    scans = 0
    precision = tolerance / 4  # of the active rows' own problem, so that the next scan may be the last
    while True:
        points = rows.take(active) @ basis.to_coordinates
        if np.abs(points).max() > LARGEST_COORDINATE:
            change, chosen = rebase(points)
            points, basis = points @ change, basis.changed(change)
            weights /= 2  # some weight on the new unit vectors keeps Q far from singular
            weights[chosen] += 0.5 / basis.rank
            last = last and last._replace(moments=change.T @ last.moments @ change)
        inverse = _solve(points, weights, precision)
        lever = _levers(points, inverse)
        known = float(lever.max())

        # Which rows could be above what is known? All of them, unless the last scan bounds them well.
        places = None if last is None else _doubtful(last, inverse, known)
        if places is None or 3 * len(places) > len(rows):
            last, outside = scan(rows, basis, inverse)
            scans += 1
            if len(outside):  # a direction that the active rows miss: start again in the larger span
                wider = np.concatenate([active[weights > 0], outside])
                basis, first = enlarged(rows, basis, wider)
                if len(first):
                    active, weights = wider, _equal_weights(len(wider), first)
                last = None
                continue
            places, found = None, last.lever
        else:
            found = _levers(rows.take(places) @ basis.to_coordinates, inverse)

        value = max(known, float(found.max(initial=0.0)))
        limit = basis.rank * (1 + tolerance)
        if value <= limit:
            break
        worst = _largest(found, limit, MOST_VIOLATORS)
        worst = worst if places is None else places[worst]
        if np.isin(worst, active).all():  # the active rows' own problem is the bottleneck
            precision /= 2
        kept = _keep(lever, weights, basis.rank)
        fresh = np.setdiff1d(worst, active[kept])
        active = np.concatenate([active[kept], fresh])
        weights = np.concatenate([weights[kept], np.zeros(len(fresh))])

    held = weights > 0
    support, weights = active[held], caratheodory(points[held], weights[held])
    if not weights.all():  # fewer rows, the same Q up to a factor of at least 1: certify what is returned
        support, weights = support[weights > 0], weights[weights > 0]
        points = rows.take(support) @ basis.to_coordinates
        value = float(scan(rows, basis, invert((points.T * weights) @ points))[0].lever.max())
        scans += 1
    order = np.argsort(support)
    return Design(support[order].astype(np.int64), weights[order], value, basis.rank, scans)


def _equal_weights(count: int, first: Ints) -> Floats:
    weights = np.zeros(count)
    weights[first] = 1.0 / len(first)
    return weights


def _doubtful(last: Scan, inverse: Floats, known: float) -> Ints:
    """The rows whose leverage may exceed ``known`` under Q^-1 = inverse, by the bound rho of this file's top."""
    factor = root(inverse)
    rho = float(np.linalg.eigvalsh(factor.T @ last.moments @ factor)[-1])
    return np.flatnonzero(last.lever * (rho * (1 + 1e-9)) > known)


def _levers(points: Floats, inverse: Floats) -> Floats:
    out: Floats = np.einsum("ij,ij->i", points @ inverse, points)
    return out


def _keep(lever: Floats, weights: Floats, rank: int) -> Bools:
    """Which active rows to keep: Harman and Pronzato (2007) prove that others support no optimal design of them.

    With epsilon = max leverage / r - 1, a supporting row has leverage at least
    r (1 + epsilon/2 - sqrt(epsilon (4 + epsilon - 4/r)) / 2).
    """
    epsilon = max(float(lever.max()) / rank - 1, 0.0)
    bound = rank * (1 + epsilon / 2 - np.sqrt(epsilon * (4 + epsilon - 4 / rank)) / 2)
    keep: Bools = (weights > 0) | (lever >= bound * (1 - 1e-9))
    return keep


def _largest(values: Floats, limit: float, most: int) -> Ints:
    """The places of the largest values above the limit, at most so many."""
    over = np.flatnonzero(values > limit)
    if len(over) > most:
        over = over[np.argpartition(-values[over], most)[:most]]
    return over


def _solve(points: Floats, weights: Floats, tolerance: float) -> Floats:
    """Optimise the weights of the active points in place; returns Q^-1 in their coordinates."""
    rank = points.shape[1]
    if rank == 1:  # the longest row takes all
        weights[:] = 0.0
        longest = int(np.argmax(np.abs(points[:, 0])))
        weights[longest] = 1.0
        return np.array([[points[longest, 0] ** -2.0]])
    # Rank-one updates lose a digit or two in some hundred steps; then Q^-1 is computed anew.
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
    lever = _levers(points, inverse)
    for _ in range(steps):
        held = np.flatnonzero(weights)
        high, low = int(lever.argmax()), int(held[lever[held].argmin()])
        if lever[high] <= rank * (1 + tolerance) and lever[low] >= rank * (1 - tolerance):
            return True
        # The best step along e_j - pi: lambda = (g/r - 1) / (g - 1), g the leverage of j (Todd, section 3.2).
        if lever[high] - rank >= rank - lever[low]:
            j = high
            step = (lever[j] / rank - 1) / (lever[j] - 1)
        else:  # away from j, at most until its weight is gone
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
    sum v_i <= 0, weights + t v keep Q while their sum falls, until one of them is gone. Scaled back to sum 1, Q grows.
    """
    weights = weights / weights.sum()
    rank = points.shape[1]
    upper = np.triu_indices(rank)
    while (weights > 0).sum() > rank * (rank + 1) // 2:
        held = np.flatnonzero(weights > 0)[: rank * (rank + 1) // 2 + 1]
        squares = points[held][:, upper[0]] * points[held][:, upper[1]]
        null = scipy.linalg.svd(squares.T)[2][-1]
        if null.sum() > 0:
            null = -null
        falling = null < 0
        limits = weights[held][falling] / -null[falling]
        weights[held] = np.maximum(weights[held] + limits.min() * null, 0.0)
        weights[held[falling][np.argmin(limits)]] = 0.0
        weights /= weights.sum()
    return weights
