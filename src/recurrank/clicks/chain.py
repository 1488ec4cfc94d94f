"""The click chain model: going on depends on whether there was a click, and after one on how relevant the item was.

chi(A, k+1) = chi(A, k) [ (1 - r) alpha1 + r (alpha2 (1 - r) + alpha3 r) ],      r = alpha(A(k)),  chi(A, 1) = 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities, as_probability
from recurrank._compiled import hot
from recurrank.clicks.model import ClickModel, register


class ChainState(NamedTuple):
    attraction: Floats
    alpha1: float
    alpha2: float
    alpha3: float


@hot
def examine(state: ChainState, items: Ints, chi: Floats) -> None:
    reached = 1.0
    for k in range(len(items)):
        chi[k] = reached
        r = state.attraction[items[k]]
        reached *= (1 - r) * state.alpha1 + r * (state.alpha2 * (1 - r) + state.alpha3 * r)


@hot
def sample(state: ChainState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    clicks[:] = False
    for k in range(len(items)):
        r = state.attraction[items[k]]
        onward = state.alpha1
        if rng.random() < r:
            clicks[k] = True
            onward = state.alpha2 * (1 - r) + state.alpha3 * r
        if rng.random() >= onward:
            return


class ClickChain(ClickModel):
    """Users go on with ``alpha1`` after no click, and after a click with between ``alpha2`` (irrelevant) and ``alpha3``.

    >>> ClickChain([0.5, 0.5], alpha1=1.0, alpha2=0.6, alpha3=0.2).examine([0, 1]).tolist()
    [1.0, 0.7]
    """

    name = "click-chain"
    reference = "Guo, Liu, Kannan, Minka, Taylor, Wang, Faloutsos 2009"
    describes = "going on depends on the click and on the clicked item's relevance"
    compiled_examine = examine
    compiled_sample = sample

    def __init__(self, attraction: ArrayLike, alpha1: float, alpha2: float, alpha3: float) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.alpha1 = as_probability("alpha1", alpha1)
        self.alpha2 = as_probability("alpha2", alpha2)
        self.alpha3 = as_probability("alpha3", alpha3)
        self.state = ChainState(self.attraction, self.alpha1, self.alpha2, self.alpha3)


register(ChainState, ClickChain)
