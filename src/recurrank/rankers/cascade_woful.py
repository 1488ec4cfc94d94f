"""CascadeWOFUL: Vial, Sanghavi, Shakkottai, Srikant, *Minimax Regret for Cascading Bandits* (NeurIPS 2022), linear attraction.

Two regressions. The first (subscript H, after Hoeffding) is that of CascadeLinUCB; its upper bound of an item's attraction
bounds the variance of its clicks. The second (B, after Bernstein) weighs every observation by one over that bound, and ranks.

| paper                                     | code                                                       |
|-------------------------------------------|------------------------------------------------------------|
| phi(e), d                                 | a row of ``features``                                      |
| Lambda_H = I + sum phi phi'               | ``State.plain``                                            |
| U_H(e) = <phi, theta_H> + alpha |phi|_{Lambda_H^-1} | ``_bound``, with alpha = c of CascadeLinUCB      |
| sigma^2(e) = max(min(U_H(e), 1), 1/K)     | ``learn``, as it was when the round was ranked             |
| Lambda_B = I + sum phi phi' / sigma^2     | ``State.regression``                                       |
| U_B(e) = min(<phi, theta_B> + beta |phi|_{Lambda_B^-1}, 1) | ``rank``                                  |
| A_t                                       | the K items of largest U_B, ties by item index             |
| C_t                                       | the first click; items down to it are observed             |

Guarantee: regret O(d sqrt(T) log T) under the cascade model with linear attraction, without a factor sqrt(K), for the paper's
beta; ``docs/deviations.md`` says which beta is used here.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.cascade_linucb import proved
from recurrank.rankers.engines.confidence import radius
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.engines.regression import Regression, add, dot, no_data, solve, whiten
from recurrank.rankers.engines.scores import show_optimistic, unseen, widths
from recurrank.rankers.options import Delta, Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

ALPHA, DELTA = 0, 1


class State(NamedTuple):
    columns: Floats  # (d, L)
    features: Floats  # (L, d)
    plain: Regression
    regression: Regression
    lower: Floats  # (d, d)
    inverse: Floats  # (d, d)
    score: Floats  # (L,)
    square: Floats  # (L,)
    best: Ints  # (K,)
    top: Floats  # (K,)
    numbers: Floats  # (2,) alpha and delta


@inner
def _bound(state: State, item: int) -> float:
    """U_H(e) = <phi, theta_H> + alpha |phi|_{Lambda_H^-1}, of the regression that was last solved."""
    x, plain = state.features[item], state.plain
    return dot(x, plain.theta) + float(state.numbers[ALPHA]) * math.sqrt(whiten(plain.factor, x, plain.work))


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    solve(state.plain)
    solve(state.regression)
    show_optimistic(state, state.regression.theta, radius(state.regression, state.numbers[DELTA]), 1.0, slate)


@hot
def served(state: State, slate: Buffer) -> None:
    """Answers are weighed by the bounds as they are when a slate is served."""
    solve(state.plain)


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        x = state.features[slate.items[k]]
        # sigma^2 = max(min(U_H, 1), 1/K); variances are at most means
        weight = 1 / max(min(_bound(state, slate.items[k]), 1.0), 1 / len(slate.items))
        add(state.plain, x, 1.0, 1.0 * clicks[k])
        add(state.regression, x, weight, weight * clicks[k])
        if clicks[k]:
            break
    return False


class CascadeWOFUL(Ranker):
    """CascadeWOFUL (Vial et al. 2022): observations weighed by bounds on their variance."""

    name = "cascade-woful"
    reference = "Vial, Sanghavi, Shakkottai, Srikant 2022"
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
        width: Annotated[
            float | None,
            Option(
                "alpha, the widths of optimism in bounds on variances, by default sqrt(d log(1 + TK/d) + 2 log(TK)) + 1",
                least=0,
                usually=proved,
            ),
        ] = None,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        failure, alpha = self.record(delta=delta, width=width)
        common = unseen(self.catalogue, self.positions) | widths(self.catalogue)
        plain = no_data(self.catalogue.dim)
        self.state = State(**common, plain=plain, numbers=np.array([alpha, failure]))


register(State, CascadeWOFUL)
