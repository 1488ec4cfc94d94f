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
from recurrank.logs.evaluate.policy import Policy
from recurrank.logs.sessions import EMPTY, Sessions

LEAST_SAMPLE = 20
"""The smallest effective sample size that is answered with."""
DOUBT = 4.0
"""Standard errors by which mean weights may be below 1."""
SAME = 1e-6
"""Relative difference of probabilities that is rounding."""


class Refused(ValueError):
    """The log cannot answer; the message is the reason."""


def follows(log: Sessions, policy: Policy) -> Bools:
    """Where the logged page shows what the policy would; a position that neither has counts as followed."""
    assert policy.target is not None
    agrees: Bools = log.items == policy.target[log.query]
    return agrees


def marginal(log: Sessions, policy: Policy) -> Floats:
    """The weights w_k."""
    if policy.target is None:
        return np.ones(log.items.shape)
    if log.propensity is None:
        raise Refused("the log has no propensities: it does not say how probable what it shows was")
    weights: Floats = follows(log, policy) / log.propensity
    return weights


def prefix(log: Sessions, policy: Policy) -> Floats:
    """The weights W_k."""
    if policy.target is None:
        return np.ones(log.items.shape)
    agrees = np.logical_and.accumulate(follows(log, policy), axis=1)
    weights: Floats = agrees / np.cumprod(_conditional(log), axis=1)
    return weights


def _conditional(log: Sessions) -> Floats:
    """P(a_k | a_1, ..., a_(k-1)), where it follows from what the log has."""
    if log.propensity is None:
        raise Refused("the log has no propensities: it does not say how probable what it shows was")
    if log.joint is None:
        raise Refused("the log has no joint probabilities of pages: those of prefixes do not follow from single positions")
    shown = log.items != EMPTY
    p = np.where(shown, log.propensity, 1.0)
    if np.allclose(np.prod(p, axis=1), log.joint, rtol=SAME, atol=0):
        return p
    candidates = 1 / p[:, :1]
    uniform = np.where(shown, 1 / np.maximum(candidates - np.arange(p.shape[1]), 1), 1.0)
    if np.allclose(p[shown], np.broadcast_to(1 / candidates, p.shape)[shown], rtol=SAME) and np.allclose(
        np.prod(uniform, axis=1), log.joint, rtol=SAME, atol=0
    ):
        return uniform
    raise Refused(
        "positions are not drawn independently, nor pages uniformly: probabilities of prefixes do not follow from the log"
    )


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
