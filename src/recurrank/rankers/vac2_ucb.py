"""VAC2-UCB: Liu, Zuo, Wang, Lui, Hajiesmaili, Wierman, Chen (ICML 2023), Algorithm 2, for cascades.

*Contextual Combinatorial Bandits with Probabilistically Triggered Arms.* A regression weighs every observation by one over an
upper bound on its variance, which comes from the same regression's confidence interval:

| paper                                          | code                                                      |
|------------------------------------------------|-----------------------------------------------------------|
| phi(i), d                                      | a row of ``features``                                     |
| G = gamma I + sum phi phi' / V                 | ``Regression.gram``, gamma is ``ridge``                   |
| theta_hat = G^-1 b                             | ``Regression.theta``                                      |
| mu_bar, mu_low = <phi, theta_hat> +- 2 rho |phi|_{G^-1}, within [0, 1] | ``rank``, ``_variance``           |
| V = the largest mu (1 - mu) between the two    | ``_variance``, as it was when the round was ranked        |
| S_t, the oracle's choice                       | the K items of largest mu_bar, ties by item index         |
| tau_t, the triggered arms                      | items down to the first click                             |

Guarantee: regret O(d sqrt(T) log T) under the cascade model with linear attraction, without a factor sqrt(K), for the paper's
rho; ``docs/deviations.md`` says which rho is used here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.c3_ucb import Ridge
from recurrank.rankers.engines.confidence import radius
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.engines.regression import Regression, add, dot, solve, whiten
from recurrank.rankers.engines.scores import show_optimistic, unseen, widths
from recurrank.rankers.options import Delta
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

LEAST = 0.01
"""The least variance that an observation is weighed by."""


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
    rho: Floats  # (2,) when the last round was ranked; delta


@inner
def _variance(state: State, item: int) -> float:
    """V: the largest mu (1 - mu) for mu from mu_low to mu_bar."""
    x, regression = state.features[item], state.regression
    mean = dot(x, regression.theta)
    width = 2 * float(state.rho[0]) * math.sqrt(whiten(regression.factor, x, regression.work))
    low, high = max(mean - width, 0.0), min(mean + width, 1.0)
    mu = high if high <= 0.5 else low if low >= 0.5 else 0.5
    return max(mu * (1 - mu), LEAST)


@hot
def served(state: State, slate: Buffer) -> None:
    """Answers are weighed by the bounds as they are when a slate is served."""
    solve(state.regression)
    state.rho[0] = radius(state.regression, state.rho[1])


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    served(state, slate)
    show_optimistic(state, state.regression.theta, 2 * state.rho[0], 1.0, slate)


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        weight = 1 / _variance(state, slate.items[k])
        add(state.regression, state.features[slate.items[k]], weight, weight * clicks[k])
        if clicks[k]:
            break
    return False


class VAC2UCB(Ranker):
    """VAC2-UCB (Liu et al. 2023): observations weighed by their optimistic variance."""

    name = "vac2-ucb"
    reference = "Liu, Zuo, Wang, Lui, Hajiesmaili, Wierman, Chen 2023"
    believes = "cascade"
    uses_features = True
    regret_bound = "O(d sqrt(T) log T)"
    compiled_rank = rank
    compiled_learn = learn
    compiled_propensity = certain
    compiled_served = served
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
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        failure, gamma = self.record(delta=delta, ridge=ridge)
        common = unseen(self.catalogue, self.positions, gamma) | widths(self.catalogue)
        self.state = State(**common, rho=np.array([0.0, failure]))


register(State, VAC2UCB)
