"""CascadeLinTS: Zong, Ni, Sung, Ke, Wen, Kveton, *Cascading Bandits for Large-Scale Recommendation Problems* (UAI 2016).

| paper                                  | code                                        |
|----------------------------------------|---------------------------------------------|
| M_t = I + sigma^-2 sum x x', theta_bar | ``Regression``                              |
| theta_t ~ N(theta_bar, M^-1)           | theta + scale F'^-1 g, g standard normal    |
| A_t                                    | the K items of largest <x, theta_t>         |
| C_t                                    | the first click; items down to it are observed |

It believes the cascade model; its paper has a guarantee for CascadeLinUCB, and recommends this one for its results.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.rankers.engines.regression import Regression, add, solve
from recurrank.rankers.engines.scores import means, show_best, unseen
from recurrank.rankers.options import Option, Sigma
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register

SCALE, PRECISION = 0, 1

Scale = Annotated[float, Option("the standard deviation of a sample, in units of the posterior's", least=0)]


class State(NamedTuple):
    columns: Floats  # (d, L)
    features: Floats  # (L, d)
    regression: Regression
    drawn: Floats  # (d,) theta_t
    score: Floats  # (L,)
    best: Ints  # (K,)
    top: Floats  # (K,)
    numbers: Floats  # (2,) scale and sigma^-2


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    solve(state.regression)
    drawn, factor, theta = state.drawn, state.regression.factor, state.regression.theta
    for i in range(len(drawn)):
        drawn[i] = rng.standard_normal()
    # F' u = g has u ~ N(0, M^-1)
    for i in range(len(drawn) - 1, -1, -1):
        for k in range(i + 1, len(drawn)):
            drawn[i] -= factor[k, i] * drawn[k]
        drawn[i] /= factor[i, i]
    for i in range(len(drawn)):
        drawn[i] = theta[i] + state.numbers[SCALE] * drawn[i]
    means(state.columns, drawn, state.score)
    show_best(state, slate)


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        precision = state.numbers[PRECISION]
        add(state.regression, state.features[slate.items[k]], precision, precision * clicks[k])
        if clicks[k]:
            break
    return False


class CascadeLinTS(Ranker):
    """CascadeLinTS (Zong et al. 2016): posterior sampling with linear attraction and cascade clicks."""

    name = "cascade-lints"
    reference = "Zong, Ni, Sung, Ke, Wen, Kveton 2016"
    believes = "cascade"
    uses_features = True
    regret_bound = "none proved"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = nothing_served
    from_catalogue = ("columns", "features")

    def __init__(
        self, features: Items, positions: int, rounds: int, seed: Seed = None, *, scale: Scale = 1.0, sigma: Sigma = 1.0
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        scale, sigma = self.record(scale=scale, sigma=sigma)
        common, d = unseen(self.catalogue, self.positions), self.catalogue.dim
        self.state = State(**common, drawn=np.zeros(d), numbers=np.array([scale, sigma**-2.0]))


register(State, CascadeLinTS)
