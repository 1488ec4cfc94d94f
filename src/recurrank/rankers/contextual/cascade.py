"""The cascade's linear algorithms with candidates of their own: CascadeLinTS (Zong et al. 2016) and C3-UCB (Li et al. 2016).

Both believe that a visitor reads from the top until the first click, and learn from the positions down to it.
"""

from __future__ import annotations

from recurrank.rankers.contextual.linear import UNTIL_CLICK, LinearRequests


class RequestCascadeLinTS(LinearRequests):
    """CascadeLinTS with the candidates of each request: a sample of theta orders them."""

    name = "request-cascade-lints"
    reference = "Zong, Ni, Sung, Ke, Wen, Kveton 2016"
    believes = "cascade"
    regret_bound = "none proved"
    belief = UNTIL_CLICK


class RequestC3UCB(LinearRequests):
    """C3-UCB with the candidates of each request: upper confidence bounds order them."""

    name = "request-c3-ucb"
    reference = "Li, Wang, Zhang, Chen 2016"
    believes = "cascade"
    regret_bound = "O(d sqrt(T K) log T)"
    belief = UNTIL_CLICK
    optimistic = True
