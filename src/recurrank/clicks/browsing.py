"""The user browsing model: examination depends on the position and on where the last click was.

With gamma[k, j] for position k if the last click was at j < k, gamma[k, K-1] if there was none yet (no position follows a
click at the last position, so that column is free), and P_k(j) the distribution of the last click above k:

    chi(A, k) = sum_j P_k(j) gamma[k, j],
    P_{k+1}(k) = chi(A, k) alpha(A(k)),      P_{k+1}(j) = P_k(j) (1 - gamma[k, j] alpha(A(k))).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_array, as_probabilities
from recurrank._compiled import hot
from recurrank._uniforms import uniform
from recurrank.clicks.model import BROWSING, ClickModel, ClickState, click_state, register


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    none = state.table.shape[1] - 1
    last = state.scratch
    last[:] = 0.0
    last[none] = 1.0
    for k in range(len(items)):
        attraction = state.attraction[items[k]]
        chi[k] = last[none] * state.table[k, none]
        last[none] *= 1 - state.table[k, none] * attraction
        for j in range(k):
            chi[k] += last[j] * state.table[k, j]
            last[j] *= 1 - state.table[k, j] * attraction
        if k < none:  # no position follows the last one
            last[k] = chi[k] * attraction


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    last = state.table.shape[1] - 1
    for k in range(len(items)):
        clicks[k] = uniform(rng) < state.table[k, last] * state.attraction[items[k]]
        if clicks[k]:
            last = k


class UserBrowsing(ClickModel):
    """Position k is examined with probability ``examination[k, j]``, j the position of the last click.

    ``examination`` is a K x K matrix; its last column is for "no click so far".

    >>> UserBrowsing([0.5, 0.5], examination=[[0.0, 1.0], [0.8, 0.4]]).examine([0, 1]).round(3).tolist()
    [1.0, 0.6]
    """

    name = "user-browsing"
    reference = "Dupret, Piwowarski 2008"
    describes = "examination depends on the position and on the last click's position"
    compiled_examine, compiled_sample = examine, sample

    def __init__(self, attraction: ArrayLike, examination: ArrayLike) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        rows = len(np.atleast_1d(as_array("examination", examination)))
        self.examination = as_probabilities("examination", examination, shape=(rows, rows))
        self.positions = rows
        self.state = click_state(BROWSING, self.attraction, self.examination)

    @classmethod
    def defaults(cls, items: int, positions: int) -> dict[str, Any]:
        # it falls with the distance from the last click, or from the top if there is none
        k, j = np.indices((positions, positions))
        distance = np.where(j == positions - 1, k + 1, np.maximum(k - j, 1))
        return {"examination": distance**-0.5}


register(ClickState, UserBrowsing)
