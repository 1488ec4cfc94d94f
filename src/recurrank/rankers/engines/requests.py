"""What rankers of requests share: scores of a request's candidates, the best of them in order, and what exploring is worth.

A request has n candidates with features and m free positions. Attraction is linear or logistic in the features:

    alpha(x) = <x, theta[1:]> + constant theta[0],      or the logistic function of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner, natural, rare
from recurrank.rankers.ranker import Buffer
from recurrank.rankers.request import LARGEST

LINEAR, LOGISTIC = 0, 1
LINKS = ("linear", "logistic")
BLOCK = 128
"""Number of candidates whose features are laid out by column at a time."""
EXPLOITED, SAMPLED, INSURED = 0, 1, 2
"""How a slate was chosen: the best-known order; the order of a sample; one disputed item first, paid for from the account."""


class Shown(NamedTuple):
    """A slate as learning sees it: all that it needs besides the clicks, even if the items have changed since."""

    features: Floats  # (K, d) of the items shown
    free: Bools  # (K,) False where the item was pinned
    segment: int
    examined: Floats  # (K,) P(examined | slate, clicks above) where it is told; else unused


class Highest(NamedTuple):
    """Scratch arrays for :func:`best`."""

    top: Floats  # (n + 1,) the highest scores
    kept: Ints  # (n + 1,) and whose they are


class Work(NamedTuple):
    """Scratch arrays for computations within a call."""

    score: Floats  # (n,) by theta
    other: Floats  # (n,) by a sample
    order: Ints  # (K,)
    rival: Ints  # (K,)
    tried: Ints  # (K,)
    row: Floats  # (P,)
    every: Ints  # (n,) 0, 1, 2, ...
    top: Floats  # (n + 1,) the highest scores
    kept: Ints  # (n + 1,) and whose they are
    shown: Shown  # a slate of catalogue items
    asks: Ints  # (1,) the segment of the request that is being ranked
    columns: Floats  # (d + 1, BLOCK) features of a block of candidates
    image: Floats  # (P,)

    @staticmethod
    def of(candidates: int, positions: int, dim: int, size: int) -> Work:
        count, (order, rival, tried) = max(candidates, positions), np.zeros((3, positions), np.int64)
        shown = Shown(np.zeros((positions, dim)), np.ones(positions, np.bool_), 0, np.ones(positions))
        top, kept = np.zeros(count + 1), np.zeros(count + 1, np.int64)
        every, (row, image) = np.arange(count), np.zeros((2, size))
        asks, columns = np.zeros(1, np.int64), np.zeros((dim + 1, BLOCK))
        return Work(
            np.zeros(count), np.zeros(count), order, rival, tried, row, every, top, kept, shown, asks, columns, image
        )  # fmt: skip


@inner
def dot(features: Floats, row: int, theta: Floats, constant: float) -> float:
    """<x, theta[1:]> + constant theta[0]; four sums at a time, which do not wait for each other."""
    dim = features.shape[1]
    a, b, c, d = constant * theta[0], 0.0, 0.0, 0.0
    p = 0
    while p + 3 < dim:
        a += features[row, p] * theta[p + 1]
        b += features[row, p + 1] * theta[p + 2]
        c += features[row, p + 2] * theta[p + 3]
        d += features[row, p + 3] * theta[p + 4]
        p += 4
    while p < dim:
        a += features[row, p] * theta[p + 1]
        p += 1
    return float((a + b) + (c + d))


@inner
def scores(features: Floats, rows: Ints, count: int, theta: Floats, constant: float, out: Floats) -> None:
    """The score of each of the first ``count`` candidates, which are ``rows`` of the features."""
    for i in range(count):
        out[i] = dot(features, rows[i], theta, constant)


@inner
def usable(features: Floats, row: int) -> bool:
    """Whether learning can add up the squares of these features; logs of versions that did not check may have others."""
    small = True
    for p in range(features.shape[1]):
        small &= abs(features[row, p]) <= LARGEST
    return small


@rare
def best(score: Floats, count: int, size: int, order: Ints, work: Work | Highest) -> None:
    """The ``size`` rows of the highest scores, in order; the earlier of equal rows first.

    Rows are dealt into 2 ``size`` heaps. The size-th highest of the heaps' maxima is a bar that at least ``size`` rows reach,
    and few more where scores come in no particular order. Those are ordered by counting how many are above each, which has
    no branches to mispredict; if they are many after all, they are inserted one by one.
    """
    heaps, bar = min(2 * size, count), -np.inf
    if heaps < count:
        for h in range(heaps):
            work.top[h] = score[h]
        for start in range(heaps, count, heaps):
            for h in range(min(heaps, count - start)):
                work.top[h] = max(work.top[h], score[natural(start + h)])
        for h in range(heaps):
            if _reaching(work.top, heaps, work.top[h]) >= size:
                bar = max(bar, work.top[h])
    held = 0
    for i in range(count):
        work.kept[held] = i
        work.top[held] = score[i]
        held += score[i] >= bar
    if held <= 4 * size:
        for h in range(held):
            rank = _above(work.top, held, h)
            if rank < size:
                order[rank] = work.kept[h]
    else:
        _insert(work, held, size, order)


@inner
def _reaching(values: Floats, count: int, bar: float) -> int:
    """How many of the values are at least this high."""
    reaching = 0
    for j in range(count):
        reaching += values[j] >= bar
    return reaching


@inner
def _above(values: Floats, count: int, h: int) -> int:
    """How many of the values are above the one at ``h``, earlier ones also where they are equal.

    One loop from 0, which becomes vector instructions, as two loops around ``h`` do not.
    """
    value, above = values[h], 0
    for j in range(count):
        above += (values[j] > value) | ((values[j] == value) & (j < h))
    return above


@inner
def _insert(work: Work | Highest, count: int, size: int, order: Ints) -> None:
    """The same by insertion: until the last line ``order`` holds indices into ``work.kept``."""
    held = 0
    for i in range(count):
        value = work.top[i]
        if held == size and value <= work.top[order[size - 1]]:
            continue
        j = held if held < size else size - 1
        while j > 0 and work.top[order[j - 1]] < value:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
        if held < size:
            held += 1
    for j in range(size):
        order[j] = work.kept[order[j]]


@inner
def attraction(score: float, link: int) -> float:
    """The probability of a click on an examined item, by its score; the linear one is not cut off."""
    if link == LINEAR:
        return score
    return 1 / (1 + math.exp(-min(max(score, -30.0), 30.0)))


@inner
def disputed(
    order: Ints, rival: Ints, score: Floats, other: Floats, worth: Floats, slots: Ints, size: int, link: int
) -> tuple[float, int, int, float]:
    """What the order would lose if the rival scores were true; which item they disagree about most; its index; its price.

    loss = sum_k W_k (alpha'(rival_k) - alpha'(order_k)),  alpha' by the sample;
    the item of the largest |W(rival) - W(order)| |alpha'(x) - alpha(x)|, W = 0 outside the list (-1: none);
    its index in the order, the last one if it is outside; the price of showing it first, by theta, if those above move down.
    """
    loss, most, which, index = 0.0, 0.0, -1, size - 1
    for j in range(size):
        i = order[j]
        sampled, then = attraction(other[i], link), 0.0
        loss -= worth[slots[j]] * sampled
        for h in range(size):
            if rival[h] == i:
                then = worth[slots[h]]
        differ = abs(then - worth[slots[j]]) * abs(sampled - attraction(score[i], link))
        if differ > most:
            most, which, index = differ, i, j
    for j in range(size):
        i = rival[j]
        sampled, inside = attraction(other[i], link), False
        loss += worth[slots[j]] * sampled
        for h in range(size):
            inside |= order[h] == i
        differ = worth[slots[j]] * abs(sampled - attraction(score[i], link))
        if not inside and differ > most:
            most, which, index = differ, i, size - 1
    price = 0.0
    if which >= 0:
        price = -worth[slots[0]] * attraction(score[which], link)
        for j in range(index + 1):
            moved = worth[slots[j + 1]] if j < index else 0.0
            price += (worth[slots[j]] - moved) * attraction(score[order[j]], link)
    return max(loss, 0.0), which, index, max(price, 0.0)


def learn_of_catalogue(take: Callable[..., bool]) -> Any:
    """A compiled ``learn(state, slate, clicks)``, which learns from the clicks on a slate of the catalogue as ``take`` does."""

    @hot
    def learn(state: Any, slate: Buffer, clicks: Bools) -> bool:
        shown = state.work.shown
        for k in range(len(slate.items)):
            for p in range(state.features.shape[1]):
                shown.features[k, p] = state.features[slate.items[k], p]
        return take(state, shown, clicks)

    return learn
