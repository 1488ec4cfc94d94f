"""The items that matter where several vectors may rank a large catalogue: the best under any of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import sweep
from recurrank.rankers.engines.pieces import PIECE, gather, multiply, room, some_above


def leading(features: Floats, items: Ints, vectors: Floats, size: int, likely: Ints) -> Ints:
    """The items that are among the ``size`` best under any of the vectors (constants order nothing), the earlier of equals.

    Args:
        features: one row per item.
        items: which rows to choose from, rising.
        vectors: one per row, the constant's coefficient first.
        size: how many of the best.
        likely: some of the items. The better these are, the fewer others have to be looked at closely.

    """
    weights = np.ascontiguousarray(vectors[:, 1:])
    value, best = np.empty((len(vectors), size)), np.empty((len(vectors), size), np.int64)
    columns, (score,) = room(features, 1)
    bars = np.full(len(vectors), -np.inf)
    for part in (likely, items) if len(likely) >= size else (items,):
        value[:], best[:] = -np.inf, -1
        _leading(features, part, weights, bars, value, best, columns, score)
        bars = np.nextafter(value[:, -1], -np.inf)  # the best of all items are at least as good as those of a part
    return np.unique(best[best >= 0])


@sweep
def _leading(
    features: Floats, items: Any, weights: Floats, bars: Floats, value: Floats, best: Ints, columns: Floats, score: Floats
) -> None:
    """Find the largest scores above the bars, and their items, for every vector; the largest first."""
    last = value.shape[1] - 1
    for start in range(0, len(items), PIECE):
        count = min(PIECE, len(items) - start)
        gather(features, items, start, count, columns)
        for v in range(len(weights)):
            multiply(columns, weights[v], 0, count, score)
            if some_above(score, count, max(bars[v], value[v, last])):
                for i in range(count):
                    if score[i] > bars[v] and score[i] > value[v, last]:
                        j = last
                        while j > 0 and value[v, j - 1] < score[i]:
                            value[v, j], best[v, j] = value[v, j - 1], best[v, j - 1]
                            j -= 1
                        value[v, j], best[v, j] = score[i], items[start + i]
