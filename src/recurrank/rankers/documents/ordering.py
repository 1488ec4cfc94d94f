"""Documents of a query in the order of their scores, one at a time: a heap, in place."""

from __future__ import annotations

from recurrank._arrays import Floats, Ints
from recurrank._compiled import inner, rare


@rare
def unordered(score: Floats, count: int, order: Ints) -> None:
    """Make a heap of all documents: the highest score first, the earlier of equals first."""
    for i in range(count):
        order[i] = i
    for start in range(count // 2 - 1, -1, -1):
        _sift(score, order, start, count)


@inner
def take_best(score: Floats, order: Ints, size: int) -> int:
    """Move the best of the heap's ``size`` documents behind the others, and return it."""
    item = int(order[0])
    order[0] = order[size - 1]
    order[size - 1] = item
    _sift(score, order, 0, size - 1)
    return item


@inner
def _before(score: Floats, a: int, b: int) -> bool:
    return bool(score[a] > score[b] or (score[a] == score[b] and a < b))


@inner
def _sift(score: Floats, order: Ints, start: int, end: int) -> None:
    """Let the document at ``start`` sink below all that are before it."""
    item, hole = order[start], start
    while 2 * hole + 1 < end:
        child = 2 * hole + 1
        if child + 1 < end and _before(score, order[child + 1], order[child]):
            child += 1
        if not _before(score, order[child], item):
            break
        order[hole] = order[child]
        hole = child
    order[hole] = item
