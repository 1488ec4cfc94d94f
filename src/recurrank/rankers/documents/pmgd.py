"""P-MGD, probabilistic multileave gradient descent (Oosterhuis, Schuth, de Rijke 2016).

Each ranking is a softmax over ranks, P_c(d) ~ 1 / rank_c(d)^tau. Each position of the slate draws a ranking uniformly and a
document from it, among those that are left. A click is credited to each ranking by the chance that it contributed the
document; a candidate wins where it is expected to have more credited clicks than theta, over all assignments of documents:

    E[sign(clicks of c - clicks of theta)] > 0

| paper | code |
|---|---|
| tau | ``tau`` |
| P_c(d) times its normaliser | ``State.share[rank_c(d)]`` |
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
from recurrank._compiled import hot, inner, natural, rare
from recurrank.catalogue import Catalogue
from recurrank.rankers.documents.multileaving import Candidates, Decay, DuelingRanker, Rate, candidates, lay_out, step
from recurrank.rankers.documents.ranker import register
from recurrank.rankers.engines.pieces import multiply
from recurrank.rankers.engines.requests import EXPLOITED, SAMPLED, Shown, Work, best, scores
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Seed
from recurrank.rankers.request_ranker import ContextSize, Dim, Interactions

LEAST = 1e-300
"""The smallest share, so that the last documents of a large tau can be drawn."""
ROUNDING = 1e-12
"""Expectations up to this are rounding, not a preference."""


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
    values: Floats  # (C + 1, 3) by ranking: unused, whether it has won, unused
    columns: Floats  # (d, n) features of the present query's documents
    share: Floats  # (n,) 1 / (r + 1)^tau
    difference: Floats  # (2, 2 K + 3) the distribution of a difference of clicks, before and after a click
    work: Work


@inner
def _rank_of(score: Floats, count: int, item: int) -> int:
    """How many documents are above this one, from 0; the earlier of equals is above."""
    value, above = score[item], 0
    for i in range(item):
        above += score[natural(i)] >= value
    for i in range(item + 1, count):
        above += score[natural(i)] > value
    return above


@rare
def _at_rank(score: Floats, count: int, rank: int) -> int:
    """The document of a rank, by bisecting on its score: counting is faster than moving documents."""
    low, high = score[0], score[0]
    for i in range(1, count):
        low, high = min(low, score[i]), max(high, score[i])
    above, reaching, middle = 0, count, low + (high - low) / 2
    while reaching - above > 1 and low < middle < high:
        higher = 0
        for i in range(count):
            higher += score[i] > middle
        if higher > rank:
            low, reaching = middle, higher
        else:
            high, above = middle, higher
        middle = low + (high - low) / 2
    for i in range(count):  # one score is left, and those equal to it
        if low <= score[i] <= high and _rank_of(score, count, i) == rank:
            return i
    return -1


@inner
def _left(state: State, ranks: Ints, size: int) -> tuple[int, float]:
    """What a ranking has left without the first ``size`` of ``ranks``, which are sorted: the first rank, and the sum of shares.

    That sum is the tail from the rank on, less the shares gone: each is below the rank's own, so that no precision is lost.
    """
    order, tail, left = state.work.order, state.work.top, 0.0
    for h in range(size):
        g = h
        while g > 0 and order[g - 1] > ranks[h]:
            order[g] = order[g - 1]
            g -= 1
        order[g] = ranks[h]
    first = 0
    while first < size and order[first] == first:
        first += 1
    for h in range(first, size):
        left += state.share[order[h]]
    return first, tail[first] - left


@inner
def _draw(state: State, rng: np.random.Generator, ranks: Ints, size: int, count: int) -> int:
    """Draw a rank by its share, from those that are left without the first ``size`` of ``ranks``."""
    rank, left = _left(state, ranks, size)
    bar, reached, h, last = rng.random() * left, 0.0, rank, rank
    while rank < count and reached <= bar:
        if h < size and state.work.order[h] == rank:
            h += 1
        else:
            reached += state.share[rank]
            last = rank
        rank += 1
    return last


@inner
def _mix(state: State, rng: np.random.Generator, count: int, slots: Ints, chosen: Ints) -> None:
    """Fill the slate: each position draws a ranking, and a rank of those that it has left."""
    work, ranks = state.work, state.work.tried
    work.top[count] = 0.0
    for r in range(count - 1, -1, -1):
        work.top[r] = work.top[r + 1] + state.share[r]
    for j in range(len(slots)):
        c = int(rng.random() * len(state.vectors))
        multiply(state.columns, state.vectors[c, 1:], 0, count, work.score)
        for h in range(j):
            ranks[h] = _rank_of(work.score, count, chosen[h])
        chosen[j] = _at_rank(work.score, count, _draw(state, rng, ranks, j, count))


@inner
def _credit(state: State, count: int, slots: Ints, chosen: Ints) -> None:
    """P(c contributed the document at j), for all c: its share of what c had left at j, over the sum of these of all rankings.

    What is left is summed from the last position on, where it is least.
    """
    work, ranks, size, teams = state.work, state.work.tried, len(slots), len(state.vectors)
    for c in range(teams):
        multiply(state.columns, state.vectors[c, 1:], 0, count, work.score)
        for j in range(size):
            ranks[j] = _rank_of(work.score, count, chosen[j])
        left = _left(state, ranks, size)[1]
        for j in range(size - 1, -1, -1):
            left += state.share[ranks[j]]
            state.memory[slots[j], c] = state.share[ranks[j]] / left
    for j in range(size):
        total = 0.0
        for c in range(teams):
            total += state.memory[slots[j], c]
        for c in range(teams):
            state.memory[slots[j], c] /= total


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
    lay_out(features, rows, count, state.columns)
    _mix(state, rng, count, slots, chosen)
    _credit(state, count, slots, chosen)
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
        seed: the seed of all its random choices.
        dim: where there is no catalogue, how many features a document has.
        context: how many numbers describe a query or its visitor; 0 for none.
        interactions: as :class:`recurrank.Anchored` has them.
        learning_rate: the step towards the mean of the winners.
        decay: what the step is multiplied by after each one.
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
    from_catalogue = ("features", "work", "columns", "share", "difference")

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
            difference=np.zeros((2, 2 * k + 3)),
        )
        _ = self.identity

    def _room(self, candidates: int) -> dict[str, Any]:
        share = np.maximum((1.0 + np.arange(candidates)) ** -float(self.options()["tau"]), LEAST)
        return {**super()._room(candidates), "share": share}

    def copy(self, seed: Seed = None, *, into: Self | None = None) -> Self:
        other = super().copy(seed, into=into)
        other.state = other.state._replace(difference=np.zeros_like(self.state.difference))
        return other


register(State, PMGD)
