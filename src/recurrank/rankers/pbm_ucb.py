"""PBM-UCB: Lagree, Vernade, Cappe, *Multiple-Play Bandits in the Position-Based Model* (NIPS 2016), section 5.

| paper                       | code                                                          |
|-----------------------------|---------------------------------------------------------------|
| kappa_l                     | ``examination``, known                                        |
| S_k(t), N_k(t)              | ``Beliefs.clicks``, ``Beliefs.seen``                          |
| N~_k(t) = sum_l kappa_l N_kl| ``State.weight``                                              |
| theta_hat_k = S_k / N~_k    | ``clicks / weight``                                           |
| U_k(t, delta)               | ``index``: S_k / N~_k + sqrt(N_k / N~_k) sqrt(delta / 2 N~_k) |
| delta = (1 + epsilon) log t | ``constants``                                                 |

The K items of largest U are shown in order. Guarantee: regret O(L log(T) / Delta) under the position-based model with
known examination. It uses no features.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats
from recurrank._compiled import hot, inner
from recurrank.rankers.cascade_ucb import show
from recurrank.rankers.engines.optimism import STEEP, Beliefs, crowded, no_beliefs, observe, same_counts, selector
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.options import Epsilon, Examination
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register


class State(NamedTuple):
    beliefs: Beliefs
    weight: Floats  # (L,)
    examination: Floats  # (K,)
    constants: Floats  # 1 + epsilon


@inner
def index(state: State, item: int, f: float) -> tuple[float, float]:
    weight = state.weight[item]
    if weight == 0:
        return np.inf, 0.0
    # U_k = S_k / N~_k + sqrt(N_k / N~_k) sqrt(delta / (2 N~_k)),  delta = (1 + epsilon) f,  f = log t
    delta = state.constants[0] * f
    radius = math.sqrt(state.beliefs.seen[item] / weight) * math.sqrt(delta / (2 * weight))
    return state.beliefs.clicks[item] / weight + radius, radius / (2 * f) if f > 0 else STEEP


@inner
def same(state: State, a: int, b: int) -> bool:
    return bool(same_counts(state, a, b) and state.weight[a] == state.weight[b])


choose = selector(index, same)


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    choose(state, state.beliefs, math.log(state.beliefs.clock[0]))
    show(state.beliefs, slate)


@hot
def served(state: State, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    if crowded(state.beliefs):
        choose(state, state.beliefs, math.log(state.beliefs.clock[0]))


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        observe(state.beliefs, slate.items[k], clicks[k])
        state.weight[slate.items[k]] += state.examination[k]
    return False


class PBMUCB(Ranker):
    """PBM-UCB (Lagree, Vernade, Cappe 2016)."""

    name = "pbm-ucb"
    reference = "Lagree, Vernade, Cappe 2016"
    believes = "position-based, known examination"
    uses_features = False
    regret_bound = "O(L log(T) / Delta)"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_propensity = certain

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        examination: Examination = None,
        epsilon: Epsilon = 0.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        kappa, epsilon = self.record(examination=examination, epsilon=epsilon)
        items = len(self.catalogue)
        self.state = State(no_beliefs(items, self.positions), np.zeros(items), kappa, np.array([1.0 + epsilon]))


register(State, PBMUCB)
