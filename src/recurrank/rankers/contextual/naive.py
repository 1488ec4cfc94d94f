"""Thompson sampling that takes every position's click as if the position had been examined (Agrawal, Goyal 2013)."""

from __future__ import annotations

from recurrank.rankers.contextual.linear import ALL, LinearRequests


class NaiveThompson(LinearRequests):
    """Linear Thompson sampling from all positions: items shown lower seem less attractive."""

    name = "naive-thompson"
    reference = "Agrawal, Goyal 2013"
    believes = "document-based"
    regret_bound = "none for rankings"
    belief = ALL
