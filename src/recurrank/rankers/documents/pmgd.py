"""P-MGD, probabilistic multileave gradient descent (Oosterhuis, Schuth, de Rijke 2016).

Each ranking is a softmax over ranks, P_c(d) ~ 1 / rank_c(d)^tau. Each position of the slate draws a ranking uniformly and a
document from it, among those that are left. A click is credited to each ranking by the chance that it contributed the
document; a candidate wins where it is expected to have more credited clicks than theta, over all assignments of documents:

    E[sign(clicks of c - clicks of theta)] > 0

| paper | code |
|---|---|
| tau | ``State.numbers[TAU]`` |
| P_c(d) times its normaliser | ``State.weight[c, d]`` |
| P(c contributed the document at k) | ``State.memory[k, c]`` |
| the preference of c over theta | :func:`preferred` |

The paper estimates the expectation from 10,000 samples of the contributions. Here it is computed: the difference of the two
counts is a sum of independent steps of -1, 0 and 1, one per click.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.catalogue import Catalogue
from recurrank.rankers.documents.multileaving import Candidates, Decay, DuelingRanker, Rate, candidates, step
from recurrank.rankers.documents.ordering import ranked
from recurrank.rankers.documents.ranker import register
from recurrank.rankers.engines.requests import EXPLOITED, SAMPLED, Shown, Work, best, scores
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Seed
from recurrank.rankers.request_ranker import ContextSize, Dim, Interactions

TAU = 2
LEFT = 2
ROUNDING = 1e-12
"""Expectations that are 0 but for rounding are no preference."""


class State(NamedTuple):
    """A ranking function, and how the present slate was made."""

    features: Floats  # (L, d) of the catalogue
    short: Ints  # unused
    account: Floats  # unused
    theta: Floats  # (d + 1,) the first is 0
    memory: Floats  # (K, C + 2) the chance that each ranking contributed the document, and the seed of the directions
    numbers: Floats  # (3,) learning rate, its decay, tau
    vectors: Floats  # (C + 1, d + 1) theta and the candidates of the present slate
    rankings: Ints  # (C + 1, K) unused
    values: Floats  # (C + 1, 3) by ranking: unused, whether it has won, and the weight that is left
    weight: Floats  # (C + 1, n) of each document in each ranking; 0 where it is in the slate
    difference: Floats  # (2, 2 K + 3) the distribution of a difference of clicks, before and after a click
    work: Work


@inner
def _mix(state: State, rng: np.random.Generator, count: int, slots: Ints, chosen: Ints) -> None:
    """Fill the slate, and remember who may have contributed what."""
    teams, weight, left = state.weight.shape[0], state.weight, state.values
    for j in range(len(slots)):
        c = int(rng.random() * teams)
        bar, item, reached = rng.random() * left[c, LEFT], -1, 0.0
        for i in range(count):
            reached += weight[c, i]
            if weight[c, i] > 0 and (item < 0 or reached - weight[c, i] <= bar):
                item = i
            if reached > bar:
                break
        total = 0.0
        for c in range(teams):
            total += weight[c, item] / left[c, LEFT]
        for c in range(teams):
            state.memory[slots[j], c] = weight[c, item] / left[c, LEFT] / total
            weight[c, item] = 0.0
            remains = 0.0
            for i in range(count):
                remains += weight[c, i]
            left[c, LEFT] = remains
        chosen[j] = item


@hot
def choose(
    state: State, rng: np.random.Generator, features: Floats, rows: Ints, count: int, slots: Ints, explore: float, chosen: Ints
) -> tuple[int, float]:
    """A probabilistic multileaving of theta's ranking and those of the candidates."""
    work, size, teams = state.work, len(slots), state.vectors.shape[0]
    if explore < 1 and rng.random() >= explore:
        scores(features, rows, count, state.theta, 0.0, work.score)
        best(work.score, count, size, chosen, work)
        return EXPLOITED, 0.0
    seed = int(rng.random() * (1 << 48))
    candidates(state, seed)
    for c in range(teams):
        scores(features, rows, count, state.vectors[c], 0.0, work.score)
        ranked(work.score, count, work.kept)
        state.values[c, LEFT] = 0.0
        for r in range(count):
            share = 1 / (r + 1.0) ** state.numbers[TAU]
            state.weight[c, work.kept[r]] = share
        for i in range(count):
            state.values[c, LEFT] += state.weight[c, i]
    _mix(state, rng, count, slots, chosen)
    for j in range(size):
        state.memory[slots[j], teams] = seed
    return SAMPLED, 0.0


@inner
def preferred(state: State, shown: Shown, clicks: Bools, c: int) -> float:
    """E[sign(clicks of c - clicks of theta)]: the distribution of the difference grows by one step per click."""
    middle = (state.difference.shape[1] - 1) // 2
    state.difference[:] = 0.0
    state.difference[0, middle] = 1.0
    now = 0
    for k in range(len(clicks)):
        if clicks[k] and shown.free[k]:
            up, down = state.memory[k, c], state.memory[k, 0]
            for m in range(1, state.difference.shape[1] - 1):
                before = state.difference[now]
                state.difference[1 - now, m] = before[m] * (1 - up - down) + before[m - 1] * up + before[m + 1] * down
            now = 1 - now
    ahead = 0.0
    for m in range(1, middle + 1):
        ahead += state.difference[now, middle + m] - state.difference[now, middle - m]
    return ahead


@hot
def take(state: State, shown: Shown, clicks: Bools) -> bool:
    """A step towards the mean of the candidates that are preferred to theta."""
    teams, seed, clicked = state.vectors.shape[0], -1, False
    for k in range(len(clicks)):
        if shown.free[k] and not math.isnan(state.memory[k, teams]):
            seed = int(state.memory[k, teams])
            clicked |= clicks[k]
    if seed < 0 or not clicked:
        return False
    winners = 0
    for c in range(1, teams):
        won = preferred(state, shown, clicks, c) > ROUNDING
        state.values[c, 1] = 1.0 if won else 0.0
        winners += won
    step(state, seed, winners)
    return False


Tau = Annotated[float, Option("tau, how fast the chances of documents fall with their ranks", least=0, most=100)]


class PMGD(DuelingRanker):
    """Many random changes of the ranking function compete with the present one, and clicks are credited by chances.

    Args:
        features: a catalogue whose items queries name, or None: queries bring their documents' features.
        positions: K, the most documents that a slate shows.
        rounds: how many queries are planned; nothing depends on it.
        seed: of all its random choices.
        dim: where there is no catalogue, how many features a document has.
        context: how many numbers describe a query or its visitor; 0 for none.
        interactions: as :class:`recurrank.Anchored` has them.
        learning_rate: the step towards the mean of the winners.
        decay: of the step after each one.
        candidates: how many compete.
        tau: how fast the chances of documents fall with their ranks.

    >>> import numpy as np
    >>> ranker = PMGD(dim=3, positions=2, seed=0, candidates=4)
    >>> slate = ranker.rank(np.eye(3))
    >>> ranker.learn(slate, [True, False])
    >>> slate.memory.shape
    (2, 6)

    """

    name = "pmgd"
    reference = "Oosterhuis, Schuth, de Rijke 2016"
    compiled_choose = choose
    compiled_take = take
    from_catalogue = ("features", "work", "weight", "difference")

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
        candidates: Candidates = 49,
        tau: Tau = 3.0,
    ) -> None:
        rates = {"learning_rate": learning_rate, "decay": decay, "tau": tau}
        shared: dict[str, Any] = self.begin_duels(
            features, dim, positions, rounds, seed, context, interactions, rates, candidates
        )
        k = self.positions
        self.state = State(
            **shared,
            memory=np.full((k, candidates + 2), np.nan),
            weight=np.zeros((candidates + 1, len(shared["work"].score))),
            difference=np.zeros((2, 2 * k + 3)),
        )
        _ = self.identity

    def make_room(self, candidates: int) -> None:
        """Room for queries of so many documents."""
        super().make_room(candidates)
        size = len(self.state.work.score)
        if self.state.weight.shape[1] != size:
            self.state = self.state._replace(weight=np.zeros((len(self.state.weight), size)))

    def copy(self, seed: Seed = None, *, into: Self | None = None) -> Self:
        other = super().copy(seed, into=into)
        own: dict[str, Any] = {"weight": np.zeros_like(self.state.weight), "difference": np.zeros_like(self.state.difference)}
        other.state = other.state._replace(**own)
        return other


register(State, PMGD)
