"""Dueling bandits over ranking functions: candidates around theta, their rankings in one slate, and a step to the winners.

In each round candidate c is theta + u_c, u_c a random direction of length 1. Their rankings and theta's own are put into
one slate (:func:`draft`, or ``pmgd.mix``); clicks say which candidates beat theta, and theta moves towards their mean:

    theta += eta mean_{winners c} u_c

Directions are drawn from a seed that the slate remembers, so that an answer may come late and nothing large is kept.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.catalogue import Catalogue
from recurrank.rankers.documents.ranker import DocumentRanker
from recurrank.rankers.engines.pieces import multiply
from recurrank.rankers.engines.requests import EXPLOITED, SAMPLED, Shown, Work, best, scores
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Seed

RATE, DECAY = 0, 1
TEAM, SEED = 0, 1
"""Columns of the memory of a team draft."""


class State(NamedTuple):
    """A ranking function, and how the present slate was made."""

    features: Floats  # (L, d) of the catalogue
    short: Ints  # unused
    account: Floats  # unused
    theta: Floats  # (d + 1,) the first is 0
    memory: Floats  # (K, 2) teams and the seed
    numbers: Floats  # (2,) learning rate and its decay
    vectors: Floats  # (C + 1, d + 1) theta and the candidates of the present slate
    rankings: Ints  # (C + 1, K) their K best
    values: Floats  # (C + 1, 3) by ranking: its clicks, whether it has won, and a permutation
    columns: Floats  # (d, n) features of the present query's documents
    work: Work


@inner
def _next(seed: int) -> int:
    """A step of a 48-bit congruential generator (that of POSIX's drand48)."""
    return (seed * 25214903917 + 11) & ((1 << 48) - 1)


@inner
def direction(seed: int, candidate: int, out: Floats, dim: int) -> None:
    """u_c: ``dim`` normal numbers from index 1 on, scaled to length 1.

    Each is a ratio v / u of uniform numbers (Kinderman, Monahan 1977), accepted where v^2 <= -4 u^2 log u. A quadratic form of
    Leva (1992) decides nearly all of them, so that only one in eighty needs a logarithm.
    """
    state = (seed ^ (candidate * 0x5DEECE66D)) & ((1 << 48) - 1)
    for _ in range(4):
        state = _next(state)
    square, p = 0.0, 0
    while p < dim:
        state = _next(state)
        u = (state + 1) / (1 << 48)
        state = _next(state)
        v = 1.7156 * (state / (1 << 48) - 0.5)
        x, y = u - 0.449871, abs(v) + 0.386595
        q = x * x + y * (0.196 * y - 0.25472 * x)
        if q < 0.27597 or (q < 0.27846 and v * v <= -4 * math.log(u) * u * u):
            p += 1
            out[p] = v / u
            square += out[p] ** 2
    for p in range(dim):
        out[p + 1] /= math.sqrt(square)


@inner
def candidates(state: Any, seed: int) -> None:
    """Theta and theta + u_c for all c."""
    dim = len(state.theta) - 1
    for c in range(state.vectors.shape[0]):
        if c > 0:
            direction(seed, c, state.vectors[c], dim)
        for p in range(1, dim + 1):
            state.vectors[c, p] = state.theta[p] + (state.vectors[c, p] if c > 0 else 0.0)


@inner
def lay_out(features: Floats, rows: Ints, count: int, columns: Floats) -> None:
    """The features of a query's documents by column, for products with many vectors."""
    for i in range(count):
        for p in range(features.shape[1]):
            columns[p, i] = features[rows[i], p]


@inner
def draft(state: State, rng: np.random.Generator, size: int, slots: Ints, chosen: Ints) -> None:
    """Team-draft multileaving (Schuth et al. 2014).

    Documents that all rankings share at the top belong to no team. Then rankings take turns, in a new random order each time,
    and add their best document that is not in the slate yet, whose clicks count for them.
    """
    teams = state.rankings.shape[0]
    filled, agree = 0, True
    while filled < size and agree:
        for c in range(1, teams):
            agree = agree and state.rankings[c, filled] == state.rankings[0, filled]
        if agree:
            chosen[filled] = state.rankings[0, filled]
            state.memory[slots[filled], TEAM] = -1
            filled += 1
    turn = teams
    while filled < size:
        if turn == teams:
            for c in range(teams):
                state.values[c, 2] = c
            for c in range(teams - 1, 0, -1):  # Fisher and Yates
                other = int(rng.random() * (c + 1))
                kept = state.values[c, 2]
                state.values[c, 2] = state.values[other, 2]
                state.values[other, 2] = kept
            turn = 0
        team, k = int(state.values[turn, 2]), 0
        while _within(chosen, filled, state.rankings[team, k]):
            k += 1
        chosen[filled] = state.rankings[team, k]
        state.memory[slots[filled], TEAM] = team
        filled += 1
        turn += 1


@inner
def _within(chosen: Ints, filled: int, item: int) -> bool:
    found = False
    for j in range(filled):
        found |= chosen[j] == item
    return found


@inner
def step(state: Any, seed: int, winners: int) -> None:
    """A step: theta += eta mean u_c over the candidates that have won."""
    if winners == 0:
        return
    dim, out = len(state.theta) - 1, state.work.row
    for c in range(1, state.values.shape[0]):
        if state.values[c, 1] > 0:
            direction(seed, c, out, dim)
            for p in range(1, dim + 1):
                state.theta[p] += state.numbers[RATE] / winners * out[p]
    state.numbers[RATE] *= state.numbers[DECAY]


@hot
def choose_draft(
    state: State, rng: np.random.Generator, features: Floats, rows: Ints, count: int, slots: Ints, explore: float, chosen: Ints
) -> tuple[int, float]:
    """A team draft of theta's ranking and those of the candidates."""
    work, size = state.work, len(slots)
    if explore < 1 and rng.random() >= explore:
        scores(features, rows, count, state.theta, 0.0, work.score)
        best(work.score, count, size, chosen, work)
        return EXPLOITED, 0.0
    seed = int(rng.random() * (1 << 48))
    candidates(state, seed)
    lay_out(features, rows, count, state.columns)
    for c in range(state.vectors.shape[0]):
        multiply(state.columns, state.vectors[c, 1:], 0, count, work.score)
        best(work.score, count, size, state.rankings[c], work)
    draft(state, rng, size, slots, chosen)
    for j in range(size):
        state.memory[slots[j], SEED] = seed
    return SAMPLED, 0.0


@hot
def take_draft(state: State, shown: Shown, clicks: Bools) -> bool:
    """Winners are the candidates whose documents have more clicks than theta's."""
    seed = -1
    state.values[:, 0] = 0.0
    for k in range(len(clicks)):
        if shown.free[k] and not math.isnan(state.memory[k, SEED]):
            seed = int(state.memory[k, SEED])
            if clicks[k] and state.memory[k, TEAM] >= 0:
                state.values[int(state.memory[k, TEAM]), 0] += 1
    if seed < 0:
        return False
    winners = 0
    for c in range(1, state.values.shape[0]):
        state.values[c, 1] = 1.0 if state.values[c, 0] > state.values[0, 0] else 0.0
        winners += int(state.values[c, 1])
    step(state, seed, winners)
    return False


Rate = Annotated[float, Option("eta, the learning rate", above=0, most=1e6)]
Decay = Annotated[float, Option("what the learning rate is multiplied by after each step", above=0, most=1)]
Candidates = Annotated[int, Option("how many ranking functions compete with the present one", least=1, most=1000)]


class DuelingRanker(DocumentRanker):
    """Candidates around theta compete with it in one slate; subclasses say how many, and how."""

    compiled_choose = choose_draft
    compiled_take = take_draft
    from_catalogue: ClassVar[tuple[str, ...]] = ("features", "work", "columns")
    regret_bound = "none for rankings"

    def begin_duels(
        self, features: ArrayLike | Catalogue | None, dim: int | None, positions: int, rounds: int, seed: Seed, context: int,
        interactions: str, rates: dict[str, float], candidates: int,
    ) -> dict[str, Any]:  # fmt: skip
        """Begin with what all of them are made with; return the fields that all states have."""
        shared = self.begin_queries(features, dim, positions, rounds, seed, context, interactions)
        if "candidates" in self.declared():
            (candidates,) = self.record(candidates=candidates)
        teams = candidates + 1
        numbers = np.array(self.record(**rates), dtype=np.float64)
        return {
            **shared,
            **self._room(len(shared["work"].score)),
            "numbers": numbers,
            "vectors": np.zeros((teams, self.width + 1)),
            "rankings": np.zeros((teams, self.positions), np.int64),
            "values": np.zeros((teams, 3)),
        }

    def _room(self, candidates: int) -> dict[str, Any]:
        return {"columns": np.zeros((self.width, candidates))}
