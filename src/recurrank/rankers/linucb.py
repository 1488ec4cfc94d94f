"""LinUCB for rankings: Li, Chu, Langford, Schapire, *A Contextual-Bandit Approach to Personalized News Article
Recommendation* (WWW 2010), with every shown position an observation.

| paper                                        | code                            |
|----------------------------------------------|---------------------------------|
| A = I + sum x x', b = sum r x                | ``Regression``                  |
| p_a = theta'x + alpha sqrt(x' A^-1 x)        | ``rank``                        |
| alpha = 1 + sqrt(ln(2/delta) / 2)            | ``alpha``                       |

The K items of largest p are shown in order. It believes that every position is examined (document-based clicks), and has
no guarantee for rankings.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.engines.regression import Regression, add, solve
from recurrank.rankers.engines.scores import show_optimistic, unseen, widths
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register

ALPHA = 1 + math.sqrt(math.log(2 / 0.05) / 2)
"""The default alpha: that of delta = 0.05."""

Alpha = Annotated[float, Option("how many standard widths of optimism", least=0)]


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
    alpha: Floats  # (1,)


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    solve(state.regression)
    show_optimistic(state, state.regression.theta, state.alpha[0], np.inf, slate)  # p_a = theta'x + alpha sqrt(x' A^-1 x)


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        add(state.regression, state.features[slate.items[k]], 1.0, 1.0 * clicks[k])
    return False


class LinUCB(Ranker):
    """LinUCB (Li et al. 2010), every position an observation."""

    name = "linucb"
    reference = "Li, Chu, Langford, Schapire 2010"
    believes = "document-based"
    uses_features = True
    regret_bound = "none for rankings"
    compiled_rank = rank
    compiled_learn = learn
    compiled_propensity = certain
    compiled_served = nothing_served
    from_catalogue = ("columns", "features")

    def __init__(self, features: Items, positions: int, rounds: int, seed: Seed = None, *, alpha: Alpha = ALPHA) -> None:
        super().__init__(features, positions, rounds, seed)
        common = unseen(self.catalogue, self.positions) | widths(self.catalogue)
        self.state = State(**common, alpha=np.array(self.record(alpha=alpha)))


register(State, LinUCB)
