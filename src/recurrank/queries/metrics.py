"""NDCG: the quality of a ranking by its labels, 1 for the best.

    DCG@K = sum_{k=1..K} (2^l_k - 1) / log2(k + 1),    NDCG@K = DCG@K / DCG@K of the labels in falling order

A query without relevant documents counts 0, as in the field's usual simulators.
"""

from __future__ import annotations

import math

import numpy as np

from recurrank._arrays import Floats, Ints, as_count
from recurrank._compiled import hot
from recurrank.queries.dataset import Queries


@hot
def dcg(labels: Ints) -> float:
    """The DCG of documents in this order."""
    total = 0.0
    for k in range(len(labels)):
        total += (2.0 ** labels[k] - 1) / math.log2(k + 2)
    return total


def ideal_slates(queries: Queries, positions: int) -> list[Ints]:
    """The labels of each query's best slate."""
    parts = np.split(queries.labels, queries.offsets[1:-1])
    return [np.ascontiguousarray(np.sort(part)[::-1][:positions]) for part in parts]


def ideal_dcg(queries: Queries, positions: int) -> Floats:
    """DCG of each query's best slate; 0 if no document is relevant."""
    return np.array([dcg(labels) for labels in ideal_slates(queries, positions)])


def ndcg(queries: Queries, scores: Floats, positions: int = 10) -> float:
    """The mean NDCG of the rankings by these scores, one per document; ties in the order of the documents.

    >>> found = Queries(np.eye(3), [0, 2, 1], [0, 3])
    >>> ndcg(found, np.array([0.1, 0.9, 0.5])), round(ndcg(found, np.array([0.9, 0.5, 0.1])), 3)
    (1.0, 0.659)
    """
    scores, positions = np.asarray(scores, dtype=np.float64), as_count("positions", positions)
    if not np.isfinite(scores).all():
        raise ValueError("scores: some are NaN or infinite; give finite numbers")
    if scores.shape != queries.labels.shape:
        raise ValueError(f"scores: shape is {scores.shape}; give one number per document, {len(queries.labels)}")
    best, total = ideal_dcg(queries, positions), 0.0
    for q in range(len(queries)):
        first, last = queries.offsets[q], queries.offsets[q + 1]
        order = np.argsort(-scores[first:last], kind="stable")[:positions]
        total += dcg(queries.labels[first:last][order]) / best[q] if best[q] > 0 else 0.0
    return float(total / len(queries))
