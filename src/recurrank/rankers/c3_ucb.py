"""C3-UCB: Li, Wang, Zhang, Chen, *Contextual Combinatorial Cascading Bandits* (ICML 2016).

| paper                                           | code                                        |
|-------------------------------------------------|---------------------------------------------|
| V = lambda I + sum gamma_k^2 x x'               | ``Regression.gram``                         |
| theta_hat = V^-1 sum gamma_k^2 x w              | ``Regression.theta``                        |
| beta_t(delta) = sqrt(ln(det V / (lambda^d delta^2))) + sqrt(lambda) | ``radius``              |
| U_t(a) = min(theta_hat'x + beta |x|_{V^-1}, 1)  | ``rank``                                    |
| gamma_k, the position discounts                 | ``discounts``, by default all 1             |
| O_t                                             | the first click; items down to it are observed |

Guarantee: regret O(d sqrt(T K) log(T)) under the cascade model with linear attraction. Ties (at the truncation) go to
the smaller item index.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.rankers.engines.confidence import radius
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.engines.regression import Regression, add, solve
from recurrank.rankers.engines.scores import show_optimistic, unseen, widths
from recurrank.rankers.options import Delta, Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register

DELTA = 1
"""Index into ``State.numbers``."""

Ridge = Annotated[float, Option("lambda", above=0)]
Discounts = Annotated[
    ArrayLike | None,
    Option(
        "gamma_k, how much a click at each position counts, by default all 1",
        least=0,
        most=1,
        per="position",
        usually=lambda ranker: np.ones(ranker.positions),
    ),
]


class State(NamedTuple):
    columns: Floats  # (d, L)
    features: Floats  # (L, d)
    regression: Regression
    lower: Floats  # (d, d)
    inverse: Floats  # (d, d)
    score: Floats  # (L,)
    square: Floats  # (L,)
    best: Ints  # (K,)
    top: Floats  # (K,)
    discounts: Floats  # (K,)
    numbers: Floats  # (2,) lambda and delta


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    solve(state.regression)
    show_optimistic(state, state.regression.theta, radius(state.regression, state.numbers[DELTA]), 1.0, slate)


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        weight = state.discounts[k] ** 2
        add(state.regression, state.features[slate.items[k]], weight, weight * clicks[k])
        if clicks[k]:
            break
    return False


class C3UCB(Ranker):
    """C3-UCB (Li, Wang, Zhang, Chen 2016)."""

    name = "c3-ucb"
    reference = "Li, Wang, Zhang, Chen 2016"
    believes = "cascade"
    uses_features = True
    regret_bound = "O(d sqrt(T K) log(T))"
    compiled_rank = rank
    compiled_learn = learn
    compiled_propensity = certain
    compiled_served = nothing_served
    from_catalogue = ("columns", "features")

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        delta: Delta = None,
        ridge: Ridge = 1.0,
        discounts: Discounts = None,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        failure, ridge, gamma = self.record(delta=delta, ridge=ridge, discounts=discounts)
        common = unseen(self.catalogue, self.positions, ridge) | widths(self.catalogue)
        self.state = State(**common, discounts=gamma, numbers=np.array([ridge, failure]))


register(State, C3UCB)
