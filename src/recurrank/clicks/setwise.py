"""Examination that falls with the items above, clicked or not: attractive items use up attention.

    chi(A, k) = prod_{j < k} (1 - c alpha(A(j))),      clicks independent given the ranking.

Its expected clicks are those of dependent clicks with continuation 1 - c, but not its joint distribution: here a click says
nothing about the examination below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities, as_probability
from recurrank._compiled import hot
from recurrank._uniforms import uniform
from recurrank.clicks.model import SETWISE, ClickModel, ClickState, click_state, register


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    reached = 1.0
    for k in range(len(items)):
        chi[k] = reached
        reached *= 1 - state.table[0, 0] * state.attraction[items[k]]


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    reached = 1.0
    for k in range(len(items)):
        clicks[k] = uniform(rng) < reached * state.attraction[items[k]]
        reached *= 1 - state.table[0, 0] * state.attraction[items[k]]


class SetDependent(ClickModel):
    """Every item hides what is below it by ``hiding`` times its attraction, whether it is clicked or not.

    >>> SetDependent([0.5, 0.5], hiding=0.5).examine([0, 1]).tolist()
    [1.0, 0.75]
    """

    name = "set-dependent"
    reference = "this project"
    describes = "attractive items hide what is below them, clicked or not"
    compiled_examine, compiled_sample = examine, sample

    def __init__(self, attraction: ArrayLike, hiding: float = 0.5) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.hiding = as_probability("hiding", hiding)
        self.state = click_state(SETWISE, self.attraction, self.hiding)

    @classmethod
    def defaults(cls, items: int, positions: int) -> dict[str, Any]:
        return {"hiding": 0.5}


register(ClickState, SetDependent)
