"""A brake: return to the baseline once the ranker is proved worse by more than a margin.

Checked after every slate, it ever stops a ranker that is not worse by more than the margin with probability at most alpha.
The margin is a share of the baseline's clicks: the claim is ``mean(ranker) < (1 - margin) mean(baseline)``. Clicks that are
multiplied by ``1 - margin`` are still in [0, most], so this is a one-sided comparison of two arms as in ``sequence.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from recurrank.rollout.sequence import RATES, WEIGHTS, ArmComparison, least_log_product


@dataclass
class Brake:
    """Stops a ranker that is worse than the baseline by more than a margin, until released.

    ``margin`` is a share of the baseline's clicks per slate, ``alpha`` the largest probability of a wrong stop. ``stopped`` is
    the reason for the stop, None before it.

    >>> brake, both = Brake(margin=0.05), ArmComparison(most=1)
    >>> for _ in range(200):
    ...     both.observe("baseline", 1)
    ...     both.observe("ranker", 0)
    >>> brake.look(both)
    True
    >>> brake.stopped
    'the ranker has 0.0000 clicks per slate (200 slates), the baseline 1.0000 (200): more than 5 % fewer, at alpha = 0.05'
    """

    margin: float = 0.05
    alpha: float = 0.05
    stopped: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1:
            raise ValueError(f"margin is {self.margin}; it should be a share of the baseline's clicks, at least 0 and below 1")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha}; it should be between 0 and 1")

    def look(self, both: ArmComparison) -> bool:
        """Whether to show the baseline: the brake has stopped the ranker, before or now."""
        if self.stopped is None and self.p_value(both) <= self.alpha:
            self.stopped = (
                f"the ranker has {both.ranker.mean:.4f} clicks per slate ({both.ranker.slates:,} slates), the baseline "
                f"{both.baseline.mean:.4f} ({both.baseline.slates:,}): more than {100 * self.margin:g} % fewer, "
                f"at alpha = {self.alpha:g}"
            )
        return self.stopped is not None

    def p_value(self, both: ArmComparison) -> float:
        """Evidence that the ranker is worse by more than the margin; valid at all times."""
        enough = both.baseline.scaled(1 - self.margin)
        return min(1.0, math.exp(-max(0.0, least_log_product(enough, both.ranker, 0.0, both.most))))

    def release(self) -> None:
        """Allow the ranker again. Begin a new comparison too: the old one keeps its evidence."""
        self.stopped = None


def slates_until_stopped(gap: float, variance: float, share: float, most: float, alpha: float = 0.05) -> float:
    """Slates of both arms after which the brake has stopped most rankers that are ``gap`` clicks below the margin.

    ``variance`` is that of a slate's clicks, ``share`` the ranker's share of the slates. The logarithm of the product of both
    arms grows by about ``gap^2 / (2 (variance / share + variance / (1 - share)))`` per slate, a little slower for clicks up
    to ``most`` (Bernstein's form of psi_E), and has to reach ``log(1 / alpha)`` plus the cost of the two grids: minus the
    logarithms of the weights of the best rates, ``gap`` over the variance of the difference and the arm's share.

    >>> round(slates_until_stopped(gap=0.15, variance=0.8, share=0.1, most=5))
    9819
    """
    if not (0 < gap < math.inf and 0 <= variance < math.inf and 0 < share < 1):
        raise ValueError(f"gap, variance, share: {gap}, {variance}, {share}; they should be above 0, at least 0, and in (0, 1)")
    if not (0 < most < math.inf and 0 < alpha < 1):
        raise ValueError(f"most, alpha: {most}, {alpha}; they should be above 0, and in (0, 1)")
    spread = variance / share + variance / (1 - share)
    needed = math.log(1 / alpha)
    for part in (share, 1 - share):
        # the rate of the grid that is closest to lambda = gap / (spread part), in units of 1 / most
        nearest = int(np.argmin(np.abs(np.log(RATES * spread * part) - math.log(most * gap)))) if spread else 0
        needed -= math.log(WEIGHTS[nearest])
    return needed * (2 * spread + 2 * most * gap / min(share, 1 - share)) / gap**2
