"""The document-based model: every position is examined, ``chi(A, k) = 1``.

Clicks depend on the items alone. It satisfies all of the paper's assumptions, and is the model of its MovieLens experiment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities
from recurrank._compiled import hot, inner, natural
from recurrank._uniforms import ahead, nth, uniform
from recurrank.clicks.model import DOCUMENT, ClickModel, ClickState, click_state, register, settle


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    chi[:] = 1.0


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    for k in range(len(items)):
        clicks[k] = uniform(rng) < state.attraction[items[k]]


@inner
def meet(state: ClickState, items: Ints, rng: Any, clicks: Bools, chi: Floats, best: Floats, lost: Floats) -> int:
    first, many = ahead(rng, len(items)), 0
    for k in range(len(items)):
        many += settle(state.attraction[natural(items[k])], nth(rng, first, k), k, clicks, best, lost)
    return many


class DocumentBased(ClickModel):
    """Every shown item is examined and clicked with its own probability.

    >>> DocumentBased([0.9, 0.2]).expected([1, 0]).tolist()
    [0.2, 0.9]
    """

    name = "document-based"
    reference = "Chuklin, Markov, de Rijke 2015, section 3.1"
    describes = "every position is examined"
    compiled_examine, compiled_sample, compiled_meet = examine, sample, meet

    def __init__(self, attraction: ArrayLike) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.state = click_state(DOCUMENT, self.attraction)


register(ClickState, DocumentBased)
