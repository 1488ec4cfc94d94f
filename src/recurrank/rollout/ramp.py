"""A ramp: the ranker's share grows as the evidence grows that the ranker cannot cost more than a budget.

The brake stops a worse ranker only once there is evidence, and if clicks are rare that takes long: no test can detect a loss of
20 % of few clicks soon. What can be limited from the first slate on is the number of clicks at stake. A ranker that loses the
share ``d`` of the baseline's clicks costs ``share * d`` of all clicks. At first only ``d <= 1`` is known, so the ranker gets
the share ``budget``; it gets the next larger share once ``d <= budget / share`` is shown for that one. As long as none of these
steps is wrong, every slate has at least ``1 - budget`` of the baseline's clicks in expectation, for any ranker and any stated
share, provided that the ranker does not become worse with time (against that, only the brake helps). This is the constraint of
conservative bandits (Y. Wu, R. Shariff, T. Lattimore, C. Szepesvari, ICML 2016), met slate by slate by a confidence sequence
instead of by a sum over the past.

Each step begins a new comparison: while the share grows, averages of the two arms would be about different times. There are at
most ``len(ramp(share, budget))`` comparisons, known in advance, and each has its part of alpha. So the probability that any of
the steps is wrong is at most alpha, and so is that of ever stopping a ranker that is not worse by more than the margin.
"""

from __future__ import annotations

import math

from recurrank.rollout.sequence import ArmComparison, least_log_product

GROWTH = 2.0
"""Factor between the shares of two steps."""


def ramp(share: float, budget: float) -> tuple[float, ...]:
    """The shares of the ranker, one after the other, on the way to ``share``.

    >>> ramp(0.5, 0.02)
    (0.02, 0.04, 0.08, 0.16, 0.32, 0.5)
    >>> ramp(0.01, 0.02)
    (0.01,)
    """
    _check(share, budget)
    shares = [min(share, budget)]
    while shares[-1] < share:
        shares.append(min(share, GROWTH * shares[-1]))
    return tuple(shares)


def affordable(both: ArmComparison, share: float, budget: float) -> float:
    """The p-value of "with this share the ranker costs more than the budget"; valid at all times.

    >>> both = ArmComparison(most=1)
    >>> for clicks in (0, 1) * 200:
    ...     both.observe("baseline", clicks)
    ...     both.observe("ranker", clicks)
    >>> affordable(both, 0.04, 0.02) < 0.001 < 0.05 < affordable(both, 0.5, 0.02)
    True
    """
    _check(share, budget)
    if budget >= share:
        return 0.0  # even a ranker without any click costs no more
    # the claim to be excluded: mean(ranker) < (1 - budget / share) mean(baseline)
    limit = both.baseline.scaled(1 - budget / share)
    return min(1.0, math.exp(-max(0.0, least_log_product(both.ranker, limit, 0.0, both.most))))


def _check(share: float, budget: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; it should be between 0 and 1")
    if not 0 < budget <= 1:
        raise ValueError(f"budget is {budget}; it should be a share of the baseline's clicks, above 0 and at most 1")
