"""DBGD, dueling bandit gradient descent (Yue, Joachims 2009), with team-draft interleaving.

| paper | code |
|---|---|
| w_t, w'_t = w_t + delta u_t | ``State.vectors[0]``, ``State.vectors[1]`` |
| u_t, uniform on the sphere | ``multileaving.direction`` |
| gamma, the step | ``State.numbers[RATE]`` |
| the duel | ``multileaving.draft``, ``multileaving.take_draft`` |

delta is 1. The paper leaves the comparison open; team-draft interleaving (Radlinski et al. 2008) is what the field has used
since.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from recurrank.catalogue import Catalogue
from recurrank.rankers.documents.multileaving import Decay, DuelingRanker, Rate, State
from recurrank.rankers.documents.ranker import register
from recurrank.rankers.ranker import Seed
from recurrank.rankers.request_ranker import ContextSize, Dim, Interactions


class DBGD(DuelingRanker):
    """One random change of the ranking function competes with the present one in every slate.

    Args:
        features: a catalogue whose items queries name, or None: queries bring their documents' features.
        positions: K, the most documents that a slate shows.
        rounds: how many queries are planned; nothing depends on it.
        seed: the seed of all its random choices.
        dim: where there is no catalogue, how many features a document has.
        context: how many numbers describe a query or its visitor; 0 for none.
        interactions: as :class:`recurrank.Anchored` has them.
        learning_rate: the step towards a winner.
        decay: what the step is multiplied by after each one.

    >>> import numpy as np
    >>> ranker = DBGD(dim=3, positions=2, seed=0)
    >>> slate = ranker.rank(np.eye(3))
    >>> ranker.learn(slate, [True, False])
    >>> len(slate)
    2

    """

    name = "dbgd"
    reference = "Yue, Joachims 2009"
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
    ) -> None:
        rates = {"learning_rate": learning_rate, "decay": decay}
        shared = self.begin_duels(features, dim, positions, rounds, seed, context, interactions, rates, 1)
        self.state = State(**shared, memory=np.full((self.positions, 2), np.nan))
        _ = self.identity


register(State, DBGD)
