"""PBM-PIE: Lagree, Vernade, Cappe, *Multiple-Play Bandits in the Position-Based Model* (NIPS 2016), section 5.

| paper                                   | code                                                              |
|-----------------------------------------|-------------------------------------------------------------------|
| kappa_l                                 | ``examination``, known                                            |
| N_kl(t), S_kl(t)                        | ``State.shown``, ``State.hits``                                   |
| theta_hat_k = S_k / sum_l kappa_l N_kl  | ``State.mean``                                                    |
| L(t)                                    | the K items of largest theta_hat                                  |
| U_k(t): the largest q with sum_l N_kl d(S_kl / N_kl, kappa_l q) <= delta | ``Bounds`` of ``pie.py``          |
| B(t)                                    | items that do not lead, with U_k >= theta_hat of the last leader  |
| delta = (1 + epsilon) log t             | ``constants``                                                     |

The first K - 1 positions show leaders; the last one, with probability 1/2 and if B(t) is not empty, a random item of B(t).
Guarantee: regret O(L log(T) / Delta) under the position-based model with known examination. No features.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Counts, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.engines.divergence import kl
from recurrank.rankers.engines.propensity import half_explored
from recurrank.rankers.engines.tracking import Changes, no_changes, touch
from recurrank.rankers.options import Epsilon, Examination
from recurrank.rankers.pie import Bounds, Leaders, changed, explorer, inside, lead, leading, member, no_bounds, no_leaders
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register


class State(NamedTuple):
    leaders: Leaders
    bounds: Bounds
    seen: Ints  # (L,)
    clicks: Ints  # (L,)
    mean: Floats  # (L,) theta_hat; 0 for items never shown
    weight: Floats  # (L,) sum_l kappa_l N_kl
    shown: Counts  # (L, K)
    hits: Counts  # (L, K)
    changes: Changes  # of these six
    examination: Floats  # (K,)
    constants: Floats  # (1,) 1 + epsilon
    clock: Ints  # (1,) slates served


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    last = len(slate.items) - 1
    state.clock[0] += 1
    lead(state.mean, state.leaders)
    for k in range(len(slate.items)):
        slate.items[k] = state.leaders.best[k]
    if rng.random() < 0.5:
        return
    bar = state.leaders.score[last]
    count = explorable(state, state.constants[0] * math.log(state.clock[0]), bar)
    if count > 0:
        slate.items[last] = member(state.bounds, bar, int(rng.random() * count))


@hot
def propensity(state: State, before: Floats, slate: Buffer, marginal: Floats) -> float:
    """Half of the slates are the leaders in order, the others have one of B(n) at the last position, if there is any."""
    last = len(slate.items) - 1
    bar, tried = state.leaders.score[last], slate.items[last]
    count = explorable(state, state.constants[0] * math.log(state.clock[0]), bar)
    explores = count > 0 and not leading(state.leaders, tried) and inside(state.bounds, bar, tried)
    return half_explored(state.leaders.best, last, count, explores, slate, marginal)


@hot
def served(state: State, slate: Buffer) -> None:
    state.clock[0] += 1


@inner
def _divergence(state: State, item: int, q: float) -> tuple[float, float]:
    """Phi(q) = sum_l N_l d(S_l / N_l, kappa_l q) and its derivative."""
    total, slope = 0.0, 0.0
    for k in range(len(state.examination)):
        n = state.shown[item, k]
        if n > 0:
            p, at = state.hits[item, k] / n, state.examination[k] * q
            total += n * kl(p, at)
            slope += n * state.examination[k] * (at - p) / (at * (1 - at))
    return total, slope


explorable = explorer(_divergence, True)


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        item = slate.items[k]
        touch(state.changes, item)
        state.seen[item] += 1
        state.clicks[item] += clicks[k]
        state.shown[item, k] += 1
        state.hits[item, k] += clicks[k]
        state.weight[item] += state.examination[k]
        # to 12 decimals, so that the order of summation makes no difference
        state.mean[item] = math.floor(state.clicks[item] / state.weight[item] * 1e12 + 0.5) / 1e12
        changed(state.mean, state.leaders, state.bounds, item)
    return False


class PBMPIE(Ranker):
    """PBM-PIE (Lagree, Vernade, Cappe 2016)."""

    name = "pbm-pie"
    reference = "Lagree, Vernade, Cappe 2016"
    believes = "position-based, known examination"
    learns_any_order = True
    uses_features = False
    regret_bound = "O(L log(T) / Delta)"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_propensity = propensity
    tracked = ("seen", "clicks", "mean", "weight", "shown", "hits")

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
        items, size = len(self.catalogue), self.positions
        self.state = State(
            leaders=no_leaders(size),
            bounds=no_bounds(items),
            seen=np.zeros(items, np.int64),
            clicks=np.zeros(items, np.int64),
            mean=np.zeros(items),
            weight=np.zeros(items),
            shown=np.zeros((items, size), np.int32),
            hits=np.zeros((items, size), np.int32),
            changes=no_changes(items),
            examination=kappa,
            constants=np.array([1.0 + epsilon]),
            clock=np.zeros(1, np.int64),
        )


register(State, PBMPIE)
