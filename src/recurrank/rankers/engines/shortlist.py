"""The items that matter where several vectors may rank a large catalogue: the best under any of them."""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Floats, Ints

PIECE = 4096
"""Rows whose scores are computed at a time."""
RUN = 32
"""Rows per run: the largest of each run is compared first."""


def leading(features: Floats, vectors: Floats, size: int) -> Ints:
    """The rows that are among the ``size`` best under any of the vectors (constants order nothing), the earlier of equals."""
    found = []
    pieces = [slice(start, start + PIECE) for start in range(0, len(features), PIECE)]
    products = [vectors[:, 1:] @ features[piece].T for piece in pieces]
    # The size-th best of the maxima of runs of rows is at most that of all rows.
    maxima = np.hstack([np.maximum.reduceat(scores, np.arange(0, scores.shape[1], RUN), axis=1) for scores in products])
    bars = np.full(len(vectors), -np.inf)
    if maxima.shape[1] >= size:
        bars = np.partition(maxima, maxima.shape[1] - size, axis=1)[:, maxima.shape[1] - size]
    for piece, scores in zip(pieces, products, strict=True):
        which, rows = np.nonzero(scores >= bars[:, None])
        found.append((which, rows + piece.start, scores[which, rows]))
    which, rows, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((rows, -scores, which))
    first = np.searchsorted(which[order], which[order])  # where each vector's rows begin
    return np.unique(rows[order][np.arange(len(order)) - first < size])
