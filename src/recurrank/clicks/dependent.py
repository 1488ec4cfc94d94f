"""The dependent click model: after a click at position k users go on with probability lambda_k.

    chi(A, k+1) = chi(A, k) (1 - alpha(A(k)) (1 - lambda_k)),      chi(A, 1) = 1.

With lambda_k = 0 it is the cascade model, with lambda_k = 1 the document-based one. Assumption 1 needs the lambda_k of
all positions but the last to be equal: otherwise the order of the items above matters, not only the set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities
from recurrank._compiled import hot
from recurrank._uniforms import uniform
from recurrank.clicks.model import DEPENDENT, ClickModel, ClickState, click_state, register


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    reached = 1.0
    for k in range(len(items)):
        chi[k] = reached
        reached *= 1 - state.attraction[items[k]] * (1 - state.table[0, k])


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    clicks[:] = False
    for k in range(len(items)):
        if uniform(rng) < state.attraction[items[k]]:
            clicks[k] = True
            if uniform(rng) >= state.table[0, k]:
                return


class DependentClick(ClickModel):
    """Users may go on after a click, with probability ``continuation[k]`` after position k.

    >>> DependentClick([0.5, 0.5], continuation=[0.5, 0.5]).examine([0, 1]).tolist()
    [1.0, 0.75]
    """

    name = "dependent-click"
    reference = "Guo, Liu, Wang 2009"
    describes = "users read from the top and may go on after a click"
    compiled_examine, compiled_sample = examine, sample

    def __init__(self, attraction: ArrayLike, continuation: ArrayLike) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.continuation = as_probabilities("continuation", continuation)
        self.positions = len(self.continuation)
        self.state = click_state(DEPENDENT, self.attraction, self.continuation)

    @classmethod
    def defaults(cls, items: int, positions: int) -> dict[str, Any]:
        return {"continuation": np.full(positions, 0.6)}


register(ClickState, DependentClick)
