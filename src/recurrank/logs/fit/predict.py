"""Log-probabilities of the clicks of a log under fitted models: given the clicks above a position, and unconditional.

    log-likelihood  mean over pages and positions of ln P(what happened at k | clicks above k)
    perplexity      mean over positions k of 2^(-mean over pages of lb P(what happened at k))

Both functions add to ``pages`` the logarithms given the clicks above, and to ``positions`` the logarithms of the unconditional
(row 0) and conditional probabilities (row 1), and the number of pages that have the position (row 2).
"""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import apart
from recurrank.logs.sessions import Codes, Marks

LEAST = 1e-12
"""Probabilities are clipped to [LEAST, 1 - LEAST]."""


@apart
def _logarithm(probability: float, clicked: int) -> float:
    p = min(max(probability, LEAST), 1 - LEAST)
    return float(np.log(p if clicked else 1 - p))


@apart
def score_product(
    items: Codes,
    clicks: Marks,
    lengths: Ints,
    query: Codes,
    browsing: bool,
    attraction: Floats,
    unseen: Floats,
    examination: Floats,
    pages: Floats,
    positions: Floats,
) -> None:
    """Position-based (``examination[q, k]``) and user browsing (``examination[q, k K + j]``) models.

    ``unseen[q]`` is the attraction of an item that the model was not fitted to.
    """
    width = items.shape[1]
    law = np.empty(width)  # distribution of the last click's position above k; the last entry: none
    for row in range(len(items)):
        q, last = query[row], width - 1
        law[:] = 0.0
        law[width - 1] = 1.0
        for k in range(lengths[row]):
            a = attraction[items[row, k]] if items[row, k] >= 0 else unseen[q]
            if browsing:
                given = a * examination[q, k * width + last]
                click = 0.0
                for j in range(k):
                    click += law[j] * examination[q, k * width + j] * a
                    law[j] *= 1 - examination[q, k * width + j] * a
                click += law[width - 1] * examination[q, k * width + width - 1] * a
                law[width - 1] *= 1 - examination[q, k * width + width - 1] * a
                if k < width - 1:
                    law[k] = click
            else:
                given = click = a * examination[q, k]
            happened = clicks[row, k]
            logarithm = _logarithm(given, happened)
            pages[row] += logarithm
            positions[0, k] += _logarithm(click, happened)
            positions[1, k] += logarithm
            positions[2, k] += 1
            if happened:
                last = k


@apart
def score_chain(
    items: Codes,
    clicks: Marks,
    lengths: Ints,
    query: Codes,
    attraction: Floats,
    unseen: Floats,
    stay: Floats,
    unseen_stay: Floats,
    by_position: bool,
    onward: Floats,
    slip: float,
    pages: Floats,
    positions: Floats,
) -> None:
    """Chains: after a click users go on with ``stay`` (by pair, or by query and position), after a skip with ``onward[q]``.

    ``slip`` is the probability of a click on an unexamined item.
    """
    width = items.shape[1]
    for row in range(len(items)):
        q = query[row]
        reached, marginal = 1.0, 1.0
        for k in range(lengths[row]):
            i = items[row, k]
            a = attraction[i] if i >= 0 else unseen[q]
            on = stay[q * width + k] if by_position else (stay[i] if i >= 0 else unseen_stay[q])
            happened = clicks[row, k]
            given = reached * a + (1 - reached) * slip
            logarithm = _logarithm(given, happened)
            pages[row] += logarithm
            positions[0, k] += _logarithm(marginal * a + (1 - marginal) * slip, happened)
            positions[1, k] += logarithm
            positions[2, k] += 1
            if happened:
                reached = on * reached * a / max(given, LEAST)
            else:
                reached = onward[q] * reached * (1 - a) / max(1 - given, LEAST)
            marginal *= onward[q] * (1 - a) + a * on
