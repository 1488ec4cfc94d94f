"""MGD, multileave gradient descent (Schuth, Oosterhuis, Whiteson, de Rijke 2016), by team drafts.

| paper | code |
|---|---|
| w_t^0, the present ranker, and w_t^i = w_t^0 + delta u_t^i | ``State.vectors`` |
| alpha, the step | ``State.numbers[RATE]`` |
| TDM | ``multileaving.draft`` |
| mean-winner update | ``multileaving.step`` |

delta is 1. Of the paper's two rules this is MGD-M, which moves towards the mean of all winners.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from recurrank.catalogue import Catalogue
from recurrank.rankers.documents.multileaving import Candidates, Decay, DuelingRanker, Rate, State
from recurrank.rankers.documents.ranker import register
from recurrank.rankers.ranker import Seed
from recurrank.rankers.request_ranker import ContextSize, Dim, Interactions


class MGD(DuelingRanker):
    """Several random changes of the ranking function compete with the present one in every slate.

    Args:
        features: a catalogue whose items queries name, or None: queries bring their documents' features.
        positions: K, the most documents that a slate shows.
        rounds: how many queries are planned; nothing depends on it.
        seed: the seed of all its random choices.
        dim: where there is no catalogue, how many features a document has.
        context: how many numbers describe a query or its visitor; 0 for none.
        interactions: as :class:`recurrank.Anchored` has them.
        learning_rate: the step towards the mean of the winners.
        decay: what the step is multiplied by after each one.
        candidates: how many compete.

    >>> import numpy as np
    >>> ranker = MGD(dim=3, positions=2, seed=0, candidates=4)
    >>> slate = ranker.rank(np.eye(3))
    >>> ranker.learn(slate, [True, False])
    >>> len(slate)
    2

    """

    name = "mgd"
    reference = "Schuth, Oosterhuis, Whiteson, de Rijke 2016"
    state: State

    def __init__(
        self,
        features: ArrayLike | Catalogue | None = None,
        positions: int = 10,
        rounds: int = 1_000_000,
        seed: Seed = None,
        *,
        dim: Dim = None,
        context: ContextSize = 0,
        interactions: Interactions = "none",
        learning_rate: Rate = 0.01,
        decay: Decay = 1.0,
        candidates: Candidates = 9,
    ) -> None:
        rates = {"learning_rate": learning_rate, "decay": decay}
        shared = self.begin_duels(features, dim, positions, rounds, seed, context, interactions, rates, candidates)
        self.state = State(**shared, memory=np.full((self.positions, 2), np.nan))
        _ = self.identity


register(State, MGD)
