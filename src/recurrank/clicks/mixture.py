"""Two kinds of users: some look at position k with probability p_k, the others read from the top until their first click.

    chi(A, k) = q p_k + (1 - q) prod_{j < k} (1 - alpha(A(j))),

where q is the share of the first kind. If p_k falls, the ranking by attraction is best for both kinds. None of the other models
describes both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities, as_probability
from recurrank._compiled import hot
from recurrank._uniforms import uniform
from recurrank.clicks.model import MIXTURE, ClickModel, ClickState, click_state, register


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    share, reached = state.table[1, 0], 1.0
    for k in range(len(items)):
        chi[k] = share * state.table[0, k] + (1 - share) * reached
        reached *= 1 - state.attraction[items[k]]


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    by_position = uniform(rng) < state.table[1, 0]
    clicks[:] = False
    for k in range(len(items)):
        if by_position:
            clicks[k] = uniform(rng) < state.table[0, k] * state.attraction[items[k]]
        elif uniform(rng) < state.attraction[items[k]]:
            clicks[k] = True
            return


class Mixture(ClickModel):
    """A ``share`` of the users examine position k with probability ``examination[k]``, the others are cascade users.

    >>> Mixture([0.5, 0.5], examination=[1.0, 0.5], share=0.5).examine([0, 1]).tolist()
    [1.0, 0.5]
    """

    name = "mixture"
    reference = "this project"
    describes = "some users look at positions, the others read from the top until their first click"
    compiled_examine, compiled_sample = examine, sample

    def __init__(self, attraction: ArrayLike, examination: ArrayLike, share: float = 0.5) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.examination = as_probabilities("examination", examination)
        self.share = as_probability("share", share)
        self.positions = len(self.examination)
        table = np.stack([self.examination, np.full(self.positions, self.share)])
        self.state = click_state(MIXTURE, self.attraction, table)

    @classmethod
    def defaults(cls, items: int, positions: int) -> dict[str, Any]:
        return {"examination": 1 / np.arange(1, positions + 1), "share": 0.5}


register(ClickState, Mixture)
