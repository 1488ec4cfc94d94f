"""Models in which users read from the top and stop somewhere: cascade, dependent click, dynamic Bayesian, simplified or not.

An examined item is clicked with probability a. After a click the user is satisfied and stops with probability s; unsatisfied
users, and those who did not click, go on with probability g.

| model | s | g |
|---|---|---|
| cascade | 1 | 1 |
| dependent click (Guo, Liu, Wang 2009) | 1 - lambda_k, by position | 1 |
| simplified dynamic Bayesian (Chapelle, Zhang 2009) | by item | 1 |
| dynamic Bayesian | by item | one number |

Everything up to the last click at l was examined, so counts of that part are collected once. The part below is the *tail*,
without clicks, and the user may have stopped anywhere in it. With

    T_k = (1 - a_k) G_k        no click from k on, if k is examined
    G_k = (1 - g) + g T_{k+1}  no click below k, if the user is not satisfied at k;   G_{K-1} = 1

the tail's likelihood is s_l + (1 - s_l) G_l, or T_0 if nothing was clicked, and the probability that a position of the
tail was examined follows from the top down. Equal tails are processed once.

The published closed forms (the user stops at the last click) maximise a bound; this module maximises the likelihood itself.
A page of the cascade model ends with its first click. Real pages do not: clicks below it are slips with their own
probability, so that such pages have a positive one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import apart
from recurrank.logs.fit.climb import Values
from recurrank.logs.fit.family import Expected, Family, by_position
from recurrank.logs.sessions import Codes, Marks


class Tails(NamedTuple):
    """Distinct tails, sorted by query so that their parameters stay in the cache.

    Tail t has the items ``items[begin[t]:begin[t + 1]]``, the clicked one first where ``last[t]``, the position of the last
    click, is not -1. Tails without items below a click have no information and are skipped.
    """

    items: Codes
    begin: Ints
    last: Codes
    query: Codes
    weight: Floats


class Chain:
    """Statistics of a log for one of these models.

    Args:
        items: pages in terms of pairs; shape (n, K).
        clicks: shape (n, K).
        lengths: the lengths of the pages.
        query: the query of each page; all 0 if behaviour is the same for all queries.
        queries: the number of queries.
        parents: the query of each pair.
        satisfied: whether s is by "item", by "position" (within a query) or always 1 ("always").
        gives_up: whether g is a parameter (one per query); otherwise it is 1.
        tails: the tails of these pages, if they are known.

    """

    def __init__(
        self,
        items: Codes,
        clicks: Marks,
        lengths: Ints,
        query: Codes,
        queries: int,
        parents: Codes,
        satisfied: str,
        gives_up: bool,
        tails: Tails | None = None,
    ) -> None:
        self.positions = items.shape[1]
        self.by_position, self.always, self.gives_up = satisfied == "position", satisfied == "always", gives_up
        self.queries = queries
        pairs = len(parents)
        members = queries * self.positions if self.by_position else pairs
        self.tails = tails or tails_of(items, clicks, lengths, query)
        self.fixed = np.zeros((3, 2, max(pairs, members, queries)))  # attraction, satisfaction, going on: ones, trials
        _count(items, clicks, lengths, query, self.by_position, self.fixed)
        self.observations = float(lengths.sum())
        clicked = float(clicks.sum())
        rate = np.clip((clicked + 0.5) / (self.fixed[0, 1].sum() + 1), 0.02, 0.6)
        top = parents.astype(np.int64)
        self.families = [Family("attraction", top, np.full(queries, rate))]
        if self.by_position:
            self.families.append(by_position("satisfaction", np.full(self.positions, 0.5), queries))
        elif not self.always:
            self.families.append(Family("satisfaction", np.zeros(pairs, np.int64), np.array([0.5])))
        if gives_up:
            self.families.append(Family("continuation", np.zeros(queries, np.int64), np.array([0.9])))

    def starts(self) -> Sequence[Values]:
        """Starts with few and with many satisfied users: if users also give up, the likelihood may have a maximum near each."""
        begin = [family.begin() for family in self.families]
        if not self.gives_up:
            return [begin]
        return [begin, [begin[0], np.full(len(begin[1]), 0.1), np.full(len(begin[2]), 0.7)]]

    def expect(self, values: Values) -> tuple[float, list[Expected]]:
        a = values[0]
        s = np.ones(self.fixed.shape[2]) if self.always else values[1]
        g = values[-1] if self.gives_up else np.ones(self.queries)
        found = np.zeros((3, 3, self.fixed.shape[2]))
        likelihood = _expect(self.tails, self.positions, self.by_position, a, s, g, found)
        sizes = [len(a), len(s) if not self.always else 0, len(g) if self.gives_up else 0]
        expected = []
        for kind, (value, size) in enumerate(zip((a, s, g), sizes, strict=True)):
            if size:
                ones, trials = self.fixed[kind, 0, :size], self.fixed[kind, 1, :size]
                value = value[:size]
                likelihood += float(ones @ np.log(value) + (trials - ones) @ np.log1p(-value))
                squares = ones * (1 - value) ** 2 + (trials - ones) * value**2
                expected.append(
                    Expected(ones + found[kind, 0, :size], trials + found[kind, 1, :size], squares + found[kind, 2, :size])
                )
        return likelihood, expected


def tails_of(items: Codes, clicks: Marks, lengths: Ints, query: Codes) -> Tails:
    """The distinct tails of a log, distinguished by a 64-bit hash: with 10^7 tails, one log in 400,000 has a collision."""
    keys, last = _keys(items, clicks, lengths)
    _, row, weight = np.unique(keys, return_index=True, return_counts=True)
    kept = last[row] < lengths[row] - 1
    row, weight = row[kept], weight[kept]
    order = np.lexsort((items[row, 0], query[row]))
    row, weight = row[order], weight[order]
    begin = np.zeros(len(row) + 1, np.int64)
    np.cumsum(lengths[row] - np.maximum(last[row], 0), out=begin[1:])
    return Tails(_gather(items, row, last, begin), begin, last[row], query[row], weight.astype(np.float64))


@apart
def _gather(items: Codes, rows: Ints, last: Codes, begin: Ints) -> Codes:
    gathered = np.empty(begin[-1], np.int32)
    for tail in range(len(rows)):
        first = max(last[rows[tail]], 0)
        for k in range(begin[tail + 1] - begin[tail]):
            gathered[begin[tail] + k] = items[rows[tail], first + k]
    return gathered


@apart
def _keys(items: Codes, clicks: Marks, lengths: Ints) -> tuple[Ints, Codes]:
    keys = np.empty(len(items), np.int64)
    last = np.empty(len(items), np.int32)
    for row in range(len(items)):
        end = lengths[row] - 1
        while end >= 0 and not clicks[row, end]:
            end -= 1
        last[row] = end
        key = np.uint64(end + 2) * np.uint64(0xD1B54A32D192ED03) + np.uint64(lengths[row])
        for k in range(max(end, 0), lengths[row]):
            key = (key ^ np.uint64(items[row, k] + 1)) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        keys[row] = np.int64(key)
    return keys, last


@apart
def _count(items: Codes, clicks: Marks, lengths: Ints, query: Codes, by_position: bool, fixed: Floats) -> None:
    """Count pages down to their last click, where everything was examined."""
    positions = items.shape[1]
    for row in range(len(items)):
        end = lengths[row] - 1
        while end >= 0 and not clicks[row, end]:
            end -= 1
        for k in range(end + 1):
            i = items[row, k]
            fixed[0, 1, i] += 1
            if clicks[row, k]:
                fixed[0, 0, i] += 1
                if k < end:
                    fixed[1, 1, query[row] * positions + k if by_position else i] += 1
            if k < end:
                fixed[2, 0, query[row]] += 1
                fixed[2, 1, query[row]] += 1


@apart
def _expect(tails: Tails, positions: int, by_position: bool, a: Floats, s: Floats, g: Floats, found: Floats) -> float:
    below = np.empty(positions + 1)  # G_k, k counted from the tail's first item
    likelihood, product = 0.0, 1.0  # a product of probabilities needs one logarithm
    for tail in range(len(tails.weight)):
        items = tails.items[tails.begin[tail] : tails.begin[tail + 1]]
        end, q, weight = tails.last[tail], tails.query[tail], tails.weight[tail]
        length, onward = len(items), g[q]
        below[length - 1] = 1.0
        for k in range(length - 1, 0, -1):
            # G_{k-1} = (1 - g) + g T_k
            below[k - 1] = 1 - onward + onward * (1 - a[items[k]]) * below[k]
        examined = 1.0  # the probability that position k was examined, given the tail
        first = 0
        if end >= 0:
            x = q * positions + end if by_position else items[0]
            total = s[x] + (1 - s[x]) * below[0]
            satisfied = s[x] / total
            found[1, 0, x] += weight * satisfied
            found[1, 1, x] += weight
            found[1, 2, x] += weight * (satisfied - s[x]) ** 2
            examined = _go_on(found, q, weight, 1 - satisfied, onward, (1 - a[items[1]]) * below[1], below[0])
            first = 1
        else:
            total = (1 - a[items[0]]) * below[0]
        if weight == 1:
            product *= total
            if product < 1e-250:
                likelihood += np.log(product)
                product = 1.0
        else:
            likelihood += weight * np.log(total)
        for k in range(first, length):
            i = items[k]
            found[0, 1, i] += weight * examined
            found[0, 2, i] += weight * (examined * a[i]) ** 2
            if k < length - 1:
                examined = _go_on(found, q, weight, examined, onward, (1 - a[items[k + 1]]) * below[k + 1], below[k])
    return float(likelihood + np.log(product))


@apart
def _go_on(found: Floats, q: int, weight: float, examined: float, onward: float, after: float, below: float) -> float:
    """Count a user at a position of the tail who may go on; return the probability that the next one was examined."""
    next_examined: float = examined * onward * after / below
    found[2, 0, q] += weight * next_examined
    found[2, 1, q] += weight * examined
    found[2, 2, q] += weight * (next_examined - onward * examined) ** 2
    return next_examined
