"""One request of :mod:`recurrank.rankers.anchored` in one compiled call: the slate, and how probable it was.

The samples are drawn beforehand, so that a request has one outcome per sample, all equally probable, and the best-known order.
All of these are computed, the drawn one is shown, and the probabilities of what is shown are sums over those that agree.
Slates are those of ``anchored_rounds.choose``, to the bit; that one computes nothing but the outcome it needs.

Its arguments are arrays and numbers: a state of forty arrays takes longer to unpack than a hundred candidates to rank.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import inner, loop
from recurrank.rankers.engines.anchored_rounds import EXPLORE, PAY, insured
from recurrank.rankers.engines.requests import EXPLOITED, INSURED, SAMPLED, Highest, best, disputed, dot

GIVEN = -2
"""Instead of a drawn sample: ``chosen`` is given, and only its probability is computed."""


class Recall(NamedTuple):
    """The scores of a catalogue's items computed so far; all requests until the next estimate share them."""

    features: Floats  # (L, d) of the items
    table: Floats  # (L, V), or no rows if nothing is remembered
    known: Bools  # (L,) which rows of the table are filled

    @staticmethod
    def of(features: Floats, vectors: int, most: int) -> Recall:
        """An empty table; without rows, so that nothing is remembered, if it would take more than ``most`` bytes."""
        items = len(features) if 8 * len(features) * vectors <= most else 0
        return Recall(features, np.empty((items, vectors)), np.zeros(items, np.bool_))


NOTHING = Recall.of(np.zeros((0, 0)), 0, 0)
"""For candidates whose features the request brings."""


class Room(NamedTuple):
    """Scratch arrays for requests of up to n candidates, V vectors and K positions."""

    columns: Floats  # (d, n) the candidates' features
    parts: Floats  # (4, n) sums of a score
    scores: Floats  # (V, n)
    top: Floats  # (n + 1,)
    kept: Ints  # (n + 1,)
    lists: Ints  # (3, K) the order, a rival and an outcome

    @staticmethod
    def of(candidates: int, vectors: int, dim: int, positions: int) -> Room:
        """Arrays of these sizes."""
        n = candidates
        return Room(
            np.empty((dim, n)), np.empty((4, n)), np.empty((vectors, n)), np.empty(n + 1), np.empty(n + 1, np.int64),
            np.zeros((3, positions), np.int64),
        )  # fmt: skip


@loop
def answer(
    features: Floats, rows: Ints, slots: Ints, vectors: Floats, worth: Floats, constant: float, link: int, account: float,
    explore: float, drawn: int, table: Floats, known: Bools, columns: Floats, parts: Floats, scores: Floats, top: Floats,
    kept: Ints, lists: Ints, chosen: Ints, marginal: Floats,
) -> tuple[int, float, float, float]:  # fmt: skip
    """Fill ``chosen`` (indices of candidates) and ``marginal``; return what was done, paid in and spent, and the probability.

    ``vectors`` has theta, then S samples, then S doubts. ``drawn`` is the sample that was drawn, or -1 for the order; GIVEN
    leaves ``chosen`` as it is.
    """
    size, samples, room = len(slots), len(vectors) // 2, Highest(top, kept)
    order, rival, tried = lists[0], lists[1], lists[2]
    if len(known) > 0:
        recall(features, rows, vectors, constant, table, known, scores)
    else:
        turn(features, rows, columns)
        score_all(columns, len(rows), vectors, constant, parts, scores)
    best(scores[0], len(rows), size, order, room)
    done, paid, cost = EXPLOITED, 0.0, 0.0
    if drawn >= 0:
        done, paid, cost = _outcome(drawn, samples, len(rows), slots, worth, link, account, scores, room, order, rival, chosen)
    elif drawn == -1:
        for j in range(size):
            chosen[j] = order[j]
    for j in range(size):
        marginal[j] = 0.0
    joint, share = weigh(order, chosen, size, 1 - EXPLORE * explore, marginal), EXPLORE * explore / samples
    if share > 0:
        for s in range(samples):
            _outcome(s, samples, len(rows), slots, worth, link, account, scores, room, order, rival, tried)
            joint += weigh(tried, chosen, size, share, marginal)
    return done, paid, cost, joint


@inner
def _outcome(
    s: int, samples: int, count: int, slots: Ints, worth: Floats, link: int, account: float, scores: Floats, room: Highest,
    order: Ints, rival: Ints, out: Ints,
) -> tuple[int, float, float]:  # fmt: skip
    """Fill ``out`` with what the s-th samples show; return what is done, paid in and spent (``anchored_rounds._explore``)."""
    size, doubt = len(slots), scores[1 + samples + s]
    best(doubt, count, size, rival, room)
    loss, y, index, price = disputed(order, rival, scores[0], doubt, worth, slots, size, link)
    gain = PAY * loss
    if y >= 0 and slots[0] == 0 and account + gain >= price:
        for j in range(size):
            out[j] = insured(order, y, index, j)
        return INSURED, gain, price
    best(scores[1 + s], count, size, out, room)
    return SAMPLED, gain, 0.0


@inner
def weigh(outcome: Ints, chosen: Ints, size: int, share: float, marginal: Floats) -> float:
    """Add an outcome of probability ``share`` to the marginals; return ``share`` if it is exactly what was chosen, else 0."""
    joint = share
    for j in range(size):
        if outcome[j] == chosen[j]:
            marginal[j] += share
        else:
            joint = 0.0
    return joint


@inner
def recall(features: Floats, rows: Ints, vectors: Floats, constant: float, table: Floats, known: Bools, scores: Floats) -> None:
    """The score of every candidate by every vector, from the table, which is filled where necessary."""
    for i in range(len(rows)):
        row = rows[i]
        if not known[row]:
            for v in range(len(vectors)):
                table[row, v] = _number(dot(features, row, vectors[v], constant))
            known[row] = True
        for v in range(len(vectors)):
            scores[v, i] = table[row, v]


@inner
def _number(score: float) -> float:
    """The score; or the lowest one, where features are so large that their sums are not numbers."""
    return score if score == score else -np.inf


@inner
def turn(features: Floats, rows: Ints, columns: Floats) -> None:
    """One column per candidate."""
    for i in range(len(rows)):
        for p in range(features.shape[1]):
            columns[p, i] = features[rows[i], p]


@inner
def score_all(columns: Floats, count: int, vectors: Floats, constant: float, parts: Floats, scores: Floats) -> None:
    """The score of every candidate by every vector: the four sums of ``requests.dot``, many candidates at a time."""
    dim = len(columns)
    a, b, c, d = parts[0], parts[1], parts[2], parts[3]
    for v in range(len(vectors)):
        theta, out = vectors[v], scores[v]
        for i in range(count):
            a[i] = constant * theta[0]
            b[i] = 0.0
            c[i] = 0.0
            d[i] = 0.0
        p = 0
        while p + 7 < dim:
            _eight(columns, p, count, theta, a, b, c, d)
            p += 8
        while p + 3 < dim:
            for i in range(count):
                a[i] += columns[p, i] * theta[p + 1]
                b[i] += columns[p + 1, i] * theta[p + 2]
                c[i] += columns[p + 2, i] * theta[p + 3]
                d[i] += columns[p + 3, i] * theta[p + 4]
            p += 4
        while p < dim:
            for i in range(count):
                a[i] += columns[p, i] * theta[p + 1]
            p += 1
        for i in range(count):
            out[i] = _number((a[i] + b[i]) + (c[i] + d[i]))


@inner
def _eight(columns: Floats, p: int, count: int, theta: Floats, a: Floats, b: Floats, c: Floats, d: Floats) -> None:
    """Eight features, from p on: the sums are loaded and stored half as often as with four."""
    x0, x1, x2, x3 = columns[p], columns[p + 1], columns[p + 2], columns[p + 3]
    x4, x5, x6, x7 = columns[p + 4], columns[p + 5], columns[p + 6], columns[p + 7]
    t0, t1, t2, t3 = theta[p + 1], theta[p + 2], theta[p + 3], theta[p + 4]
    t4, t5, t6, t7 = theta[p + 5], theta[p + 6], theta[p + 7], theta[p + 8]
    for i in range(count):
        a[i] = (a[i] + x0[i] * t0) + x4[i] * t4
        b[i] = (b[i] + x1[i] * t1) + x5[i] * t5
        c[i] = (c[i] + x2[i] * t2) + x6[i] * t6
        d[i] = (d[i] + x3[i] * t3) + x7[i] * t7
