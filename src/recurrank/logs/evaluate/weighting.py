"""Estimators by weights: item-position (IIPS), reward-interaction (RIPS), self-normalised versions, cascade doubly robust.

| estimator | clicks at k depend on | formula, mean over pages of |
|---|---|---|
| iips (Li et al. 2018) | the item at k and the position | sum_k w_k c_k |
| rips (McInerney et al. 2020) | the items at 1, ..., k | sum_k W_k c_k |
| cascade-dr (Kiyohara et al. 2022) | the items at 1, ..., k | sum_k [ W_k (c_k - Q_k(a_1..k)) + W_(k-1) V_k ] |

w and W are those of ``weights.py``; a self-normalised version (sn-) divides each position's sum by that of its weights. The
baseline of the doubly robust one is Q_k = q_k(a_k) + V_(k+1), where V_k is the sum of q_j at the policy's items from k down,
and q the click rate by query, item and position, from the other half of the pages. Then W_k V_(k+1) cancels along the page:

    sum_k q_k(policy's item) + sum_k W_k (c_k - q_k(a_k)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats
from recurrank._compiled import apart
from recurrank.logs.evaluate.intervals import GROUPS, bernstein, bootstrap, group_sizes
from recurrank.logs.evaluate.policy import Policy
from recurrank.logs.evaluate.result import Estimate
from recurrank.logs.evaluate.weights import Moments, Refused, check, marginal, moments, prefix
from recurrank.logs.sessions import EMPTY, Codes, Marks, Pairs, Sessions, code_pairs, pairs_of

SHRINK = 10.0
"""Weight, in pages, of the position's click rate in the baseline of an item there."""


class Weighing:
    """The weights of a log's pages for a policy; each kind is computed once for all estimators."""

    def __init__(self, log: Sessions, policy: Policy) -> None:
        self.log, self.policy = log, policy
        active: Bools = log.items != EMPTY
        if policy.target is not None and (policy.target == EMPTY).any():
            active &= policy.target[log.query] != EMPTY
        self.active = active
        self.marginal, self.prefix = (cache(partial(self._checked, kind)) for kind in (marginal, prefix))

    def _checked(self, kind: Callable[[Sessions, Policy], Floats]) -> Weights | Refused:
        try:
            weights, sums = kind(self.log, self.policy), np.zeros((3, self.log.positions))
            moments(weights, self.active, sums)
            totals = Moments(*sums)
            check(totals)
        except Refused as reason:
            return reason
        earned, total = summed(weights, self.log.clicks)
        return Weights(weights, totals, earned, total)


class Weights(NamedTuple):
    """Weights by page and position, zero beyond the end of the page or the policy.

    ``earned`` and ``total`` are sums over groups of pages, by position: of weighted clicks, and of the weights themselves.
    """

    values: Floats
    moments: Moments
    earned: Floats
    total: Floats

    @property
    def effective(self) -> float:
        """The least effective sample size of a position."""
        return float(self.moments.effective[self.moments.pages > 0].min())


def summed(weights: Floats, clicks: Marks) -> tuple[Floats, Floats]:
    """The sums of weighted clicks and of weights over groups of pages."""
    groups = min(len(weights), GROUPS)
    sums = np.zeros((2, groups, weights.shape[1]))
    _add(weights, clicks, len(weights) // groups, *sums)
    return sums[0], sums[1]


@apart
def _add(weights: Floats, clicks: Marks, size: int, earned: Floats, total: Floats) -> None:
    for row in range(len(weights)):
        group = row // size if row < size * len(earned) else row - size * len(earned)
        for k in range(weights.shape[1]):
            if weights[row, k] > 0.0:
                total[group, k] += weights[row, k]
                earned[group, k] += weights[row, k] * clicks[row, k]


def weighted(weighing: Weighing, name: str, interval: str, seed: int) -> Estimate:
    """iips, rips, sn-iips or sn-rips."""
    weights = _answer(weighing.prefix() if name.endswith("rips") else weighing.marginal())
    pages, totals = len(weighing.log), weights.moments
    if name.startswith("sn-"):
        present = totals.pages > 0
        expected = weights.total[:, present] * (pages / totals.pages[present])  # on average 1 per page
        value = float((weights.earned[:, present].sum(axis=0) / np.maximum(expected.sum(axis=0), 1e-300)).sum())
        return Estimate(name, value, *bootstrap(weights.earned[:, present], expected, seed), weights.effective)
    value = float(weights.earned.sum() / pages)
    if interval == "bernstein":
        earned = (weights.values * weighing.log.clicks).sum(axis=1)
        return Estimate(name, value, *bernstein(earned, _largest(weights)), weights.effective)
    return Estimate(name, value, *bootstrap(weights.earned.sum(axis=1), group_sizes(pages), seed), weights.effective)


def doubly_robust(weighing: Weighing, interval: str, seed: int) -> Estimate:
    """cascade-dr."""
    found = _answer(weighing.prefix())
    weights = found.values
    log, policy, active = weighing.log, weighing.policy, weighing.active
    pages = np.zeros(len(log))
    half = np.arange(len(log)) % 2 == 1
    pairs, coded = pairs_of(log)
    wanted = coded if policy.target is None else _coded_target(log, policy.target, pairs)[log.query]
    for fold in (half, ~half):
        rate = _rates(coded[~fold], log.clicks[~fold], len(pairs))
        shown, target = (rate[rows[fold], np.arange(log.positions)] for rows in (coded, wanted))
        pages[fold] = np.where(active[fold], target + weights[fold] * (log.clicks[fold] - shown), 0.0).sum(axis=1)
    spread = bernstein(pages, _largest(found)) if interval == "bernstein" else bootstrap(pages, None, seed)
    return Estimate("cascade-dr", float(pages.mean()), *spread, found.effective)


def _answer(found: Weights | Refused) -> Weights:
    if isinstance(found, Refused):
        raise found
    return found


def _largest(weights: Weights) -> float:
    """The most that a page may earn."""
    most: float = weights.values.max() * weights.values.shape[1]
    return most


def _rates(coded: Codes, clicks: Marks, pairs: int) -> Floats:
    """Click rates by pair and position, shrunk to the position's; the last row (index -1) is for pairs not in the log."""
    shown = coded >= 0
    positions = coded.shape[1]
    by_position = clicks.sum(axis=0) / np.maximum(shown.sum(axis=0), 1)
    keys = (coded.astype(np.int64) * positions + np.arange(positions))[shown]
    count = np.bincount(keys, minlength=pairs * positions).reshape(-1, positions)
    clicked = np.bincount(keys, clicks[shown], pairs * positions).reshape(-1, positions)
    return np.vstack([(clicked + SHRINK * by_position) / (count + SHRINK), by_position])


def _coded_target(log: Sessions, target: Codes, pairs: Pairs) -> Codes:
    """The policy's items by query in terms of pairs, -1 for those that are not in the log."""
    queries = np.arange(len(log.query_ids), dtype=np.int32)
    targets = replace(log, query=queries, items=target, clicks=np.zeros(target.shape, np.uint8))
    items = np.arange(len(log.item_ids), dtype=np.int32)
    return np.maximum(code_pairs(targets, pairs, queries, items), -1)
