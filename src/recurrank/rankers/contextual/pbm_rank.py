"""LinTS-PBMRank (Ermis, Ernst, Stein, Zappella 2020): Thompson sampling with features scaled by the examination of positions.

    E[click at k] = p_k <x, theta>;   V += p_k^2 x x',  b += p_k x click

The paper takes p_k as given, or estimates them beforehand; here they are clicks at k over the attraction predicted there,
relative to position 1, falling with k and at least 0.01. They are renewed with theta, after 4 % more answers; old answers keep
the weight that they were given. Clicks are taken to have the variance 1/4.
"""

from __future__ import annotations

from recurrank.rankers.contextual.linear import EXAMINED, LinearRequests


class LinTSPBMRank(LinearRequests):
    """LinTS-PBMRank, which believes that examination depends on the position alone and learns it."""

    name = "lints-pbmrank"
    reference = "Ermis, Ernst, Stein, Zappella 2020"
    believes = "position-based"
    regret_bound = "O(d sqrt(T K) log T) in expectation, for known p_k"
    belief = EXAMINED
