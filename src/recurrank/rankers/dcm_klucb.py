"""dcmKL-UCB: Katariya, Kveton, Szepesvari, Wen, *DCM Bandits: Learning to Rank with Multiple Clicks* (ICML 2016).

As CascadeKL-UCB, but users may go on after a click, so that items are observed down to the *last* click:

| paper       | code                                                                        |
|-------------|-----------------------------------------------------------------------------|
| U_t(e)      | max { q : T(e) kl(w_hat(e), q) <= log t + 3 log log t }, ``kl_index``       |
| A_t         | the K items of largest U_t, in order                                        |
| C_t         | the last click, K when there is none; items down to it are observed         |

Guarantee: regret O(L log(T) / Delta) under the dependent click model whose termination probabilities fall with the
position. It believes that model and uses no features.

It does not learn from orders that others chose: clicks count everywhere, non-clicks only above the last click or on slates
without one, so that estimates are too high by an amount that depends on what stands above. Its own order moves items until that
evens out; 2,000 slates of one order do not, and cost up to five times the regret of a cold start (docs/rollout.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats
from recurrank._compiled import hot, inner
from recurrank.rankers.cascade_ucb import Exploration, kl_index, kl_level, show
from recurrank.rankers.engines.optimism import Beliefs, crowded, no_beliefs, observe, same_counts, selector
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register


class State(NamedTuple):
    beliefs: Beliefs
    constants: Floats  # the 3 of log t + 3 log log t


choose = selector(kl_index, same_counts)


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    choose(state, state.beliefs, kl_level(state.beliefs.clock[0], state.constants[0]))
    show(state.beliefs, slate)


@hot
def served(state: State, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    if crowded(state.beliefs):
        choose(state, state.beliefs, kl_level(state.beliefs.clock[0], state.constants[0]))


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    last = last_click(clicks)
    for k in range(last + 1):
        observe(state.beliefs, slate.items[k], clicks[k])
    return False


@inner
def last_click(clicks: Bools) -> int:
    """The position of the last click; the last position when there is none."""
    for k in range(len(clicks) - 1, -1, -1):
        if clicks[k]:
            return k
    return len(clicks) - 1


class DCMKLUCB(Ranker):
    """dcmKL-UCB (Katariya et al. 2016)."""

    name = "dcm-klucb"
    reference = "Katariya, Kveton, Szepesvari, Wen 2016"
    believes = "dependent click"
    uses_features = False
    regret_bound = "O(L log(T) / Delta)"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_propensity = certain

    def __init__(
        self, features: Items, positions: int, rounds: int, seed: Seed = None, *, exploration: Exploration = 3.0
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        self.state = State(no_beliefs(len(self.catalogue), self.positions), np.array(self.record(exploration=exploration)))


register(State, DCMKLUCB)
