"""What samples of a linear model's parameter say about a set of items: who may be among the best, who is, who is beaten.

Small sets are put in order and looked at as a whole. Large ones are read once, in pieces that fit the processor's cache, and
only the few items that matter are kept in order: the answers are the same.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import inner, sweep

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
def _product(x: Floats, weights: Floats) -> float:
    total = 0.0
    for p in range(len(x)):
        total += x[p] * weights[p]
    return total


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
def _some_above(values: Any, size: int, bar: Any) -> bool:
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


@sweep
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


@sweep
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


def leaders_first(features: Floats, items: Any, theta: Floats, width: int) -> Ints:
    """The places of all items: those of the ``width`` largest scores <x, theta> in order, then the others as they were."""
    order, leads = np.zeros(len(items), np.int64), np.zeros(len(items), np.bool_)
    _leaders_first(features, items, theta, np.full(width, -np.inf), order, leads)
    return order


@sweep
def _leaders_first(features: Floats, items: Any, theta: Floats, value: Floats, order: Ints, leads: Bools) -> None:
    width = len(value)
    for i in range(len(items)):
        score = _product(features[items[i]], theta)
        if score > value[width - 1]:
            j = width - 1
            while j > 0 and value[j - 1] < score:
                value[j], order[j] = value[j - 1], order[j - 1]
                j -= 1
            value[j], order[j] = score, i
    for j in range(width):
        leads[order[j]] = True
    place = width
    for i in range(len(items)):
        if not leads[i]:
            order[place] = i
            place += 1


def _room(features: Floats, rows: int) -> tuple[Floats, Floats]:
    """For the features of one piece as columns, and for some numbers of each of its items."""
    return np.empty((features.shape[1], PIECE)), np.empty((rows, PIECE))


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
    width, samples = len(worth), narrow.shape[1]
    best = Best(
        top=np.full(samples, -np.inf),
        place=np.zeros((samples, width), np.int64),
        value=np.full((samples, width), -np.inf),
        known=np.zeros((samples, width)),
        lead=np.empty(width),
        sampled_lead=np.empty((width, samples)),
    )
    usual, sampled = np.ascontiguousarray(narrow.T), np.ascontiguousarray(wide.T)
    if whole:
        points = features[items]
        _compare(items, points @ theta, usual @ points.T, sampled @ points.T, best, first)
    else:
        short = np.float32
        room = np.empty((features.shape[1], PIECE), short), np.empty(PIECE, short)
        _read(features, items, theta, usual, sampled, usual.astype(short), sampled.astype(short), *room, best, first)
    _judge(items, worth, best, asked, gain, cost)


class Best(NamedTuple):
    """What one reading of a block's items leaves, for S samples and m positions."""

    top: Floats  # (S,) the largest value under a narrow sample
    place: Ints  # (S, m) the best under a wide sample, in order
    value: Floats  # (S, m) their values under it
    known: Floats  # (S, m) and by theta
    lead: Floats  # (m,) the leaders' values by theta
    sampled_lead: Floats  # (m, S) and under the wide samples


@inner
def _enter(found: Best, s: int, place: int, value: float, known: float) -> None:
    """Put an item among the best under wide sample s."""
    values, j = found.value[s], found.value.shape[1] - 1
    while j > 0 and values[j - 1] < value:
        values[j], found.place[s, j], found.known[s, j] = values[j - 1], found.place[s, j - 1], found.known[s, j - 1]
        j -= 1
    values[j], found.place[s, j], found.known[s, j] = value, place, known


@sweep
def _compare(items: Any, score: Floats, usual: Floats, sampled: Floats, found: Best, first: Ints) -> None:
    """The best items, where all products are known."""
    width = len(found.lead)
    for j in range(width):
        found.lead[j] = score[j]
    for s in range(len(usual)):
        for j in range(width):
            found.sampled_lead[j, s] = sampled[s, j]
        for i in range(len(items)):
            if usual[s, i] > found.top[s]:
                found.top[s], first[s] = usual[s, i], items[i]
            if sampled[s, i] > found.value[s, width - 1]:
                _enter(found, s, i, sampled[s, i], score[i])


@inner
def _gather_short(features: Floats, items: Any, start: int, size: int, columns: Any) -> float:
    """The features of ``size`` items as columns of short floats; the largest squared length."""
    largest = 0.0
    for i in range(size):
        item, square = items[start + i], 0.0
        for p in range(features.shape[1]):
            x = features[item, p]
            columns[p, i] = x
            square += x * x
        largest = max(largest, square)
    return largest


@sweep
def _read(
    features: Floats, items: Any, theta: Floats, narrow: Floats, wide: Floats, narrow_short: Any, wide_short: Any,
    columns: Any, values: Any, found: Best, first: Ints,
) -> None:  # fmt: skip
    """Read all items once, a piece at a time, for the same answer.

    Products of floats of half the length are right but for (d + 3) 2^-24 |x| |w|, inputs rounded as well. Only where twice
    that does not keep an item below the best so far, the product is computed in full.
    """
    count, dim, width, largest = len(items), features.shape[1], len(found.lead), 0.0
    for j in range(width):
        found.lead[j] = _product(features[items[j]], theta)
    for start in range(0, count, len(values)):
        size = min(len(values), count - start)
        largest = max(largest, _gather_short(features, items, start, size, columns))
        for s in range(len(narrow)):
            slack = (dim + 4) * 2.0**-23 * math.sqrt(largest * _product(narrow[s], narrow[s]))
            _multiply(columns, narrow_short[s], size, values)
            if _some_above(values, size, np.float32(found.top[s] - slack)):
                for i in range(size):
                    if values[i] > found.top[s] - slack:
                        value = _product(features[items[start + i]], narrow[s])
                        if value > found.top[s]:
                            found.top[s], first[s] = value, items[start + i]
            slack = (dim + 4) * 2.0**-23 * math.sqrt(largest * _product(wide[s], wide[s]))
            _multiply(columns, wide_short[s], size, values)
            if start == 0:
                for j in range(width):
                    found.sampled_lead[j, s] = _product(features[items[j]], wide[s])
            if _some_above(values, size, np.float32(found.value[s, width - 1] - slack)):
                for i in range(size):
                    if values[i] > found.value[s, width - 1] - slack:
                        value = _product(features[items[start + i]], wide[s])
                        if value > found.value[s, width - 1]:
                            _enter(found, s, start + i, value, _product(features[items[start + i]], theta))


@sweep
def _judge(items: Any, worth: Floats, found: Best, asked: Ints, gain: Floats, cost: Floats) -> None:
    """What each wide sample says against the leaders in order."""
    best, value, known, lead, sampled_lead = found.place, found.value, found.known, found.lead, found.sampled_lead
    samples, width = value.shape
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


def farthest(features: Floats, items: Any, matrix: Floats) -> tuple[int, float]:
    """The place of the item x of largest (x - y)' matrix (x - y), y being the first item; and the root of that."""
    found: tuple[int, float] = _farthest(features, items, matrix, *_room(features, 2))
    return found


@sweep
def _farthest(features: Floats, items: Any, matrix: Floats, columns: Floats, room: Floats) -> tuple[int, float]:
    count, dim, product, square = len(items), features.shape[1], room[0], room[1]
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


def beaten(features: Floats, items: Any, alone: Floats, inverse: Floats, beta: float, better: Any) -> None:
    """Mark ``better[j, i]`` where the j-th of the first items beats the i-th by more than beta widths of their difference."""
    first = features[items[: len(better)]]
    image = first @ inverse
    _beaten(
        features, items, alone, inverse, beta, better, first @ alone, (image * first).sum(axis=1), image, *_room(features, 3)
    )


@sweep
def _beaten(
    features: Floats, items: Any, alone: Floats, inverse: Floats, beta: float, better: Any, high: Floats, own: Floats,
    image: Floats, columns: Floats, room: Floats,
) -> None:  # fmt: skip
    count, top, product, score, square = len(items), better.shape[0], room[0], room[1], room[2]
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
