"""The click chain model: like the chains of ``chain.py``, but whether users go on after a click depends on the relevance r.

    P(click | examined) = r,   P(go on | no click) = alpha1,   P(go on | click) = alpha2 (1 - r) + alpha3 r

The last is a mixture: with probability r the clicked item was relevant, and the user goes on with alpha3, else with alpha2. So
r is the probability of two coins, attraction and relevance, and EM has expected counts for all parameters:

| after a click | likelihood |
|---|---|
| relevant, goes on, no click below | r alpha3 T |
| not relevant, goes on, no click below | (1 - r) alpha2 T |
| relevant, stops | r (1 - alpha3) |
| not relevant, stops | (1 - r) (1 - alpha2) |

with T_k = (1 - r_k) (1 - alpha1 + alpha1 T_{k+1}) as in ``chain.py`` with g = alpha1; T is 1 where clicks below show that the
user went on. Guo, Liu, Kannan, Minka, Taylor, Wang, Faloutsos 2009 integrate over r instead; the likelihood is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import apart
from recurrank.logs.fit.chain import Tails, tails_of
from recurrank.logs.fit.climb import Values
from recurrank.logs.fit.family import Expected, Family
from recurrank.logs.sessions import Codes, Marks


class ClickChainCounts:
    """Statistics of a log for the click chain model; the arguments are those of :class:`~recurrank.logs.fit.chain.Chain`."""

    def __init__(
        self,
        items: Codes,
        clicks: Marks,
        lengths: Ints,
        query: Codes,
        queries: int,
        parents: Codes,
        tails: Tails | None = None,
    ) -> None:
        self.positions = items.shape[1]
        self.queries = queries
        self.group = parents if self.queries > 1 else np.zeros(len(parents), np.int32)  # a pair's behaviour
        self.tails = tails or tails_of(items, clicks, lengths, query)
        # by pair: clicks with clicks below, clicks at the end of a page, skips above a click; by query: skips above a click
        self.counts = np.zeros((4, max(len(parents), self.queries)))
        _count(items, clicks, lengths, query, self.counts)
        self.observations = float(lengths.sum())
        examined = self.counts[:3].sum()
        rate = np.clip((clicks.sum() + 0.5) / (examined + 1), 0.02, 0.6)
        top, none = parents.astype(np.int64), np.zeros(self.queries, np.int64)
        self.families = [
            Family("attraction", top, np.full(queries, rate)),
            Family("alpha1", none, np.array([0.9])),
            Family("alpha2", none, np.array([0.6])),
            Family("alpha3", none, np.array([0.4])),
        ]

    def starts(self) -> Sequence[Values]:
        """Starts with users who stop at relevant items, at irrelevant ones, and who give up early."""
        begin = [family.begin() for family in self.families]
        others = [(0.9, 0.3, 0.8), (0.6, 0.8, 0.6)]
        return [begin, *([begin[0], *(np.full(self.queries, value) for value in three)] for three in others)]

    def expect(self, values: Values) -> tuple[float, list[Expected]]:
        found = np.zeros((4, 3, self.counts.shape[1]))
        r, alpha1, alpha2, alpha3 = values
        likelihood = _expect_counts(self.counts, self.group, self.queries, r, alpha1, alpha2, alpha3, found)
        likelihood += _expect_tails(self.tails, self.positions, r, alpha1, alpha2, alpha3, found)
        by_kind = [found[kind, :, : len(value)] for kind, value in enumerate(values)]
        return likelihood, [Expected(*parts) for parts in by_kind]


@apart
def _count(items: Codes, clicks: Marks, lengths: Ints, query: Codes, counts: Floats) -> None:
    for row in range(len(items)):
        end = lengths[row] - 1
        while end >= 0 and not clicks[row, end]:
            end -= 1
        for k in range(end + 1):
            i = items[row, k]
            if not clicks[row, k]:
                counts[2, i] += 1
                counts[3, query[row]] += 1
            elif k < end:
                counts[0, i] += 1
            elif k == lengths[row] - 1:
                counts[1, i] += 1


@apart
def _expect_counts(
    counts: Floats, group: Codes, queries: int, r: Floats, alpha1: Floats, alpha2: Floats, alpha3: Floats, found: Floats
) -> float:
    """Expected counts of pages down to their last click."""
    likelihood = 0.0
    for i in range(len(r)):
        on, at_end, skips = counts[0, i], counts[1, i], counts[2, i]
        q = group[i]
        onward = alpha2[q] * (1 - r[i]) + alpha3[q] * r[i]
        relevant = alpha3[q] * r[i] / onward
        likelihood += on * np.log(r[i] * onward) + at_end * np.log(r[i]) + skips * np.log(1 - r[i])
        found[0, 0, i] += on * (1 + relevant) + at_end
        found[0, 1, i] += 2 * on + at_end + skips
        found[0, 2, i] += on * (1 + relevant - 2 * r[i]) ** 2 + at_end * (1 - r[i]) ** 2 + skips * r[i] ** 2
        _went_on(found, 2, q, on, 1 - relevant, 1 - relevant, alpha2[q])
        _went_on(found, 3, q, on, relevant, relevant, alpha3[q])
    for q in range(queries):
        likelihood += counts[3, q] * np.log(alpha1[q])
        _went_on(found, 1, q, counts[3, q], 1.0, 1.0, alpha1[q])
    return likelihood


@apart
def _went_on(found: Floats, kind: int, q: int, weight: float, ones: float, trials: float, value: float) -> None:
    found[kind, 0, q] += weight * ones
    found[kind, 1, q] += weight * trials
    found[kind, 2, q] += weight * (ones - value * trials) ** 2


@apart
def _expect_tails(
    tails: Tails, positions: int, r: Floats, alpha1: Floats, alpha2: Floats, alpha3: Floats, found: Floats
) -> float:
    below = np.empty(positions + 1)
    likelihood, product = 0.0, 1.0  # a product of probabilities needs one logarithm
    for tail in range(len(tails.weight)):
        items = tails.items[tails.begin[tail] : tails.begin[tail + 1]]
        end, q, weight = tails.last[tail], tails.query[tail], tails.weight[tail]
        length, onward = len(items), alpha1[q]
        below[length - 1] = 1.0
        for k in range(length - 1, 0, -1):
            below[k - 1] = 1 - onward + onward * (1 - r[items[k]]) * below[k]
        examined, first = 1.0, 0
        if end < 0:
            probability = (1 - r[items[0]]) * below[0]
        else:
            i, first = items[0], 1
            after = (1 - r[items[1]]) * below[1]
            go3, go2 = r[i] * alpha3[q] * after, (1 - r[i]) * alpha2[q] * after
            stop3, stop2 = r[i] * (1 - alpha3[q]), (1 - r[i]) * (1 - alpha2[q])
            total = go3 + go2 + stop3 + stop2
            probability = r[i] * total
            relevant = (go3 + stop3) / total
            found[0, 0, i] += weight * (1 + relevant)
            found[0, 1, i] += 2 * weight
            found[0, 2, i] += weight * (1 + relevant - 2 * r[i]) ** 2
            _went_on(found, 2, q, weight, go2 / total, 1 - relevant, alpha2[q])
            _went_on(found, 3, q, weight, go3 / total, relevant, alpha3[q])
            examined = (go2 + go3) / total
        if weight == 1:
            product *= probability
            if product < 1e-250:
                likelihood += np.log(product)
                product = 1.0
        else:
            likelihood += weight * np.log(probability)
        for k in range(first, length):
            i = items[k]
            found[0, 1, i] += weight * examined
            found[0, 2, i] += weight * (examined * r[i]) ** 2
            if k < length - 1:
                next_examined = examined * onward * (1 - r[items[k + 1]]) * below[k + 1] / below[k]
                _went_on(found, 1, q, weight, next_examined, examined, onward)
                examined = next_examined
    return float(likelihood + np.log(product))
