"""Thompson sampling from the first position alone (Agrawal, Goyal 2013): right under every click model, and slow."""

from __future__ import annotations

from recurrank.rankers.contextual.linear import FIRST, LinearRequests


class FirstThompson(LinearRequests):
    """Linear Thompson sampling that learns from the first position only."""

    name = "first-thompson"
    reference = "Agrawal, Goyal 2013"
    believes = "general click model"
    regret_bound = "none for rankings"
    belief = FIRST
