"""The document-based model: every position is examined, ``chi(A, k) = 1``.

Clicks depend on the items alone. It satisfies all of the paper's assumptions, and is the model of its MovieLens experiment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities
from recurrank._compiled import hot
from recurrank.clicks.model import ClickModel, register


class DocumentState(NamedTuple):
    attraction: Floats


@hot
def examine(state: DocumentState, items: Ints, chi: Floats) -> None:
    chi[:] = 1.0


@hot
def sample(state: DocumentState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    for k in range(len(items)):
        clicks[k] = rng.random() < state.attraction[items[k]]


class DocumentBased(ClickModel):
    """Every shown item is examined and clicked with its own probability.

    >>> DocumentBased([0.9, 0.2]).expected([1, 0]).tolist()
    [0.2, 0.9]
    """

    name = "document-based"
    reference = "Chuklin, Markov, de Rijke 2015, section 3.1"
    describes = "every position is examined"
    compiled_examine = examine
    compiled_sample = sample

    def __init__(self, attraction: ArrayLike) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.state = DocumentState(self.attraction)


register(DocumentState, DocumentBased)
