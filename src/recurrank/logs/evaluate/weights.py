"""The weights of logged pages for a policy, and checks that a log has enough of its pages.

    marginal    w_k   = pi(a_k at k) / p(a_k at k)
    of prefixes W_k   = pi(a_1, ..., a_k) / p(a_1, ..., a_k)

For a policy with one ranking per query pi is 1 or 0. The log has the marginal probabilities p(a_k at k), and perhaps the joint
one of the whole page. Those of prefixes are products of the probabilities of each item given those above it: the log may have
them (``conditional``, as our service's export has for algorithms with blocks), or they follow from the others
(``rankers/engines/propensity.py`` says when). If they do not, only pages that begin as the policy would matter.

If the policy's items could be shown, weights average to 1. If the average is significantly less, the log never shows some of
the policy's pages, and no weighting can estimate their clicks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import apart
from recurrank.logs.evaluate.policy import Policy
from recurrank.logs.sessions import EMPTY, Codes, Sessions
from recurrank.rankers.engines.propensity import given_above

LEAST_SAMPLE = 20
"""Smallest effective sample size for an estimate."""
DOUBT = 4.0
"""Standard errors by which the mean weight may be below 1."""


class Refused(ValueError):
    """The log cannot answer; the message is the reason."""


def marginal(log: Sessions, policy: Policy) -> Floats:
    """The weights w_k; a position that neither the page nor the policy has counts as followed."""
    if policy.target is None:
        return np.ones(log.items.shape)
    if log.propensity is None:
        raise Refused("the log has no propensities: it does not say how probable what it shows was")
    return _weights(log.items, log.query, policy.target, log.propensity)


def prefix(log: Sessions, policy: Policy) -> Floats:
    """The weights W_k."""
    if policy.target is None:
        return np.ones(log.items.shape)
    if log.conditional is None and (log.propensity is None or log.joint is None):
        missing = "propensities" if log.propensity is None else "joint probabilities of pages"
        raise Refused(f"the log has no {missing}: it does not say how probable the items down to a position were together")
    unknown, nothing = np.zeros(1, np.int64), np.empty((0, log.positions))
    given = nothing if log.conditional is None else log.conditional
    marginals = nothing if log.propensity is None else log.propensity
    joint = np.empty(0) if log.joint is None else log.joint
    weights = _prefixes(log.items, log.query, policy.target, marginals, joint, given, unknown)
    if unknown[0]:
        raise Refused(
            f"on {unknown[0]:,} pages that begin as the policy's, probabilities of items given those above are not in the log "
            "and do not follow from the others"
        )
    return weights


@apart
def _weights(items: Codes, query: Codes, target: Codes, propensity: Floats) -> Floats:
    weights = np.zeros(items.shape)
    for row in range(len(items)):
        for k in range(items.shape[1]):
            if items[row, k] == target[query[row], k]:
                weights[row, k] = 1 / propensity[row, k] if items[row, k] != EMPTY else 1.0
    return weights


@apart
def _prefixes(
    items: Codes, query: Codes, target: Codes, marginal: Floats, joint: Floats, conditional: Floats, unknown: Ints
) -> Floats:
    """``unknown`` counts the pages whose weights are needed but unknown."""
    weights, given, positions = np.zeros(items.shape), np.ones(items.shape[1]), items.shape[1]
    for row in range(len(items)):
        if items[row, 0] != target[query[row], 0]:
            continue
        size = 0
        while size < positions and items[row, size] != EMPTY:
            size += 1
        known = len(conditional) > 0
        for k in range(size if known else 0):
            given[k] = conditional[row, k]
            known &= not np.isnan(given[k])
        if not known and len(joint) > 0 and len(marginal) > 0:
            known = given_above(marginal[row], joint[row], size, given)
        unknown[0] += not known
        above = 1.0
        for k in range(positions):
            if items[row, k] != target[query[row], k]:
                break
            above /= given[k] if k < size else 1.0
            weights[row, k] = above
    return weights


class Moments(NamedTuple):
    """By position, the number of pages that count there, the sum of their weights, and that of the squares."""

    pages: Floats
    total: Floats
    squares: Floats

    @property
    def effective(self) -> Floats:
        """The number of unweighted pages with as much information: (sum w)^2 / sum w^2."""
        effective: Floats = np.divide(self.total**2, self.squares, out=np.zeros(len(self.squares)), where=self.squares > 0)
        return effective


@apart
def moments(weights: Floats, active: Bools, found: Floats) -> None:
    """Set the weights that do not count to zero, and add up the others."""
    for row in range(len(weights)):
        for k in range(weights.shape[1]):
            if active[row, k]:
                found[0, k] += 1.0
                found[1, k] += weights[row, k]
                found[2, k] += weights[row, k] ** 2
            else:
                weights[row, k] = 0.0


def check(totals: Moments) -> None:
    """Refuse if the log shows too few of the policy's pages."""
    for k in np.flatnonzero(totals.pages > 0):
        mean = totals.total[k] / totals.pages[k]
        error = max(np.sqrt(max(totals.squares[k] / totals.pages[k] - mean**2, 0.0) / totals.pages[k]), 1e-12)
        if mean < 1 - DOUBT * error and mean < 1 - 1e-9:
            raise Refused(
                f"position {k + 1}: weights are {mean:.3f} in mean instead of 1; "
                f"the log rarely or never shows the policy's items there"
            )
    least = totals.effective[totals.pages > 0].min()
    if least < LEAST_SAMPLE:
        raise Refused(f"effective sample size {least:.1f}, less than {LEAST_SAMPLE}: too few pages show what the policy would")
