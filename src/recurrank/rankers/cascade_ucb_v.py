"""CascadeUCB-V: Vial, Sanghavi, Shakkottai, Srikant, *Minimax Regret for Cascading Bandits* (NeurIPS 2022).

As CascadeUCB1, with the index of UCB-V (Audibert, Munos, Szepesvari 2009), whose width shrinks with the variance:

| paper          | code                                                                               |
|----------------|------------------------------------------------------------------------------------|
| T_{t-1}(e)     | ``Beliefs.seen``                                                                   |
| w_hat(e)       | ``clicks / seen``                                                                  |
| v_hat(e)       | w_hat (1 - w_hat), the variance of clicks and non-clicks                           |
| U_t(e)         | w_hat + sqrt(2 E v_hat / T(e)) + 3 E / T(e), with E = 2 log t: ``index``           |
| A_t            | the K items of largest U_t, in order                                               |
| C_t            | the first click; items down to it are observed                                     |

Guarantee: regret O(sqrt(L T log T)), whatever the gaps, which is optimal but for the logarithm; that of CascadeUCB1 has a
factor sqrt(K) more where clicks are rare. It believes the cascade model and uses no features. Items never observed come first.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats
from recurrank._compiled import hot, inner
from recurrank.rankers.cascade_ucb import learn_cascade, show
from recurrank.rankers.engines.optimism import STEEP, Beliefs, crowded, no_beliefs, same_counts, selector
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register


class State(NamedTuple):
    beliefs: Beliefs
    constants: Floats  # the 2 of E = 2 log t


@inner
def index(state: State, item: int, f: float) -> tuple[float, float]:
    seen = state.beliefs.seen[item]
    if seen == 0:
        return np.inf, 0.0
    # U_t(e) = w_hat + sqrt(2 E v_hat / T) + 3 E / T,  E = 2 f,  f = log t
    mean, rate = state.beliefs.clicks[item] / seen, state.constants[0] / seen
    radius = math.sqrt(2 * rate * f * mean * (1 - mean))
    slope = radius / (2 * f) + 3 * rate if f > 0 else STEEP
    return mean + radius + 3 * rate * f, slope


choose = selector(index, same_counts)


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
    learn_cascade(state.beliefs, slate, clicks)
    return False


class CascadeUCBV(Ranker):
    """CascadeUCB-V (Vial et al. 2022): widths that shrink with the variance."""

    name = "cascade-ucb-v"
    reference = "Vial, Sanghavi, Shakkottai, Srikant 2022"
    believes = "cascade"
    uses_features = False
    regret_bound = "O(sqrt(L T log T))"
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
        exploration: Annotated[float, Option("the 2 in E = 2 log t", least=0)] = 2.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        self.state = State(no_beliefs(len(self.catalogue), self.positions), np.array(self.record(exploration=exploration)))


register(State, CascadeUCBV)
