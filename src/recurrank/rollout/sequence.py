r"""Clicks per slate of two arms, compared at all times: a confidence sequence for the difference of their means.

An interval that is right with probability 1 - alpha *once* is wrong sooner or later if it is checked every minute. A
confidence sequence is right at all times at once: the probability that the true difference is *ever* outside is at most alpha,
at whatever times it is checked and the comparison stops.

S. R. Howard, A. Ramdas, J. McAuliffe, J. Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of
Statistics 49 (2021): the empirical-Bernstein supermartingale (Theorem 4) and discrete mixtures (Section 3.4).

| paper | code | what it is |
|---|---|---|
| ``X_i`` in [a, b] | ``clicks`` in [0, ``most``] | clicks of one slate |
| ``c = b - a`` | ``most`` | scale of the supermartingale |
| ``\hat X_i`` | ``predicted`` | the mean of the arm's earlier slates |
| ``V_t = sum (X_i - \hat X_i)^2`` | ``Arm.deviation`` | variance process |
| ``S_t = sum (X_i - mu)`` | ``excess`` | the arm's clicks in excess of ``slates * mu`` |
| ``psi_E(x) = (-log(1 - c x) - c x) / c^2`` | ``PSI / c^2`` | log moment generating function of a centred exponential |
| lambda | ``RATES / c`` | the grid of the mixture, with ``WEIGHTS`` |

For each arm and each fixed ``lambda``, ``exp(lambda S_t - psi_E(lambda) V_t)`` is a supermartingale that starts at 1, and so is
``m(S_t, V_t)``, its weighted average over the grid. The *product* of the arms' mixtures is a supermartingale, too, for any
order of slates: only one factor changes at a time, and the arm must be chosen before the clicks of that slate. By Ville's
inequality it ever exceeds ``1 / alpha`` with probability at most ``alpha``. The pairs of means for which it does not form a
convex set, and the interval contains the differences in that set. (The difference of two intervals, one per arm, would be up
to 1.4 times as wide: this set is round, theirs is square.)

Clicks of a slate must be in [0, ``most``]. Slates need not be independent, and means need not be constant: where they drift, as
those of a learner do, the interval is about the averages of the conditional means of the slates so far. Arms need not be drawn
slate by slate. The caller must make sure that the arms' visitors can be compared: if a visitor keeps an arm and comes back,
count one slate of each, or the interval is about these visitors and not about the rankings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np

from recurrank._arrays import Floats
from recurrank._compiled import hot, loop

ArmName = Literal["baseline", "ranker"]

RATES: Floats = 0.75 * 2.0 ** -np.arange(14.0)
"""The grid of lambda, in units of 1 / most: good from the tenth slate to 10^9 squared deviations (in units of most^2)."""
PSI: Floats = -np.log1p(-RATES) - RATES
"""psi_E of the grid, in units of 1 / most^2."""
WEIGHTS: Floats = 1 / np.arange(1.0, 1 + len(RATES))
"""Weights of the grid in the mixture. Large rates find large differences soon, so they have the most weight."""
WEIGHTS /= WEIGHTS.sum()
_STEPS = 200
"""Most steps of a search; each halves an interval, so far fewer are taken."""


class Arm(NamedTuple):
    """The state of one arm: three sums over its slates.

    >>> Arm().after(2.0).after(0.0)
    Arm(slates=2, clicks=2.0, deviation=8.0)
    """

    slates: int = 0
    clicks: float = 0.0
    deviation: float = 0.0

    @property
    def mean(self) -> float:
        """Clicks per slate; 0 before the first slate."""
        return self.clicks / self.slates if self.slates else 0.0

    def after(self, clicks: float) -> Arm:
        """The arm after one more slate."""
        # \hat X_i: any function of the past within [0, most]; V_t adds (X_i - \hat X_i)^2
        predicted = self.mean
        return Arm(self.slates + 1, self.clicks + clicks, self.deviation + (clicks - predicted) ** 2)

    def scaled(self, factor: float) -> Arm:
        """The arm if every slate had ``factor`` times its clicks."""
        return Arm(self.slates, factor * self.clicks, factor**2 * self.deviation)


@dataclass
class ArmComparison:
    """A baseline and a ranker, compared by clicks per slate; the interval holds at all times.

    ``most`` is the largest number of clicks that a slate can have: its positions, as a rule. ``alpha`` is the
    largest probability that the interval is ever wrong. ``baseline`` and ``ranker`` are sums of earlier slates, to continue.

    >>> both = ArmComparison(most=3)
    >>> for _ in range(2_000):
    ...     both.observe("baseline", 1)
    ...     both.observe("ranker", 2)
    >>> low, high = both.interval()
    >>> 0.9 < low < 1 < high < 1.1
    True
    """

    most: float
    alpha: float = 0.05
    baseline: Arm = field(default_factory=Arm)
    ranker: Arm = field(default_factory=Arm)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.most) and self.most > 0):
            raise ValueError(f"most is {self.most}; it should be the largest number of clicks of a slate, above 0")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha}; it should be between 0 and 1")
        for name in get_args(ArmName):
            self._check_sums(name, getattr(self, name))

    def _check_sums(self, name: str, arm: Arm) -> None:
        """ValueError for sums that no slates can have, apart from rounding."""
        most = (1 + 1e-9) * self.most
        if not (0 <= arm.slates < math.inf and 0 <= arm.clicks <= most * arm.slates):
            raise ValueError(f"{name}: {arm.clicks} clicks in {arm.slates} slates of at most {self.most} clicks are impossible")
        if not 0 <= arm.deviation <= most**2 * arm.slates:
            raise ValueError(f"{name}: the deviation {arm.deviation} of {arm.slates} slates is impossible")

    def observe(self, arm: ArmName, clicks: float) -> None:
        """Count one slate of an arm."""
        if arm not in get_args(ArmName):
            raise ValueError(f"arm is {arm!r}; it should be 'baseline' or 'ranker'")
        if not 0 <= clicks <= self.most:
            raise ValueError(f"clicks is {clicks}; it should be between 0 and {self.most}")
        setattr(self, arm, getattr(self, arm).after(float(clicks)))

    @property
    def difference(self) -> float:
        """Clicks per slate of the ranker minus the baseline's, as observed."""
        return self.ranker.mean - self.baseline.mean

    def interval(self) -> tuple[float, float]:
        """With probability 1 - alpha, the ranker's mean minus the baseline's lies between these two at all times."""
        return -self._reach(self.baseline, self.ranker), self._reach(self.ranker, self.baseline)

    def p_value(self, difference: float = 0.0) -> float:
        """Evidence against this difference: if it is true, this is ever below alpha with probability at most alpha."""
        above = least_log_product(self.ranker, self.baseline, difference, self.most)
        below = least_log_product(self.baseline, self.ranker, -difference, self.most)
        return min(1.0, 2 * math.exp(-max(above, below, 0.0)))

    def _reach(self, more: Arm, less: Arm) -> float:
        """The largest difference of means, ``more`` minus ``less``, that the clicks so far do not exclude at alpha / 2."""
        if not (more.slates and less.slates):
            return self.most
        limit = math.log(2 / self.alpha)
        low, high = more.mean - less.mean, self.most
        # the product grows with the difference, so bisection finds the largest one below the limit
        if least_log_product(less, more, -high, self.most) <= limit:
            return high
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if high - low <= 1e-9 * self.most or not low < middle < high:
                break
            if least_log_product(less, more, -middle, self.most) <= limit:
                low = middle
            else:
                high = middle
        return high


@hot
def log_mixture(excess: float, deviation: float, most: float) -> tuple[float, float]:
    """The logarithm of m(S_t, V_t), which is convex and increasing in S_t, and its derivative by S_t."""
    # m = sum_j w_j exp(lambda_j S_t - psi_E(lambda_j) V_t)
    largest, total, slope = -math.inf, 0.0, 0.0
    for j in range(len(RATES)):
        largest = max(largest, RATES[j] * (excess / most) - PSI[j] * (deviation / most**2))
    for j in range(len(RATES)):
        term = WEIGHTS[j] * math.exp(RATES[j] * (excess / most) - PSI[j] * (deviation / most**2) - largest)
        total += term
        slope += term * RATES[j]
    return largest + math.log(total), slope / (total * most)


def least_log_product(upper: Arm, lower: Arm, difference: float, most: float) -> float:
    """The smallest log of the product over all pairs of means with mean(upper) - mean(lower) = difference.

    It is large if ``upper`` has more clicks, and ``lower`` fewer, than any such pair explains.
    """
    first, second = (Arm(int(arm.slates), float(arm.clicks), float(arm.deviation)) for arm in (upper, lower))
    return float(least(first, second, float(difference), float(most)))


@loop
def least(upper: Arm, lower: Arm, difference: float, most: float) -> float:
    # means are in [0, most]; the product is convex in mu, so that its slope has one change of sign
    low, high = max(0.0, -difference), min(most, most - difference)
    if not low < high:
        return _log_product(upper, lower, difference, most, (low + high) / 2)[0]
    best = math.inf
    for _ in range(_STEPS):
        middle = (low + high) / 2
        value, slope = _log_product(upper, lower, difference, most, middle)
        best = min(best, value)
        # by convexity nothing in [low, high] is below value - |slope| * (high - low) / 2
        if abs(slope) * (high - low) / 2 <= 1e-9 or not low < middle < high:
            return value - abs(slope) * (high - low) / 2
        if slope > 0:
            high = middle
        else:
            low = middle
    return best


@hot
def _log_product(upper: Arm, lower: Arm, difference: float, most: float, mu: float) -> tuple[float, float]:
    """The log of the product for the pair of means whose ``lower`` is mu, and its derivative by mu."""
    n, m = upper.slates, lower.slates
    first, first_slope = log_mixture(upper.clicks - n * (mu + difference), upper.deviation, most)
    second, second_slope = log_mixture(m * mu - lower.clicks, lower.deviation, most)
    return first + second, m * second_slope - n * first_slope
