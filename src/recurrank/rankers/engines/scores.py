"""Scores of all items each round, fast enough at a thousand items to need no certificates: C3-UCB, LinUCB, LinTS, GL-CDCM.

Features are kept as columns (d, L), so that the processor works on several items at a time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import inner
from recurrank.catalogue import Catalogue
from recurrank.rankers.engines.optimism import insert
from recurrank.rankers.engines.regression import Regression, no_data
from recurrank.rankers.ranker import Buffer


def unseen(catalogue: Catalogue, positions: int, ridge: float = 1.0) -> dict[str, Any]:
    """The common fields of states with scores of all items, before any observation."""
    d = catalogue.dim
    return {
        "columns": columns_of(catalogue.features),
        "features": np.ascontiguousarray(catalogue.features, dtype=np.float64),
        "regression": no_data(d, ridge),
        "score": np.zeros(len(catalogue)),
        "best": np.arange(positions),
        "top": np.zeros(positions),
    }


def widths(catalogue: Catalogue) -> dict[str, Any]:
    """The further fields that confidence widths need."""
    d = catalogue.dim
    return {"lower": np.eye(d), "inverse": np.eye(d), "square": np.zeros(len(catalogue))}


def columns_of(features: np.ndarray[tuple[int, int], np.dtype[np.floating]]) -> Floats:
    """Features as contiguous columns of float64."""
    return np.ascontiguousarray(np.asarray(features, dtype=np.float64).T)


@inner
def means(columns: Floats, theta: Floats, score: Floats) -> None:
    """Score = <x, theta> of every item x."""
    score[:] = 0.0
    for i in range(columns.shape[0]):
        weight = theta[i]
        for item in range(len(score)):
            score[item] += weight * columns[i, item]


@inner
def invert(regression: Regression, lower: Floats, inverse: Floats) -> None:
    """M^-1 = (F^-1)' F^-1; ``lower`` is left holding F^-1."""
    factor, d = regression.factor, len(regression.theta)
    for j in range(d):
        for i in range(d):
            total = 1.0 if i == j else 0.0
            for k in range(j, i):
                total -= factor[i, k] * lower[k, j]
            lower[i, j] = total / factor[i, i] if i >= j else 0.0
    for i in range(d):
        for j in range(d):
            total = 0.0
            for k in range(max(i, j), d):
                total += lower[k, i] * lower[k, j]
            inverse[i, j] = total


@inner
def squares(columns: Floats, inverse: Floats, square: Floats) -> None:
    """Square = x' M^-1 x of every item x, from the upper triangle of a symmetric M^-1."""
    square[:] = 0.0
    for i in range(columns.shape[0]):
        for j in range(i, columns.shape[0]):
            weight = inverse[i, j] if i == j else 2 * inverse[i, j]
            for item in range(len(square)):
                square[item] += weight * columns[i, item] * columns[j, item]


@inner
def show_optimistic(state: Any, theta: Floats, width: float, most: float, slate: Buffer) -> None:
    """Show the K items of largest min(theta'x + width |x|_{M^-1}, most) in order, M being factored."""
    invert(state.regression, state.lower, state.inverse)
    means(state.columns, theta, state.score)
    squares(state.columns, state.inverse, state.square)
    for item in range(len(state.score)):
        state.score[item] = min(state.score[item] + width * math.sqrt(max(state.square[item], 0.0)), most)
    show_best(state, slate)


@inner
def show_best(state: Any, slate: Buffer) -> None:
    """Show the K items of largest score in order."""
    best_of(state.score, state.best, state.top)
    for k in range(len(slate.items)):
        slate.items[k] = state.best[k]


@inner
def best_of(score: Floats, best: Ints, top: Floats) -> None:
    """Fill ``best`` with the items of largest score, ties by item index."""
    count = 0
    for item in range(len(score)):
        if count < len(best) or score[item] > top[len(best) - 1]:
            count = insert(best, top, count, item, score[item])
