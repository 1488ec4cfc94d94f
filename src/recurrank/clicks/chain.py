"""The click chain model: going on depends on whether there was a click, and if so on the relevance of the item.

chi(A, k+1) = chi(A, k) [ (1 - r) alpha1 + r (alpha2 (1 - r) + alpha3 r) ],      r = alpha(A(k)),  chi(A, 1) = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities, as_probability
from recurrank._compiled import hot
from recurrank._uniforms import uniform
from recurrank.clicks.model import CHAIN, ClickModel, ClickState, click_state, register


@hot
def onward(r: float, alpha1: float, alpha2: float, alpha3: float) -> float:
    """The probability of going on from an item of attraction r."""
    return (1 - r) * alpha1 + r * (alpha2 * (1 - r) + alpha3 * r)


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    reached = 1.0
    alpha1, alpha2, alpha3 = state.table[0, 0], state.table[0, 1], state.table[0, 2]
    for k in range(len(items)):
        chi[k] = reached
        reached *= onward(state.attraction[items[k]], alpha1, alpha2, alpha3)


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    alpha1, alpha2, alpha3 = state.table[0, 0], state.table[0, 1], state.table[0, 2]
    clicks[:] = False
    for k in range(len(items)):
        r = state.attraction[items[k]]
        chance = alpha1
        if uniform(rng) < r:
            clicks[k] = True
            chance = alpha2 * (1 - r) + alpha3 * r
        if uniform(rng) >= chance:
            return


class ClickChain(ClickModel):
    """Users go on with probability ``alpha1`` after no click, and after one with ``alpha2`` (irrelevant) to ``alpha3``.

    >>> ClickChain([0.5, 0.5], alpha1=1.0, alpha2=0.6, alpha3=0.2).examine([0, 1]).tolist()
    [1.0, 0.7]
    """

    name = "click-chain"
    reference = "Guo, Liu, Kannan, Minka, Taylor, Wang, Faloutsos 2009"
    describes = "going on depends on the click and on the clicked item's relevance"
    compiled_examine, compiled_sample = examine, sample

    def __init__(self, attraction: ArrayLike, alpha1: float, alpha2: float, alpha3: float) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.alpha1 = as_probability("alpha1", alpha1)
        self.alpha2 = as_probability("alpha2", alpha2)
        self.alpha3 = as_probability("alpha3", alpha3)
        self.state = click_state(CHAIN, self.attraction, (self.alpha1, self.alpha2, self.alpha3))

    @classmethod
    def defaults(cls, items: int, positions: int) -> dict[str, Any]:
        return {"alpha1": 0.95, "alpha2": 0.6, "alpha3": 0.3}


register(ClickState, ClickChain)
