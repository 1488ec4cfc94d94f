"""Large sets of items, read once, in pieces that fit the processor's cache: their leaders, and the item that is farthest off.

Features of a piece are gathered as columns, so that the processor works on several items at a time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import inner, sweep

PIECE = 256
"""Number of items of a large set that are read together: their features and one product fit the fastest cache."""


@inner
def gather(features: Floats, items: Any, start: int, size: int, columns: Floats) -> None:
    """The features of ``size`` items as columns."""
    for i in range(size):
        item = items[start + i]
        for p in range(features.shape[1]):
            columns[p, i] = features[item, p]


@inner
def multiply(columns: Floats, weights: Any, first: int, size: int, product: Floats) -> None:
    """Product = <x, weights> of the first ``size`` items, from coordinate ``first`` on; four terms at a time save traffic."""
    dim = columns.shape[0]
    single = first + (dim - first) % 4
    for i in range(size):
        product[i] = 0.0
    for p in range(first, single):
        weight = weights[p]
        for i in range(size):
            product[i] += columns[p, i] * weight
    for p in range(single, dim, 4):
        a, b, c, d = weights[p], weights[p + 1], weights[p + 2], weights[p + 3]
        for i in range(size):
            product[i] += (columns[p, i] * a + columns[p + 1, i] * b) + (columns[p + 2, i] * c + columns[p + 3, i] * d)


@inner
def product(x: Floats, weights: Floats) -> float:
    total = 0.0
    for p in range(len(x)):
        total += x[p] * weights[p]
    return total


@inner
def squares(columns: Floats, root: Floats, size: int, product: Floats, square: Floats) -> None:
    """Square = |root x|^2 of the first ``size`` items; the root is upper triangular."""
    for i in range(size):
        square[i] = 0.0
    for q in range(columns.shape[0]):
        multiply(columns, root[q], q, size, product)
        for i in range(size):
            square[i] += product[i] * product[i]


@inner
def some_above(values: Any, size: int, bar: Any) -> bool:
    above = 0
    for i in range(size):
        above += values[i] > bar
    return above > 0


def room(features: Floats, rows: int) -> tuple[Floats, Floats]:
    """Scratch arrays for the features of one piece as columns, and for ``rows`` numbers per item."""
    return np.empty((features.shape[1], PIECE)), np.empty((rows, PIECE))


def upper_root(matrix: Floats) -> Floats:
    """The upper triangular R with x' matrix x = |R x|^2."""
    root: Floats = np.ascontiguousarray(np.linalg.cholesky(matrix).T)
    return root


def leaders_first(features: Floats, items: Any, theta: Floats, width: int) -> Any:
    """The items in another order: those of the ``width`` largest scores <x, theta> best first, then the others as they were."""
    index, leads, order = np.zeros(width, np.int64), np.zeros(len(items), np.bool_), np.empty_like(items)
    _leaders_first(features, items, theta, np.full(width, -np.inf), index, leads, order)
    return order


@sweep
def _leaders_first(
    features: Floats, items: Any, theta: Floats, value: Floats, index: Ints, leads: Bools, order: Any
) -> None:  # fmt: skip
    width = len(value)
    for i in range(len(items)):
        score = product(features[items[i]], theta)
        if score > value[width - 1]:
            j = width - 1
            while j > 0 and value[j - 1] < score:
                value[j], index[j] = value[j - 1], index[j - 1]
                j -= 1
            value[j], index[j] = score, i
    for j in range(width):
        leads[index[j]], order[j] = True, items[index[j]]
    put = width
    for i in range(len(items)):
        if not leads[i]:
            order[put] = items[i]
            put += 1


def farthest(features: Floats, items: Any, matrix: Floats) -> tuple[int, float]:
    """The index of the item x of largest (x - y)' matrix (x - y), y being the first item; and the root of that."""
    result: tuple[int, float] = _farthest(features, items, upper_root(matrix), *room(features, 2))
    return result


@sweep
def _farthest(features: Floats, items: Any, root: Floats, columns: Floats, numbers: Floats) -> tuple[int, float]:
    count, dim, product, square = len(items), features.shape[1], numbers[0], numbers[1]
    most, which = 0.0, 0
    for start in range(0, count, PIECE):
        size = min(PIECE, count - start)
        gather(features, items, start, size, columns)
        for p in range(dim):
            for i in range(size):
                columns[p, i] -= features[items[0], p]
        squares(columns, root, size, product, square)
        if some_above(square, size, most):
            for i in range(size):
                if square[i] > most:
                    most, which = square[i], start + i
    return which, math.sqrt(most)
