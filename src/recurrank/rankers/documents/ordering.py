"""All documents of a query in the order of their scores."""

from __future__ import annotations

from recurrank._arrays import Floats, Ints
from recurrank._compiled import inner


@inner
def ranked(score: Floats, count: int, order: Ints) -> None:
    """All documents by falling score, the earlier of equals first: by a heap, in place."""
    for i in range(count):
        order[i] = i
    for start in range(count // 2 - 1, -1, -1):
        _sift(score, order, start, count)
    for end in range(count - 1, 0, -1):
        kept = order[0]
        order[0] = order[end]
        order[end] = kept
        _sift(score, order, 0, end)


@inner
def _before(score: Floats, a: int, b: int) -> bool:
    return bool(score[a] > score[b] or (score[a] == score[b] and a < b))


@inner
def _sift(score: Floats, order: Ints, start: int, end: int) -> None:
    """Let the document at ``start`` sink; whoever is ranked last rises to the top of the heap."""
    item, hole = order[start], start
    while 2 * hole + 1 < end:
        child = 2 * hole + 1
        if child + 1 < end and _before(score, order[child], order[child + 1]):
            child += 1
        if not _before(score, item, order[child]):
            break
        order[hole] = order[child]
        hole = child
    order[hole] = item
