"""Chains whose users never give up (dependent click, simplified dynamic Bayesian), fitted to clicks and to positions at once.

Real users do give up, so such a model cannot fit both the clicks given those above a position (its likelihood) and the
click rate of the position (its perplexity): if only the likelihood is maximised, the model predicts too many clicks at lower
positions. The objective here is a composite likelihood (Lindsay 1988; Varin, Reid, Firth 2011)

    (1 - w) sum over pages of ln P(clicks) + w sum over pages and positions of ln P(what happened at k)

Each term is the likelihood of an observation, so a correct model is still found, and EM applies to the sum: the objective
never falls. With a the attraction, s the satisfaction and R_k the probability that position k is examined,

    p_k = a_k R_k,        R_0 = 1,        R_(k+1) = R_k (1 - a_k s_k)

| observed | expected at a position j < k above it |
|---|---|
| click at k | examined; attracted with probability a_j (1 - s_j) / (1 - a_j s_j); not satisfied |
| no click at k | (the expectation without knowing - p_k times the row above) / (1 - p_k) |

so the sums over k > j of c_k - m_k p_k / (1 - p_k) and of m_k / (1 - p_k) are sufficient for position j, where c_k are the
clicks and m_k the skips at position k of equal pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import apart
from recurrank.logs.fit.chain import Chain
from recurrank.logs.fit.climb import Values
from recurrank.logs.fit.family import Expected
from recurrank.logs.sessions import Codes, Marks

WEIGHT = 0.97
"""The weight w of the positions. On the Yandex pages, where the two disagree, it improves both likelihood and perplexity over
the published closed forms; a smaller weight improves the likelihood more, but not the perplexity."""


class Distinct(NamedTuple):
    """Distinct pages, sorted by query: items and clicks by position, the number of such pages, and their query."""

    items: Codes
    clicks: Floats
    lengths: Ints
    weight: Floats
    query: Codes


class Composite:
    """A chain with the marginal click probabilities in its objective.

    Args:
        chain: its statistics for the likelihood; its families are shared.
        items: pages in terms of pairs; shape (n, K).
        clicks: shape (n, K).
        lengths: the lengths of the pages.
        query: the query of each page.

    """

    def __init__(self, chain: Chain, items: Codes, clicks: Marks, lengths: Ints, query: Codes) -> None:
        self.chain, self.families, self.observations = chain, chain.families, chain.observations
        self.pages = distinct(items, clicks, lengths, query)

    def starts(self) -> Sequence[Values]:
        """The chain's start values."""
        return self.chain.starts()

    def expect(self, values: Values) -> tuple[float, list[Expected]]:
        likelihood, expected = self.chain.expect(values)
        attraction, satisfaction = values
        found = np.zeros((2, 2, max(len(attraction), len(satisfaction))))
        marginal = _expect(self.pages, self.chain.by_position, attraction, satisfaction, found)
        both = []
        for kind, own in enumerate(expected):
            ones, trials = found[kind, :, : len(own.ones)]
            both.append(
                Expected((1 - WEIGHT) * own.ones + WEIGHT * ones, (1 - WEIGHT) * own.trials + WEIGHT * trials, own.squares)
            )
        return (1 - WEIGHT) * likelihood + WEIGHT * marginal, both


def distinct(items: Codes, clicks: Marks, lengths: Ints, query: Codes) -> Distinct:
    """The distinct pages of a log, distinguished by a 64-bit hash as tails are."""
    order, first = _grouped(_keys(items), query)
    rows = order[first]
    weight = np.diff(np.r_[first, len(order)])
    return Distinct(items[rows], _sums(clicks, order, first), lengths[rows], weight.astype(np.float64), query[rows])


def _grouped(keys: Ints, query: Codes) -> tuple[Ints, Ints]:
    """The order of pages by query and key, and the start of each group of equal ones."""
    order = np.lexsort((keys, query))
    ordered = keys[order]
    return order, np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])


@apart
def _keys(items: Codes) -> Ints:
    keys = np.empty(len(items), np.int64)
    for row in range(len(items)):
        key = np.uint64(0xD1B54A32D192ED03)
        for k in range(items.shape[1]):
            key = (key ^ np.uint64(items[row, k] + 2)) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        keys[row] = np.int64(key)
    return keys


@apart
def _sums(clicks: Marks, order: Ints, first: Ints) -> Floats:
    sums = np.zeros((len(first), clicks.shape[1]))
    for group in range(len(first)):
        end = first[group + 1] if group + 1 < len(first) else len(order)
        for row in order[first[group] : end]:
            for k in range(clicks.shape[1]):
                sums[group, k] += clicks[row, k]
    return sums


@apart
def _expect(pages: Distinct, by_position: bool, a: Floats, s: Floats, found: Floats) -> float:
    width = pages.items.shape[1]
    reached, satisfied = np.empty(width), np.empty(width, np.int64)
    likelihood, product = 0.0, 1.0  # a product of probabilities needs one logarithm
    for page in range(len(pages.weight)):
        items, n, length = pages.items[page], pages.weight[page], pages.lengths[page]
        examined = 1.0
        for k in range(length):
            x = pages.query[page] * width + k if by_position else np.int64(items[k])
            reached[k], satisfied[k] = examined, x
            examined *= 1 - a[items[k]] * s[x]
        above, unknown = 0.0, 0.0  # sums over the positions below of c - m p / (1 - p) and of m / (1 - p)
        for k in range(length - 1, -1, -1):
            i, x, clicked = items[k], satisfied[k], pages.clicks[page, k]
            skipped, p = n - clicked, a[i] * reached[k]
            share = skipped / (1 - p)
            if n == 1:
                product *= p if clicked > 0 else 1 - p
                if product < 1e-250:
                    likelihood += np.log(product)
                    product = 1.0
            else:
                likelihood += clicked * np.log(p) + skipped * np.log(1 - p)
            attracted = above * a[i] * (1 - s[x]) / (1 - a[i] * s[x]) + unknown * p
            found[0, 0, i] += clicked + attracted
            found[0, 1, i] += clicked + share * (reached[k] - p) + above + unknown * reached[k]
            found[1, 0, x] += unknown * p * s[x]
            found[1, 1, x] += attracted
            above += clicked - share * p
            unknown += share
    return float(likelihood + np.log(product))
