"""The cascade model: users go down the list and stop at the first click.

chi(A, k+1) = chi(A, k) (1 - alpha(A(k))),      chi(A, 1) = 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities
from recurrank._compiled import hot
from recurrank._uniforms import uniform
from recurrank.clicks.model import CASCADE, ClickModel, ClickState, click_state, register


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    reached = 1.0
    for k in range(len(items)):
        chi[k] = reached
        reached *= 1 - state.attraction[items[k]]


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    clicks[:] = False
    for k in range(len(items)):
        if uniform(rng) < state.attraction[items[k]]:
            clicks[k] = True
            return


class Cascade(ClickModel):
    """At most one click: the first attractive item ends the search.

    >>> Cascade([0.5, 0.5, 0.5]).examine([0, 1, 2]).tolist()
    [1.0, 0.5, 0.25]
    """

    name = "cascade"
    reference = "Craswell, Zoeter, Taylor, Ramsey 2008"
    describes = "users read from the top and stop at the first click"
    compiled_examine, compiled_sample = examine, sample

    def __init__(self, attraction: ArrayLike) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.state = click_state(CASCADE, self.attraction)


register(ClickState, Cascade)
