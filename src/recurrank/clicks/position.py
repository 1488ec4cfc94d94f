"""The position-based model: ``chi(A, k) = p_k``, whatever is shown.

The paper's experiment takes ``p_k = 1/k``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities
from recurrank._compiled import hot, inner, natural
from recurrank._uniforms import ahead, nth, uniform
from recurrank.clicks.model import POSITION, ClickModel, ClickState, click_state, register, settle


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    for k in range(len(items)):
        chi[k] = state.table[0, k]


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    for k in range(len(items)):
        clicks[k] = uniform(rng) < state.table[0, k] * state.attraction[items[k]]


@inner
def meet(state: ClickState, items: Ints, rng: Any, clicks: Bools, chi: Floats, best: Floats, lost: Floats) -> int:
    first, many = ahead(rng, len(items)), 0
    for k in range(len(items)):
        many += settle(state.table[0, k] * state.attraction[natural(items[k])], nth(rng, first, k), k, clicks, best, lost)
    return many


class PositionBased(ClickModel):
    """Position k is examined with probability ``examination[k]``.

    >>> PositionBased([0.9, 0.2], examination=[1.0, 0.5]).expected([0, 1]).tolist()
    [0.9, 0.1]
    """

    name = "position-based"
    reference = "Richardson, Dominowska, Ragno 2007"
    describes = "position k is examined with a probability of its own"
    compiled_examine, compiled_sample, compiled_meet = examine, sample, meet

    def __init__(self, attraction: ArrayLike, examination: ArrayLike) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.examination = as_probabilities("examination", examination)
        self.positions = len(self.examination)
        self.state = click_state(POSITION, self.attraction, self.examination)

    @classmethod
    def defaults(cls, items: int, positions: int) -> dict[str, Any]:
        return {"examination": 1 / np.arange(1, positions + 1)}  # the paper's experiment


register(ClickState, PositionBased)
