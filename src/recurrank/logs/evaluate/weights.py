"""How much a logged page counts for a policy, and whether a log can answer at all.

    marginal    w_k   = pi(a_k at k) / p(a_k at k)
    of prefixes W_k   = pi(a_1, ..., a_k) / p(a_1, ..., a_k)

For a policy with one ranking per query pi is 1 or 0. The log has the marginal probabilities p(a_k at k) and perhaps the joint
one of the whole page. Prefixes follow from these only where positions are drawn independently (joint = product of the
marginals), or a page is drawn uniformly from n items (marginals 1 / n, joint 1 / (n (n-1) ...)).

Where the policy's items could be shown, weights are 1 in mean. Where they are less by more than chance, the log never shows
what the policy would, and no weighting can tell what that would have earned.
"""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Bools, Floats
from recurrank._compiled import apart
from recurrank.logs.evaluate.policy import Policy
from recurrank.logs.sessions import EMPTY, Codes, Sessions

LEAST_SAMPLE = 20
"""The smallest effective sample size that is answered with."""
DOUBT = 4.0
"""Standard errors by which mean weights may be below 1."""
SAME = 1e-6
"""Relative difference of probabilities that is rounding."""


class Refused(ValueError):
    """The log cannot answer; the message is the reason."""


def marginal(log: Sessions, policy: Policy) -> Floats:
    """The weights w_k; a position that neither the page nor the policy has counts as followed."""
    if policy.target is None:
        return np.ones(log.items.shape)
    if log.propensity is None:
        raise Refused("the log has no propensities: it does not say how probable what it shows was")
    return _weights(log.items, log.query, policy.target, log.propensity, False, False)


def prefix(log: Sessions, policy: Policy) -> Floats:
    """The weights W_k."""
    if policy.target is None:
        return np.ones(log.items.shape)
    if log.propensity is None:
        raise Refused("the log has no propensities: it does not say how probable what it shows was")
    if log.joint is None:
        raise Refused("the log has no joint probabilities of pages: those of prefixes do not follow from single positions")
    independent, uniform = _drawn(log.items, log.propensity, log.joint)
    if not independent and not uniform:
        raise Refused(
            "positions are not drawn independently, nor pages uniformly: probabilities of prefixes do not follow from the log"
        )
    return _weights(log.items, log.query, policy.target, log.propensity, True, not independent)


@apart
def _drawn(items: Codes, propensity: Floats, joint: Floats) -> tuple[bool, bool]:
    """Whether all pages are drawn independently by position, and whether uniformly: a condition on their joint probability."""
    independent, uniform = True, True
    for row in range(len(items)):
        product, alike, first = 1.0, 1.0, propensity[row, 0]
        for k in range(items.shape[1]):
            if items[row, k] != EMPTY:
                product *= propensity[row, k]
                alike /= max(1 / first - k, 1.0)
                uniform &= abs(propensity[row, k] - first) <= SAME * first
        independent &= abs(product - joint[row]) <= SAME * joint[row]
        uniform &= abs(alike - joint[row]) <= SAME * joint[row]
        if not independent and not uniform:
            break
    return independent, uniform


@apart
def _weights(items: Codes, query: Codes, target: Codes, propensity: Floats, prefixes: bool, uniform: bool) -> Floats:
    weights = np.zeros(items.shape)
    for row in range(len(items)):
        above = 1.0
        for k in range(items.shape[1]):
            p = propensity[row, k] if items[row, k] != EMPTY else 1.0
            if uniform and items[row, k] != EMPTY:
                p = 1 / max(1 / propensity[row, 0] - k, 1.0)
            own = 1 / p if items[row, k] == target[query[row], k] else 0.0
            above *= own
            weights[row, k] = above if prefixes else own
            if prefixes and above == 0.0:
                break
    return weights


def effective(weights: Floats) -> Floats:
    """By position, how many unweighted pages say as much: (sum w)^2 / sum w^2."""
    squares = (weights**2).sum(axis=0)
    found: Floats = np.divide(weights.sum(axis=0) ** 2, squares, out=np.zeros(len(squares)), where=squares > 0)
    return found


def check(weights: Floats, shown: Bools) -> None:
    """Refuse where the log does not show enough of what the policy would."""
    count = shown.sum(axis=0)
    for k in np.flatnonzero(count > 0):
        w = weights[shown[:, k], k]
        error = max(w.std() / np.sqrt(len(w)), 1e-12)
        if w.mean() < 1 - DOUBT * error and w.mean() < 1 - 1e-9:
            raise Refused(
                f"position {k + 1}: weights are {w.mean():.3f} in mean instead of 1; "
                f"the log hardly or never shows what the policy would show there"
            )
    least = effective(weights)[count > 0].min()
    if least < LEAST_SAMPLE:
        raise Refused(f"effective sample size {least:.1f}, less than {LEAST_SAMPLE}: too few pages show what the policy would")
