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
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.catalogue import Catalogue
from recurrank.rankers.linear import Regression, add, no_data, solve
from recurrank.rankers.linear_scores import best_of, columns_of, means
from recurrank.rankers.options import Option, Sigma
from recurrank.rankers.ranker import Buffer, Ranker, Seed, nothing_served, register

SCALE, PRECISION = 0, 1


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
    best_of(state.score, state.best, state.top)
    for k in range(len(slate.items)):
        slate.items[k] = state.best[k]


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
        self,
        features: ArrayLike | Catalogue,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        scale: Annotated[float, Option("the standard deviation of a sample, in units of the posterior's", least=0)] = 1.0,
        sigma: Sigma = 1.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        scale, sigma = self.record(scale=scale, sigma=sigma)
        items, d, size = len(self.catalogue), self.catalogue.dim, self.positions
        self.state = State(
            columns=columns_of(self.catalogue.features),
            features=np.ascontiguousarray(self.catalogue.features, dtype=np.float64),
            regression=no_data(d),
            drawn=np.zeros(d),
            score=np.zeros(items),
            best=np.arange(size),
            top=np.zeros(size),
            numbers=np.array([scale, sigma**-2.0]),
        )


register(State, CascadeLinTS)
