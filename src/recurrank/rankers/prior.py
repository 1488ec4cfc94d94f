"""What is believed before the first click: a linear model of attraction, worth a stated number of answers.

It comes from a fitted click model, from a log, from a present order or from your own scores. Attraction is the probability
of a click at the first position. Since beliefs may be wrong, their weight is bounded:

    theta_d, J      the estimate from the ranker's own clicks, and its information (unit prior included)
    theta_p, P      what the prior believes, and its information
    D = theta_p - theta_d
    f               the least f >= 1 with D' (J^-1 + f P^-1)^-1 D <= d + 3 sqrt(2 d): beyond what chi-square allows the prior
                    contradicts the clicks, and its variance grows until it does not; from f = 10 on it is dismissed
    theta           (J + P / f)^-1 (J theta_d + P theta_p / f)

So a wrong prior keeps a bounded weight while clicks come in. Certificates never use it.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, as_array, as_number
from recurrank.catalogue import Catalogue
from recurrank.rankers.options import Option

PRECISION = 4.0
"""Information of one answer per unit of the features: one over the largest variance of a click."""
DISMISSED = 10.0
"""The factor f from which on the prior is considered wrong and is not used at all."""
RIDGE = 1e-6


class Prior(NamedTuple):
    """Moments and sums of a regression of attraction on the features, as if so many answers had been seen.

    >>> import numpy as np
    >>> prior = Prior.of(np.eye(3), [0.9, 0.5, 0.1], answers=300)
    >>> [round(float(score), 2) for score in np.eye(3) @ prior.theta()]
    [0.9, 0.5, 0.1]
    """

    moments: Floats  # (d, d)
    sums: Floats  # (d,)

    @staticmethod
    def of(features: ArrayLike, attraction: ArrayLike, answers: float = 1000.0, weights: ArrayLike | None = None) -> Prior:
        """From one score per item, NaN where nothing is known of it.

        Args:
            features: one row per item.
            attraction: the believed attraction of each item, between 0 and 1.
            answers: how many answers the prior is worth.
            weights: how much is known of each item, relative to the others; by default the same for all.

        """
        matrix, scores = as_array("features", features), np.asarray(attraction, np.float64)
        if matrix.ndim != 2 or scores.shape != (len(matrix),):
            raise ValueError(f"attraction: shape is {scores.shape}; it should be ({len(matrix)},), one number per item")
        known = ~np.isnan(scores)
        if not known.any() or not ((scores[known] >= 0) & (scores[known] <= 1)).all():
            raise ValueError("attraction: give probabilities between 0 and 1, NaN where nothing is known; at least one number")
        if not 0 < as_number("answers", answers) < math.inf:
            raise ValueError(f"answers: {answers} is out of range; give a number above 0")
        weight = np.ones(len(matrix)) if weights is None else as_array("weights", weights)
        if weight.shape != scores.shape or (weight < 0).any() or not weight[known].any():
            raise ValueError("weights: give one number of at least 0 per item, not all of them 0")
        rows, share = matrix[known], weight[known] / weight[known].sum()
        scaled = PRECISION * float(answers) * share[:, None] * rows
        return Prior(rows.T @ scaled, scaled.T @ scores[known])

    @staticmethod
    def from_order(
        features: ArrayLike, order: ArrayLike, answers: float = 100.0, *, first: float = 0.5, last: float = 0.1
    ) -> Prior:
        """From a present order, best item first, by row: attraction is taken to fall evenly from ``first`` to ``last``."""
        rows = np.asarray(order)
        matrix = as_array("features", features)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(np.unique(rows)) < len(rows) or len(rows) < 2:
            raise ValueError("order: give at least two different items, best first, as row numbers")
        if rows.min() < 0 or rows.max() >= len(matrix):
            raise ValueError(f"order: items go from 0 to {len(matrix) - 1}")
        scores = np.full(len(matrix), np.nan)
        scores[rows] = np.linspace(first, last, len(rows))
        return Prior.of(matrix, scores, answers)

    def theta(self) -> Floats:
        """The coefficients that it believes in."""
        return believed(self.moments, self.sums)

    def to_json(self) -> dict[str, Any]:
        """As numbers and lists, for :func:`as_prior`."""
        return {"moments": self.moments.tolist(), "sums": self.sums.tolist()}


BelievedBefore = Annotated[
    Any, Option("what is believed before the first click, a recurrank.Prior; certificates never use it, and clicks overcome it")
]


def as_prior(value: Any, catalogue: Catalogue) -> Prior | None:
    """A prior for a catalogue; ValueError unless it is one.

    It may be given as data: ``{"moments", "sums"}`` of :meth:`Prior.to_json`, ``{"attraction": {id: number}, "answers": n}`` or
    ``{"order": [ids], "answers": n}``. An item without an id is named by its index.
    """
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() & {"attraction", "order"}:
        return _from_ids(dict(value), catalogue)
    try:
        parts = (value["moments"], value["sums"]) if isinstance(value, dict) else (value.moments, value.sums)
    except (KeyError, AttributeError):
        raise ValueError(
            f"prior: {type(value).__name__} is not a prior; give a recurrank.Prior, or 'attraction' or 'order' by id"
        ) from None
    prior, dim = Prior(*(as_array("prior", part) for part in parts)), catalogue.features.shape[1]
    if prior.moments.shape != (dim, dim) or prior.sums.shape != (dim,):
        raise ValueError(f"prior: it has {len(prior.sums)} features, but the catalogue has {dim}")
    return prior


def _from_ids(given: dict[str, Any], catalogue: Catalogue) -> Prior:
    order, attraction, answers = (given.pop(name, None) for name in ("order", "attraction", "answers"))
    if given or (order is None) == (attraction is None):
        raise ValueError("prior: give 'attraction' (a number per id) or 'order' (ids, best first), and 'answers'")
    ids = catalogue.ids or [str(item) for item in range(len(catalogue))]
    rows = {item: row for row, item in enumerate(ids)}
    unknown = [item for item in (order if attraction is None else attraction) if item not in rows]
    if unknown:
        raise ValueError(f"prior: {unknown[0]!r} is not an item of the catalogue")
    worth = {} if answers is None else {"answers": answers}
    if attraction is None:
        return Prior.from_order(catalogue.features, np.array([rows[item] for item in order], np.int64), **worth)
    scores = np.full(len(catalogue), np.nan)
    for item, score in attraction.items():
        scores[rows[item]] = as_number("attraction", score)
    return Prior.of(catalogue.features, scores, **worth)


def believed(moments: Floats, sums: Floats) -> Floats:
    """The least squares estimate, zero in directions of which nothing is known."""
    return np.asarray(np.linalg.lstsq(moments, sums, rcond=RIDGE)[0], np.float64)


def combine(theta: Floats, information: Floats, moments: Floats, sums: Floats) -> tuple[Floats, Floats]:
    """Estimate and information with the prior, from those without it; the formulas are at the top."""
    factor = inflation(believed(moments, sums) - theta, information, moments)
    weight = 1 / factor if factor < DISMISSED else 0.0
    both = information + weight * moments
    return np.asarray(np.linalg.solve(both, information @ theta + weight * sums), np.float64), both


def inflation(apart: Floats, information: Floats, moments: Floats) -> float:
    """The least f >= 1 with D' (J^-1 + f P^-1)^-1 D <= d + 3 sqrt(2 d).

    In coordinates in which J = I and P is diagonal with values p, the left side is
    sum_i D_i^2 p_i / (p_i + f), which falls with f.
    """
    dim = len(apart)
    allowed = dim + 3 * math.sqrt(2 * dim)
    root = np.linalg.cholesky(information)
    half = np.linalg.solve(root, np.linalg.solve(root, moments).T)
    values, vectors = np.linalg.eigh((half + half.T) / 2)
    square, values = (vectors.T @ (root.T @ apart)) ** 2, np.maximum(values, 0.0)

    def excess(f: float) -> float:
        return float((square * values / (values + f)).sum()) - allowed

    if excess(1.0) <= 0:
        return 1.0
    low, high = 1.0, 2.0
    while excess(high) > 0:
        low, high = high, 2 * high
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high
