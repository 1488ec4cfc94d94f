"""The dynamic Bayesian network model: a click may satisfy, and the unsatisfied go on with probability gamma.

    chi(A, k+1) = gamma chi(A, k) (1 - alpha(A(k)) s(A(k))),      chi(A, 1) = 1,

where s(a) is the probability that a clicked item satisfies. Assumption 3 requires that the most attractive items are also
those that most often end the search: it holds if ``alpha s`` is in the order of ``alpha``, and may fail otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities, as_probability
from recurrank._compiled import hot
from recurrank._uniforms import uniform
from recurrank.clicks.model import BAYESIAN, ClickModel, ClickState, click_state, register


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    reached, continuation = 1.0, state.table[0, 0]
    for k in range(len(items)):
        chi[k] = reached
        reached *= continuation * (1 - state.attraction[items[k]] * state.satisfaction[items[k]])


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    clicks[:] = False
    for k in range(len(items)):
        if uniform(rng) < state.attraction[items[k]]:
            clicks[k] = True
            if uniform(rng) < state.satisfaction[items[k]]:
                return
        if uniform(rng) >= state.table[0, 0]:
            return


class DynamicBayesian(ClickModel):
    """Users stop when a clicked item satisfies them, and otherwise go on with probability ``continuation``.

    >>> DynamicBayesian([0.5, 0.5], satisfaction=[1.0, 1.0], continuation=0.8).examine([0, 1]).tolist()
    [1.0, 0.4]
    """

    name = "dynamic-bayesian"
    reference = "Chapelle, Zhang 2009"
    describes = "a clicked item may satisfy and end the search; the unsatisfied may give up"
    compiled_examine, compiled_sample = examine, sample

    def __init__(self, attraction: ArrayLike, satisfaction: ArrayLike, continuation: float) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.satisfaction = as_probabilities("satisfaction", satisfaction, shape=self.attraction.shape)
        self.continuation = as_probability("continuation", continuation)
        self.state = click_state(BAYESIAN, self.attraction, self.continuation, self.satisfaction)

    @classmethod
    def defaults(cls, items: int, positions: int) -> dict[str, Any]:
        return {"satisfaction": np.full(items, 0.5), "continuation": 0.9}


register(ClickState, DynamicBayesian)
