"""Certified comparisons between the items of a block, and the cuts at which they divide it.

A data set with parameter chi theta, for one unknown chi > 0, certifies "x is better than y" if its estimate says so by more
than beta widths |x - y| in (I + V)^-1: the sign of <x - y, chi theta> does not depend on chi.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Bools, Floats
from recurrank._compiled import inner, sweep
from recurrank.rankers.engines.pieces import PIECE, gather, leaders_first, multiply, room, some_above, squares, upper_root


class Alone(NamedTuple):
    """The estimate of one data set alone."""

    inverse: Floats  # (I + V)^-1
    estimate: Floats  # of chi theta
    beta: float  # how many widths certify


class Part(NamedTuple):
    """Items that compete for some positions, best first."""

    items: Any
    width: int
    least: tuple[int, float] | None = None  # the item least known against the first one, and the width of their difference


@dataclass
class Block:
    """Neighbouring positions and the items that compete for them, best-known first as of the last certification."""

    key: int
    first: int
    width: int
    items: NDArray[np.int32]
    least: tuple[int, float] | None = None  # of a large block just certified: its least known item and the width of that

    @property
    def positions(self) -> range:
        """Its positions, counted from 0."""
        return range(self.first, self.first + self.width)

    @property
    def size(self) -> int:
        """How many items."""
        return len(self.items)


class Judges(NamedTuple):
    """N data sets, each with its estimates for the leading items, which may be better than others."""

    estimate: Floats  # (N, d)
    root: Floats  # (N, d, d) the inverse's
    beta: Floats  # (N,)
    score: Floats  # (N, top)
    square: Floats  # (N, top) squared lengths in the inverse
    image: Floats  # (N, top, d) of items under the inverse

    @staticmethod
    def of(sets: list[Alone], first: Floats) -> Judges:
        """All data sets, on the features of the first items."""
        image = np.array([first @ alone.inverse for alone in sets])
        return Judges(
            estimate=np.array([alone.estimate for alone in sets]),
            root=np.array([upper_root(alone.inverse) for alone in sets]),
            beta=np.array([alone.beta for alone in sets]),
            score=np.array([first @ alone.estimate for alone in sets]),
            square=(image * first).sum(axis=2),
            image=image,
        )


def divided(features: Floats, items: Any, theta: Floats, width: int, sets: list[Alone], own: int, large: int) -> list[Part]:
    """A block's items in parts, best first.

    Items with ``width`` better ones are dropped. A cut is where every item above it is better than every item below. Better
    ones are looked for among the first 2 ``width`` by theta. In a block of more than ``large`` items only these are put in
    order, and while it stays whole, the item that is least known by its ``own`` data set is found on the way.
    """
    if len(items) == 1:
        return [Part(items, 1)]
    top = min(len(items), 2 * width)
    if len(items) > large:
        items = leaders_first(features, items, theta, top)
        judges, kept, least = Judges.of(sets, features[items[:top]]), np.ones(len(items), np.bool_), np.zeros(2)
        space = *room(features, 1 + 2 * len(sets)), np.empty((2, PIECE), np.int64)
        if _drop(features, items, judges, width, own, kept, least, *space):
            return [Part(items[kept], width, (int(items[int(least[0])]), math.sqrt(least[1])))]
    else:
        items = items[np.argsort(-(features[items] @ theta), kind="stable")]
    better = beaten(features, items, sets, top)
    left = np.flatnonzero(better.sum(axis=0, dtype=np.int16) < width)
    items, most = items[left], min(width, len(left), int((left < top).sum()) + 1)
    cuts = [u for u in range(1, most) if better[left[:u], left[u]].all() and better[left[:u]][:, left[u:]].all()]
    parts, start = [], 0
    for stop in (*cuts, len(items)):
        parts.append(Part(items[start:stop], stop - start if stop < len(items) else width - start))
        start = stop
    return parts


def beaten(features: Floats, items: Any, sets: list[Alone], top: int) -> Bools:
    """Certified comparisons: ``better[j, i]`` where the j-th of the first ``top`` items is better than the i-th."""
    better = np.zeros((top, len(items)), np.bool_)
    judges = Judges.of(sets, features[items[:top]])
    _beaten(features, items, judges, better, *room(features, 1 + 2 * len(sets)), np.empty(PIECE, np.int64))
    return better


@inner
def _weigh(judges: Judges, columns: Floats, size: int, numbers: Floats) -> None:
    """Each data set's scores and squared lengths of the items of a piece, in the rows of ``numbers`` from 1 on."""
    for n in range(len(judges.beta)):
        multiply(columns, judges.estimate[n], 0, size, numbers[1 + 2 * n])
        squares(columns, judges.root[n], size, numbers[0], numbers[2 + 2 * n])


@inner
def _beats(judges: Judges, j: int, columns: Floats, size: int, numbers: Floats, worse: Any) -> None:
    """Whether the j-th of the first items is better than each item of a piece: 1 or 0."""
    product = numbers[0]
    for i in range(size):
        worse[i] = 0
    for n in range(len(judges.beta)):
        score, square, beta = numbers[1 + 2 * n], numbers[2 + 2 * n], judges.beta[n]
        multiply(columns, judges.image[n, j], 0, size, product)
        highest, own = judges.score[n, j] - 1e-9, judges.square[n, j]
        for i in range(size):
            gap = highest - score[i]
            # gap > beta |x_j - x_i|, squared
            worse[i] |= np.int64((gap > 0.0) & (gap * gap > beta * beta * (own + square[i] - 2 * product[i])))


@sweep
def _beaten(
    features: Floats, items: Any, judges: Judges, better: Bools, columns: Floats, numbers: Floats, worse: Any
) -> None:  # fmt: skip
    for start in range(0, len(items), PIECE):
        size = min(PIECE, len(items) - start)
        gather(features, items, start, size, columns)
        _weigh(judges, columns, size, numbers)
        for j in range(len(better)):
            _beats(judges, j, columns, size, numbers, worse)
            for i in range(size):
                better[j, start + i] = worse[i] != 0


@sweep
def _drop(
    features: Floats, items: Any, judges: Judges, width: int, own: int, kept: Bools, least: Floats, columns: Floats,
    numbers: Floats, room: Any,
) -> bool:  # fmt: skip
    """Mark the items that are kept; True if there is no cut, as an item is left that the first one does not beat.

    A piece is done when none of its items can have ``width`` better ones any more. ``least`` becomes the index of the kept item
    that is farthest from the first, (x - y)' (I + V)^-1 (x - y) = |x|^2 + |y|^2 - 2 <x, (I + V)^-1 y>, and how far.
    """
    top, worse, count, whole = judges.score.shape[1], room[0], room[1], False
    for start in range(0, len(items), PIECE):
        size = min(PIECE, len(items) - start)
        gather(features, items, start, size, columns)
        _weigh(judges, columns, size, numbers)
        j, most = top, 0
        for i in range(size):
            count[i] = 0
        while j > 0 and most + j >= width:  # the last of the first items beat fewest
            j -= 1
            _beats(judges, j, columns, size, numbers, worse)
            most = 0
            for i in range(size):
                count[i] += worse[i]
                most = max(most, count[i])
        if most >= width:
            for i in range(size):
                kept[start + i] = count[i] < width
        if not whole:
            _beats(judges, 0, columns, size, numbers, worse)
            for i in range(size):
                whole |= kept[start + i] and worse[i] == 0 and start + i >= top
        product, square = numbers[0], numbers[2 + 2 * own]
        multiply(columns, judges.image[own, 0], 0, size, product)
        for i in range(size):
            square[i] += judges.square[own, 0] - 2 * product[i]
        if some_above(square, size, least[1]):
            for i in range(size):
                if kept[start + i] and square[i] > least[1]:
                    least[0], least[1] = start + i, square[i]
    return whole and kept[0]
