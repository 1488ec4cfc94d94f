"""PBM-PIE: Lagree, Vernade, Cappe, *Multiple-Play Bandits in the Position-Based Model* (NIPS 2016), section 5.

| paper                                   | code                                                              |
|-----------------------------------------|-------------------------------------------------------------------|
| kappa_l                                 | ``examination``, known                                            |
| N_kl(t), S_kl(t)                        | ``State.shown``, ``State.hits``                                   |
| theta_hat_k = S_k / sum_l kappa_l N_kl  | ``State.mean``                                                    |
| L(t)                                    | the K items of largest theta_hat                                  |
| U_k(t): the largest q with sum_l N_kl d(S_kl / N_kl, kappa_l q) <= delta | ``_upper``                        |
| B(t)                                    | items that do not lead, with U_k >= theta_hat of the last leader  |
| delta = (1 + epsilon) log t             | ``constants``                                                     |

The first K - 1 positions show leaders; the last one, with probability 1/2 and if B(t) is not empty, a random item of B(t).
Guarantee: regret O(L log(T) / Delta) under the position-based model with known examination. No features.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.catalogue import Catalogue
from recurrank.rankers.optimism import STEEP, Beliefs, no_beliefs
from recurrank.rankers.pie import changed, explorer, lead
from recurrank.rankers.ranker import Buffer, Ranker, Seed, examined, positive, register


class State(NamedTuple):
    beliefs: Beliefs
    mean: Floats  # (L,) theta_hat; 0 for items never shown
    weight: Floats  # (L,) sum_l kappa_l N_kl
    shown: Ints  # (L, K)
    hits: Ints  # (L, K)
    member: Ints  # (L,) B(t)
    examination: Floats  # (K,)
    constants: Floats  # 1 + epsilon


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    beliefs, last = state.beliefs, len(slate.items) - 1
    beliefs.clock[0] += 1
    lead(state.mean, beliefs)
    for k in range(len(slate.items)):
        slate.items[k] = beliefs.best[k]
    if rng.random() < 0.5:
        return
    count = explorable(state, state.constants[0] * math.log(beliefs.clock[0]), beliefs.score[last])
    if count > 0:
        slate.items[last] = state.member[int(rng.random() * count)]


@hot
def _divergence(state: State, item: int, q: float) -> tuple[float, float]:
    """Phi(q) = sum_l N_l d(S_l / N_l, kappa_l q) and its derivative."""
    total, slope = 0.0, 0.0
    for k in range(len(state.examination)):
        n = state.shown[item, k]
        if n == 0:
            continue
        p, at = state.hits[item, k] / n, state.examination[k] * q
        if p > 0.0:
            total += n * p * math.log(p / at)
        if p < 1.0:
            total += n * (1 - p) * math.log((1 - p) / (1 - at))
        slope += n * state.examination[k] * (at - p) / (at * (1 - at))
    return total, slope


@hot
def _upper(state: State, item: int, delta: float) -> tuple[float, float]:
    """U(t) and its slope in delta: Newton's method from the right of the solution, where Phi is convex and rising.

    By Pinsker, Phi(q) >= 2 (S - N~ q)^2 / N, so the solution is not above S / N~ + sqrt(N delta / 2) / N~.
    """
    weight = state.weight[item]
    if weight == 0.0:
        return np.inf, 0.0
    seen = state.beliefs.seen[item]
    most = 1.0 - 1e-12
    q = min(state.mean[item] + math.sqrt(seen * delta / 2) / weight, most)
    if q == most:
        value, slope = _divergence(state, item, q)
        if value <= delta or slope <= 0.0:
            return 1.0, 0.0  # it cannot grow
        low = min(state.mean[item], 0.5)
        for _ in range(60):  # down to where Newton's method is safe: still to the right, but not at the edge
            middle = (low + q) / 2
            value, slope = _divergence(state, item, middle)
            if value <= delta or slope <= 0.0:
                low = middle
            else:
                q = middle
            if q - low < 1e-3 * (1 - q):
                break
    for _ in range(60):
        value, slope = _divergence(state, item, q)
        step = (value - delta) / slope if slope > 0.0 else 0.0
        if step <= 1e-15:
            return q, 1 / slope if slope > 0.0 else STEEP
        if _divergence(state, item, max(q - step, 1e-12))[1] <= 0.0:  # no q has Phi <= delta: the q of least Phi it is
            low = max(q - step, 1e-12)
            for _ in range(100):
                middle = (low + q) / 2
                if _divergence(state, item, middle)[1] <= 0.0:
                    low = middle
                else:
                    q = middle
            return q, STEEP
        q -= step
    return q, STEEP


explorable = explorer(_upper)


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    beliefs = state.beliefs
    for k in range(len(clicks)):
        item = slate.items[k]
        beliefs.seen[item] += 1
        beliefs.clicks[item] += clicks[k]
        state.shown[item, k] += 1
        state.hits[item, k] += clicks[k]
        state.weight[item] += state.examination[k]
        # to 12 decimals, so that what is equal but for the order of its sums is equal
        state.mean[item] = math.floor(beliefs.clicks[item] / state.weight[item] * 1e12 + 0.5) / 1e12
        changed(state.mean, beliefs, item)
    return False


class PBMPIE(Ranker):
    """PBM-PIE (Lagree, Vernade, Cappe 2016).

    Args:
        features: only how many rows there are matters.
        positions: K.
        rounds: T; the algorithm does not use it.
        seed: of its coins.
        examination: the known examination probability of each position, by default 1, 1/2, 1/3, ...
        epsilon: of delta = (1 + epsilon) log t.

    """

    name = "pbm-pie"
    reference = "Lagree, Vernade, Cappe 2016"
    believes = "position-based, known examination"
    uses_features = False
    regret_bound = "O(L log(T) / Delta)"
    compiled_rank = rank
    compiled_learn = learn

    def __init__(
        self,
        features: ArrayLike | Catalogue,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        examination: ArrayLike | None = None,
        epsilon: float = 0.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        known = examined(examination, self.positions)
        self.record(examination=known.tolist(), epsilon=positive("epsilon", epsilon, zero=True))
        items, size = len(self.catalogue), self.positions
        self.state = State(
            beliefs=no_beliefs(items, size),
            mean=np.zeros(items),
            weight=np.zeros(items),
            shown=np.zeros((items, size), np.int64),
            hits=np.zeros((items, size), np.int64),
            member=np.zeros(items, np.int64),
            examination=known,
            constants=np.array([1.0 + epsilon]),
        )


register(State, PBMPIE)
