"""What samples of a linear model's parameter say about a set of items: who may be among the best, who is, who is beaten.

Small sets are put in order and looked at as a whole. Large ones are read once, in pieces that fit the processor's cache, and
only the few items that matter are kept in order: the answers are the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import apart, inner

PIECE = 256
"""Items of a large set that are looked at together: their features and one product fit the fastest cache."""


@inner
def _gather(features: Floats, items: Any, start: int, size: int, columns: Floats) -> None:
    """The features of ``size`` items as columns, so that the processor works on several items at a time."""
    for i in range(size):
        item = items[start + i]
        for p in range(features.shape[1]):
            columns[p, i] = features[item, p]


@inner
def _multiply(columns: Floats, weights: Any, size: int, product: Floats) -> None:
    """Product = <x, weights> of the first ``size`` items; two terms at a time halve the traffic."""
    dim = columns.shape[0]
    for i in range(size):
        product[i] = columns[0, i] * weights[0]
    for p in range(1, dim - 1, 2):
        one, other = weights[p], weights[p + 1]
        for i in range(size):
            product[i] += columns[p, i] * one + columns[p + 1, i] * other
    if dim % 2 == 0:
        last = weights[dim - 1]
        for i in range(size):
            product[i] += columns[dim - 1, i] * last


@inner
def _squares(columns: Floats, matrix: Floats, size: int, product: Floats, square: Floats) -> None:
    """Square = x' matrix x of the first ``size`` items."""
    for i in range(size):
        square[i] = 0.0
    for p in range(columns.shape[0]):
        _multiply(columns, matrix[p], size, product)
        for i in range(size):
            square[i] += product[i] * columns[p, i]


@inner
def _some_above(values: Floats, size: int, bar: float) -> bool:
    above = 0
    for i in range(size):
        above += values[i] > bar
    return above > 0


def candidates(features: Floats, items: Any, theta: Floats, spread: Floats, radius: float, width: int) -> Ints:
    """The items of a block that can be among its best ``width`` for any theta + spread z with |z| <= radius; best first.

    First by the bounds <x, theta> +- radius |x' spread|, then by differences to each of the leaders.
    (NumPy selects and sorts: numba would take ten seconds to compile that.)
    """
    count = len(items)
    score, half, image = np.empty(count), np.empty(count), np.empty((count, features.shape[1]))
    _bounds(features, items, theta, spread, radius, score, half, image)
    if count <= width:
        return np.argsort(-score, kind="stable")
    bar = np.partition(score - half, count - width)[count - width]
    near = np.flatnonzero(score + half >= bar)
    near = near[np.argsort(-score[near], kind="stable")]
    kept = np.empty(len(near), np.bool_)
    _not_beaten(near, score, image, radius, width, kept)
    return near[kept]


@apart
def _bounds(
    features: Floats, items: Any, theta: Floats, spread: Floats, radius: float, score: Floats, half: Floats, image: Floats
) -> None:
    """<x, theta>, radius |x' spread| and x' spread of every item."""
    dim = features.shape[1]
    for i in range(len(items)):
        item, total, norm = items[i], 0.0, 0.0
        for q in range(dim):
            total += features[item, q] * theta[q]
            image[i, q] = 0.0
            for p in range(dim):
                image[i, q] += features[item, p] * spread[p, q]
            norm += image[i, q] ** 2
        score[i], half[i] = total, radius * math.sqrt(norm)


@apart
def _not_beaten(near: Ints, score: Floats, image: Floats, radius: float, width: int, kept: Any) -> None:
    """Whether each of ``near``, best first, is a leader or not surely below one of the leaders."""
    dim = image.shape[1]
    for place in range(len(near)):
        i, inside = near[place], place < width
        for j in range(width - 1, -1, -1):
            if inside:
                break
            leader, norm = near[j], 0.0
            for q in range(dim):
                norm += (image[i, q] - image[leader, q]) ** 2
            inside = score[leader] - score[i] <= radius * math.sqrt(norm)
        kept[place] = inside


@apart
def leaders_first(features: Floats, items: Any, theta: Floats, width: int) -> Ints:
    """The places of all items: those of the ``width`` largest scores <x, theta> in order, then the others as they were."""
    count, dim = len(items), features.shape[1]
    order, value = np.zeros(count, np.int64), np.full(width, -np.inf)
    columns, score = np.empty((dim, PIECE)), np.empty(PIECE)
    for start in range(0, count, PIECE):
        size = min(PIECE, count - start)
        _gather(features, items, start, size, columns)
        _multiply(columns, theta, size, score)
        if _some_above(score, size, value[width - 1]):
            for i in range(size):
                if score[i] > value[width - 1]:
                    j = width - 1
                    while j > 0 and value[j - 1] < score[i]:
                        value[j], order[j] = value[j - 1], order[j - 1]
                        j -= 1
                    value[j], order[j] = score[i], start + i
    leads = np.zeros(count, np.bool_)
    for j in range(width):
        leads[order[j]] = True
    place = width
    for i in range(count):
        if not leads[i]:
            order[place] = i
            place += 1
    return order


@apart
def look(
    features: Floats, items: Any, whole: bool, worth: Floats, theta: Floats, narrow: Floats, wide: Floats, first: Ints,
    asked: Ints, gain: Floats, cost: Floats,
) -> None:  # fmt: skip
    """Fill a block's tables from samples of theta (their columns); ``items`` are its candidates, the leaders first.

    first     the best item under each narrow sample
    gain      what the leaders in order would lose against the order under a wide sample, if that were the truth
    asked     the item that the two orders disagree about most (-1: none), and
    cost      what it loses, by theta, to show that one first

    ``whole`` takes all items as one piece.
    """
    (count, dim), width, samples = (len(items), features.shape[1]), len(worth), narrow.shape[1]
    piece = count if whole else min(max(PIECE, width), count)
    top, best, value = np.full(samples, -np.inf), np.zeros((samples, width), np.int64), np.full((samples, width), -np.inf)
    known = np.zeros((samples, width))  # scores by theta of the best
    lead, sampled_lead = np.empty(width), np.empty((width, samples))
    columns, score, values = np.empty((dim, piece)), np.empty(piece), np.empty(piece)
    points = np.empty((count if whole else 1, dim))
    usual = sampled = points
    if whole:
        for i in range(count):  # (loops: numba takes seconds to compile the assignment of an array)
            for p in range(dim):
                points[i, p] = features[items[i], p]
        usual, sampled = np.ascontiguousarray((points @ narrow).T), np.ascontiguousarray((points @ wide).T)
        score = points @ theta
    for start in range(0, count, piece):
        size = min(piece, count - start)
        if not whole:
            _gather(features, items, start, size, columns)
            _multiply(columns, theta, size, score)
        if start == 0:
            for j in range(width):
                lead[j] = score[j]
        for s in range(samples):
            if whole:
                for i in range(count):
                    values[i] = usual[s, i]
            else:
                _multiply(columns, narrow[:, s], size, values)
            if _some_above(values, size, top[s]):
                for i in range(size):
                    if values[i] > top[s]:
                        top[s], first[s] = values[i], items[start + i]
            if whole:
                for i in range(count):
                    values[i] = sampled[s, i]
            else:
                _multiply(columns, wide[:, s], size, values)
            if start == 0:
                for j in range(width):
                    sampled_lead[j, s] = values[j]
            if _some_above(values, size, value[s, width - 1]):
                for i in range(size):
                    if values[i] > value[s, width - 1]:
                        j = width - 1
                        while j > 0 and value[s, j - 1] < values[i]:
                            value[s, j], best[s, j], known[s, j] = value[s, j - 1], best[s, j - 1], known[s, j - 1]
                            j -= 1
                        value[s, j], best[s, j], known[s, j] = values[i], start + i, score[i]
    for s in range(samples):
        total, most, which, score_which = 0.0, 0.0, -1, 0.0
        for j in range(width):
            total += worth[j] * (value[s, j] - sampled_lead[j, s])
        for i in range(width):  # a leader: worth[i] now
            then = 0.0
            for j in range(width):
                if best[s, j] == i:
                    then = worth[j]
            differ = abs(then - worth[i]) * abs(sampled_lead[i, s] - lead[i])
            if differ > most:
                most, which, score_which = differ, i, lead[i]
        for j in range(width):  # one that comes in: worth nothing now
            i = best[s, j]
            differ = worth[j] * abs(value[s, j] - known[s, j])
            if i >= width and (differ > most or (differ == most and i < which)):
                most, which, score_which = differ, i, known[s, j]
        gain[s], asked[s], cost[s] = max(total, 0.0), -1, 0.0
        if which >= 0:
            # Showing x first moves the leaders above its place down by one: what is lost, by theta and W.
            place = min(which, width - 1)
            price = -worth[0] * score_which
            for j in range(place + 1):
                price += worth[j] * lead[j] - (worth[j + 1] * lead[j] if j < place else 0.0)
            asked[s], cost[s] = items[which], max(price, 0.0)


@apart
def farthest(features: Floats, items: Any, matrix: Floats) -> tuple[int, float]:
    """The place of the item x of largest (x - y)' matrix (x - y), y being the first item; and the root of that."""
    count, dim = len(items), features.shape[1]
    columns, product, square = np.empty((dim, PIECE)), np.empty(PIECE), np.empty(PIECE)
    most, which = 0.0, 0
    for start in range(0, count, PIECE):
        size = min(PIECE, count - start)
        _gather(features, items, start, size, columns)
        for p in range(dim):
            for i in range(size):
                columns[p, i] -= features[items[0], p]
        _squares(columns, matrix, size, product, square)
        if _some_above(square, size, most):
            for i in range(size):
                if square[i] > most:
                    most, which = square[i], start + i
    return which, math.sqrt(most)


@apart
def beaten(features: Floats, items: Any, alone: Floats, inverse: Floats, beta: float, better: Any) -> None:
    """Mark ``better[j, i]`` where the j-th of the first items beats the i-th by more than beta widths of their difference."""
    count, top, dim = len(items), better.shape[0], features.shape[1]
    high, own, image = np.zeros(top), np.zeros(top), np.zeros((top, dim))
    for j in range(top):
        x = features[items[j]]
        for p in range(dim):
            high[j] += x[p] * alone[p]
            for q in range(dim):
                image[j, p] += inverse[p, q] * x[q]
            own[j] += x[p] * image[j, p]
    columns, product = np.empty((dim, PIECE)), np.empty(PIECE)
    score, square = np.empty(PIECE), np.empty(PIECE)
    for start in range(0, count, PIECE):
        size = min(PIECE, count - start)
        _gather(features, items, start, size, columns)
        _multiply(columns, alone, size, score)
        _squares(columns, inverse, size, product, square)
        for j in range(top):
            _multiply(columns, image[j], size, product)
            row, highest, mine = better[j, start : start + size], high[j] - 1e-9, own[j]
            for i in range(size):
                gap = highest - score[i]
                # gap > beta |x_j - x_i|, squared
                row[i] |= (gap > 0.0) & (gap * gap > beta * beta * (mine + square[i] - 2 * product[i]))
