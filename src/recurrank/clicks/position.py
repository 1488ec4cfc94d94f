"""The position-based model: ``chi(A, k) = p_k``, whatever is shown.

The paper's experiment takes ``p_k = 1/k``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities
from recurrank._compiled import hot
from recurrank.clicks.model import ClickModel, register


class PositionState(NamedTuple):
    attraction: Floats
    examination: Floats


@hot
def examine(state: PositionState, items: Ints, chi: Floats) -> None:
    for k in range(len(items)):
        chi[k] = state.examination[k]


@hot
def sample(state: PositionState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    for k in range(len(items)):
        clicks[k] = rng.random() < state.examination[k] * state.attraction[items[k]]


class PositionBased(ClickModel):
    """Position k is examined with probability ``examination[k]``.

    >>> PositionBased([0.9, 0.2], examination=[1.0, 0.5]).expected([0, 1]).tolist()
    [0.9, 0.1]
    """

    name = "position-based"
    reference = "Richardson, Dominowska, Ragno 2007"
    describes = "position k is examined with a probability of its own"
    compiled_examine = examine
    compiled_sample = sample

    def __init__(self, attraction: ArrayLike, examination: ArrayLike) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.examination = as_probabilities("examination", examination)
        self.positions = len(self.examination)
        self.state = PositionState(self.attraction, self.examination)


register(PositionState, PositionBased)
