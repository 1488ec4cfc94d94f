"""How far least squares may be from the truth: the self-normalised bound of Abbasi-Yadkori, Pal, Szepesvari (2011)."""

from __future__ import annotations

import math

from recurrank._compiled import inner
from recurrank.rankers.engines.regression import Regression


@inner
def radius(regression: Regression, delta: float) -> float:
    """sqrt(ln(det M / (lambda^d delta^2))) + sqrt(lambda), det M being the squared product of the factor's diagonal."""
    ridge, total = regression.ridge[0], -2 * math.log(delta)
    for i in range(len(regression.theta)):
        total += 2 * math.log(regression.factor[i, i]) - math.log(ridge)
    return math.sqrt(max(total, 0.0)) + math.sqrt(ridge)
