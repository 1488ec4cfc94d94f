"""What published linear rankers of requests share: one regression, and which clicks it learns from.

    V = ridge I + sum w_k^2 x x' / sigma^2,  b = sum w_k x click / sigma^2,  theta = V^-1 b

over the positions that an algorithm believes in, w_k being what it believes about their examination. They rank by a sample
theta + V^-1/2 z of their posterior, or by an upper bound. Theta and V^-1/2 are renewed when answers have grown by 4 % (at least
8), which saves a factorisation per round.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.catalogue import Catalogue
from recurrank.catalogue.rows import one_thread
from recurrank.rankers.engines.request_calls import register_requests
from recurrank.rankers.engines.requests import Shown, Work, best, dot, learn_of_catalogue, scores, usable
from recurrank.rankers.engines.solving import solved, spread
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Seed, register_state
from recurrank.rankers.request_ranker import ContextSize, Dim, Interactions, RequestRanker
from recurrank.rankers.states import finite, flatten, unflatten

ALL, FIRST, EXAMINED, UNTIL_CLICK = range(4)
"""Which positions an algorithm learns from: all as they are, the first, all by their examination, those down to a click."""
GROW, LEAST, MOST = 0.04, 8, 2000
ANSWERS, NEXT = 0, 1
BELIEF, WIDTH = 0, 1
SIGMA = 0.5
"""The largest standard deviation that a click can have."""


class State(NamedTuple):
    """One regression."""

    features: Floats  # (L, d) of the catalogue
    short: Ints  # (M,) its items
    theta: Floats  # (D,)
    spread: Floats  # (D, D) z @ spread is the deviation of a sample, for standard normal z
    moments: Floats  # (D, D) lower triangle of V without the ridge
    sums: Floats  # (D,)
    examination: Floats  # (K,) as the algorithm believes
    shown: Floats  # (K,)
    clicks: Floats  # (K,)
    account: Floats  # (1,) unused
    numbers: Floats  # (2,) the belief, and the width of upper bounds (0: it samples)
    clock: Ints  # (2,)
    work: Work


@hot
def choose(
    state: State, rng: np.random.Generator, features: Floats, rows: Ints, count: int, slots: Ints, explore: float, chosen: Ints
) -> tuple[int, float]:
    """The best by a sample, or by upper bounds; without exploration, by theta."""
    work, dim = state.work, len(state.theta)
    vector = work.row
    width = state.numbers[WIDTH] * explore
    for q in range(dim):
        vector[q] = state.theta[q]
    if state.numbers[WIDTH] == 0 and explore > 0:
        for p in range(dim):
            z = rng.standard_normal() * explore
            for q in range(p + 1):
                vector[q] += z * state.spread[p, q]
    scores(features, rows, count, vector, 1.0, work.score)
    if width > 0:
        for i in range(count):
            square = 0.0
            for p in range(dim):
                image = state.spread[p, 0]
                for q in range(1, p + 1):
                    image += state.spread[p, q] * features[rows[i], q - 1]
                square += image * image
            work.score[i] = min(work.score[i] + width * math.sqrt(square), 1.0)
    best(work.score, count, len(slots), work.order, work)
    for j in range(len(slots)):
        chosen[j] = work.order[j]
    return 0, 0.0


@hot
def take(state: State, shown: Shown, clicks: Bools) -> bool:
    """V += w^2 x x' / sigma^2 for the positions believed in."""
    belief, dim = int(state.numbers[BELIEF]), shown.features.shape[1]
    for k in range(len(clicks)):
        if shown.free[k] and usable(shown.features, k):
            w = state.examination[k] if belief == EXAMINED else 1.0
            state.shown[k] += max(dot(shown.features, k, state.theta, 1.0), 0.0)
            state.clicks[k] += clicks[k]
            weight = w * w / (SIGMA * SIGMA)
            for p in range(dim + 1):
                xp = weight * (shown.features[k, p - 1] if p > 0 else 1.0)
                state.moments[p, 0] += xp
                for q in range(1, p + 1):
                    state.moments[p, q] += xp * shown.features[k, q - 1]
                if clicks[k]:
                    state.sums[p] += xp / w
        if belief == FIRST or (belief == UNTIL_CLICK and clicks[k]):
            break
    state.clock[ANSWERS] += 1
    return bool(state.clock[ANSWERS] >= state.clock[NEXT])


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    """A slate of the catalogue."""
    positions = len(slate.items)
    choose(state, rng, state.features, state.short, len(state.short), state.work.every[:positions], 1.0, slate.items)
    for k in range(positions):
        slate.items[k] = state.short[slate.items[k]]


Ridge = Annotated[float, Option("lambda, the prior's precision of every coefficient", least=1e-6, most=1e6)]


class LinearRequests(RequestRanker):
    """A published linear algorithm; subclasses declare what it believes.

    Args:
        features: a catalogue, or None.
        positions: K, the most items that a slate shows.
        rounds: T, how many rounds are planned.
        seed: the seed of all its random choices.
        dim: without a catalogue, how many features a candidate has.
        context: how many numbers describe a visitor.
        interactions: as :class:`recurrank.Anchored` has them.
        ridge: the prior's precision of every coefficient.

    """

    belief: ClassVar[int]
    optimistic: ClassVar[bool] = False
    compiled_rank = rank
    compiled_learn = learn_of_catalogue(take)
    compiled_choose = choose
    compiled_take = take

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
        ridge: Ridge = 1.0,
    ) -> None:
        self.begin(features, dim, positions, rounds, seed, context, interactions)
        (self.ridge,) = self.record(ridge=ridge)
        k, size = self.positions, self.width + 1
        self.state = State(
            features=self._whole(),
            short=np.zeros(0, np.int64),
            theta=np.zeros(size),
            spread=np.eye(size),
            moments=np.zeros((size, size)),
            sums=np.zeros(size),
            examination=1 / np.arange(1.0, k + 1),
            shown=np.zeros(k),
            clicks=np.zeros(k),
            account=np.zeros(1),
            numbers=np.array([self.belief, 0.0]),
            clock=np.array([0, LEAST]),
            work=self._work(64),
        )
        self.plan()
        _ = self.identity

    @one_thread()
    def plan(self) -> None:
        """Update theta, the root of its covariance and the believed examination."""
        state, answers = self.state, int(self.state.clock[ANSWERS])
        whole = state.moments + np.tril(state.moments, -1).T + self.ridge * np.eye(len(state.theta))
        state.theta[:] = solved(whole, state.sums)
        state.spread[:] = spread(whole)
        if self.belief == EXAMINED:  # clicks at k over the attraction shown there, relative to position 1, falling
            rate = np.where(state.shown > 5, state.clicks / np.maximum(state.shown, 5), state.examination)
            state.examination[:] = np.minimum.accumulate(np.clip(rate / max(rate[0], 1e-3), 0.01, 1.0))
        if self.optimistic:
            # beta = sqrt(ln(det V / (lambda^d delta^2))) + sqrt(lambda), delta = 1 / sqrt(T)
            volume = float(np.linalg.slogdet(whole)[1]) - len(whole) * math.log(self.ridge)
            state.numbers[WIDTH] = math.sqrt(max(volume, 0.0) + math.log(self.rounds)) + math.sqrt(self.ridge)
        state.clock[NEXT] = answers + min(MOST, max(LEAST, int(GROW * answers)))
        self._shortlist()

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return {"due": self.due}, dict(flatten(self.state, self.from_catalogue))

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.state = finite(unflatten(self.state, self.from_catalogue, arrays))
        self.make_room(len(self.state.short))
        self.due = values["due"]


register_state(State, LinearRequests)
register_requests(State, LinearRequests)
