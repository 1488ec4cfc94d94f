"""LinTS-PBMRank (Ermis, Ernst, Stein, Zappella 2020): Thompson sampling with features scaled by the examination of positions.

    E[click at k] = p_k <x, theta>;   V += p_k^2 x x',  b += p_k x click

The paper is told p_k, or estimates them beforehand; here they are clicks at k over the attraction predicted there, renewed with
theta.
"""

from __future__ import annotations

from recurrank.rankers.contextual.linear import EXAMINED, LinearRequests


class LinTSPBMRank(LinearRequests):
    """LinTS-PBMRank, which believes that examination depends on the position alone and learns it."""

    name = "lints-pbmrank"
    reference = "Ermis, Ernst, Stein, Zappella 2020"
    believes = "position-based"
    regret_bound = "O(d sqrt(T K) log T) in expectation"
    belief = EXAMINED
