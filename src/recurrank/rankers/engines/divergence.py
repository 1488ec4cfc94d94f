"""The divergence of Bernoulli laws, as the indices of KL-UCB, PIE and PBM-PIE compare it with a level."""

from __future__ import annotations

import math

from recurrank._compiled import inner


@inner
def kl(p: float, q: float) -> float:
    """Kl(p, q) for 0 < q < 1."""
    total = 0.0
    if p > 0.0:
        total += p * math.log(p / q)
    if p < 1.0:
        total += (1 - p) * math.log((1 - p) / (1 - q))
    return total
