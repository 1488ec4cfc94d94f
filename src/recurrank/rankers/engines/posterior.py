"""What samples of a linear model's parameter say about a set of items: which may be among the best, and which are.

Small sets are put in order and looked at as a whole. Large ones are read once, in pieces that fit the processor's cache: the
answers are the same.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import inner, sweep
from recurrank.rankers.engines.pieces import PIECE, multiply, product, some_above


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
    """Whether each of ``near``, best first, is a leader or not certainly below one of the leaders."""
    dim = image.shape[1]
    for index in range(len(near)):
        i, inside = near[index], index < width
        for j in range(width - 1, -1, -1):
            if inside:
                break
            leader, norm = near[j], 0.0
            for q in range(dim):
                norm += (image[i, q] - image[leader, q]) ** 2
            inside = score[leader] - score[i] <= radius * math.sqrt(norm)
        kept[index] = inside


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
        order=np.zeros((samples, width), np.int64),
        value=np.full((samples, width), -np.inf),
        score=np.zeros((samples, width)),
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
    """The result of reading a block's items once, for S samples and m positions."""

    top: Floats  # (S,) the largest value under a narrow sample
    order: Ints  # (S, m) the best items under a wide sample, in order
    value: Floats  # (S, m) their values under it
    score: Floats  # (S, m) and by theta
    lead: Floats  # (m,) the leaders' values by theta
    sampled_lead: Floats  # (m, S) and under the wide samples


@inner
def _enter(found: Best, s: int, index: int, value: float, score: float) -> None:
    """Insert an item among the best under wide sample s."""
    values, j = found.value[s], found.value.shape[1] - 1
    while j > 0 and values[j - 1] < value:
        values[j], found.order[s, j], found.score[s, j] = values[j - 1], found.order[s, j - 1], found.score[s, j - 1]
        j -= 1
    values[j], found.order[s, j], found.score[s, j] = value, index, score


@sweep
def _compare(items: Any, score: Floats, usual: Floats, sampled: Floats, found: Best, first: Ints) -> None:
    """Find the best items, given all products."""
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
    """The features of ``size`` items as columns in single precision; returns the largest squared length."""
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

    Products in single precision are off by at most (d + 3) 2^-24 |x| |w|, rounded inputs included. Only where twice that
    does not keep an item below the best so far is the product computed in full.
    """
    count, dim, width, largest = len(items), features.shape[1], len(found.lead), 0.0
    for j in range(width):
        found.lead[j] = product(features[items[j]], theta)
    for start in range(0, count, len(values)):
        size = min(len(values), count - start)
        largest = max(largest, _gather_short(features, items, start, size, columns))
        for s in range(len(narrow)):
            slack = (dim + 4) * 2.0**-23 * math.sqrt(largest * product(narrow[s], narrow[s]))
            multiply(columns, narrow_short[s], 0, size, values)
            if some_above(values, size, np.float32(found.top[s] - slack)):
                for i in range(size):
                    if values[i] > found.top[s] - slack:
                        value = product(features[items[start + i]], narrow[s])
                        if value > found.top[s]:
                            found.top[s], first[s] = value, items[start + i]
            slack = (dim + 4) * 2.0**-23 * math.sqrt(largest * product(wide[s], wide[s]))
            multiply(columns, wide_short[s], 0, size, values)
            if start == 0:
                for j in range(width):
                    found.sampled_lead[j, s] = product(features[items[j]], wide[s])
            if some_above(values, size, np.float32(found.value[s, width - 1] - slack)):
                for i in range(size):
                    if values[i] > found.value[s, width - 1] - slack:
                        value = product(features[items[start + i]], wide[s])
                        if value > found.value[s, width - 1]:
                            _enter(found, s, start + i, value, product(features[items[start + i]], theta))


@sweep
def _judge(items: Any, worth: Floats, found: Best, asked: Ints, gain: Floats, cost: Floats) -> None:
    """Compute what the leaders in order lose under each wide sample."""
    best, value, score, lead, sampled_lead = found.order, found.value, found.score, found.lead, found.sampled_lead
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
            differ = worth[j] * abs(value[s, j] - score[s, j])
            if i >= width and (differ > most or (differ == most and i < which)):
                most, which, score_which = differ, i, score[s, j]
        gain[s], asked[s], cost[s] = max(total, 0.0), -1, 0.0
        if which >= 0:
            # Showing x first moves the leaders above it down by one: what is lost, by theta and W.
            index = min(which, width - 1)
            price = -worth[0] * score_which
            for j in range(index + 1):
                price += worth[j] * lead[j] - (worth[j + 1] * lead[j] if j < index else 0.0)
            asked[s], cost[s] = items[which], max(price, 0.0)
