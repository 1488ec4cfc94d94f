"""CascadeUCB1 and CascadeKL-UCB: Kveton, Szepesvari, Wen, Ashkan, *Cascading Bandits* (ICML 2015).

| paper                | code                                                     |
|----------------------|----------------------------------------------------------|
| E, L; K              | the catalogue; ``positions``                             |
| T_{t-1}(e)           | ``Beliefs.seen``                                         |
| w_hat(e)             | ``clicks / seen``                                        |
| U_t(e)               | ``ucb1_index``, ``kl_index``                             |
| A_t                  | the K items of largest U_t, in order                     |
| C_t                  | the first click; items down to it are observed           |

CascadeUCB1:   U_t(e) = w_hat(e) + sqrt(1.5 log(t - 1) / T(e)).
CascadeKL-UCB: U_t(e) = max { q : T(e) kl(w_hat(e), q) <= log t + 3 log log t }.

Guarantee: regret O(L log(T) / Delta) under the cascade model. It believes the cascade model and uses no features. Items
never observed come first (the paper starts from one free observation of each).
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats
from recurrank._compiled import hot, inner
from recurrank.rankers.engines.optimism import (
    STEEP,
    Beliefs,
    crowded,
    kl_slope,
    kl_upper,
    no_beliefs,
    observe,
    same_counts,
    selector,
)
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

Exploration = Annotated[float, Option("the 3 in log t + 3 log log t", least=0)]


class Ucb1State(NamedTuple):
    beliefs: Beliefs
    constants: Floats  # the 1.5 of the radius


class KlState(NamedTuple):
    beliefs: Beliefs
    constants: Floats  # the 3 of log t + 3 log log t


@inner
def ucb1_index(state: Ucb1State, item: int, f: float) -> tuple[float, float]:
    seen = state.beliefs.seen[item]
    if seen == 0:
        return np.inf, 0.0
    # U_t(e) = w_hat(e) + sqrt(1.5 f / T(e)),  f = log(t - 1)
    radius = math.sqrt(state.constants[0] * f / seen)
    return state.beliefs.clicks[item] / seen + radius, radius / (2 * f) if f > 0 else STEEP


@inner
def kl_index(state: Any, item: int, f: float) -> tuple[float, float]:
    seen = state.beliefs.seen[item]
    if seen == 0:
        return np.inf, 0.0
    p = state.beliefs.clicks[item] / seen
    q = kl_upper(p, f / seen)
    return q, kl_slope(p, q, seen)


choose_ucb1 = selector(ucb1_index, same_counts)
choose_kl = selector(kl_index, same_counts)


@inner
def kl_level(t: int, constant: float) -> float:
    """Log t + 3 log log t, without the second term while that is negative."""
    log = math.log(t)
    return log + constant * math.log(log) if log > 1 else log


@inner
def show(beliefs: Beliefs, slate: Buffer) -> None:
    for k in range(len(slate.items)):
        slate.items[k] = beliefs.best[k]


@hot
def ucb1_rank(state: Ucb1State, rng: np.random.Generator, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    choose_ucb1(state, state.beliefs, math.log(max(state.beliefs.clock[0] - 1, 1)))
    show(state.beliefs, slate)


@hot
def kl_rank(state: KlState, rng: np.random.Generator, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    choose_kl(state, state.beliefs, kl_level(state.beliefs.clock[0], state.constants[0]))
    show(state.beliefs, slate)


@hot
def ucb1_served(state: Ucb1State, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    if crowded(state.beliefs):
        choose_ucb1(state, state.beliefs, math.log(max(state.beliefs.clock[0] - 1, 1)))


@hot
def kl_served(state: KlState, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    if crowded(state.beliefs):
        choose_kl(state, state.beliefs, kl_level(state.beliefs.clock[0], state.constants[0]))


@hot
def ucb1_learn(state: Ucb1State, slate: Buffer, clicks: Bools) -> bool:
    learn_cascade(state.beliefs, slate, clicks)
    return False


@hot
def kl_learn(state: KlState, slate: Buffer, clicks: Bools) -> bool:
    learn_cascade(state.beliefs, slate, clicks)
    return False


@inner
def learn_cascade(beliefs: Beliefs, slate: Buffer, clicks: Bools) -> None:
    """Items down to the first click are observed; all of them when there is none."""
    for k in range(len(clicks)):
        observe(beliefs, slate.items[k], clicks[k])
        if clicks[k]:
            return


class CascadeUCB1(Ranker):
    """CascadeUCB1 (Kveton et al. 2015)."""

    name = "cascade-ucb1"
    reference = "Kveton, Szepesvari, Wen, Ashkan 2015"
    believes = "cascade"
    uses_features = False
    regret_bound = "O(L log(T) / Delta)"
    compiled_rank = ucb1_rank
    compiled_learn = ucb1_learn
    compiled_served = ucb1_served
    compiled_propensity = certain

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        exploration: Annotated[float, Option("the 1.5 in sqrt(1.5 log t / T(e))", above=0)] = 1.5,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        self.state = Ucb1State(no_beliefs(len(self.catalogue), self.positions), np.array(self.record(exploration=exploration)))


class CascadeKLUCB(Ranker):
    """CascadeKL-UCB (Kveton et al. 2015)."""

    name = "cascade-klucb"
    reference = "Kveton, Szepesvari, Wen, Ashkan 2015"
    believes = "cascade"
    uses_features = False
    regret_bound = "O(L log(T) / Delta)"
    compiled_rank = kl_rank
    compiled_learn = kl_learn
    compiled_served = kl_served
    compiled_propensity = certain

    def __init__(
        self, features: Items, positions: int, rounds: int, seed: Seed = None, *, exploration: Exploration = 3.0
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        self.state = KlState(no_beliefs(len(self.catalogue), self.positions), np.array(self.record(exploration=exploration)))


register(Ucb1State, CascadeUCB1)
register(KlState, CascadeKLUCB)
