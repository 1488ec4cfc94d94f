"""CLUB-cascade: Li, Zhang, *Online Clustering of Contextual Cascading Bandits* (AAAI 2018).

Users belong to unknown clusters; those of one cluster have one theta. A request names its user as its ``segment``.

| paper                                        | code                                                                |
|----------------------------------------------|---------------------------------------------------------------------|
| user i_t; contexts x of D_t                  | ``segment``; the request's candidates, with a constant 1 in front    |
| G_t, complete at first                       | ``edges``; a user is joined to all others when its key is first seen |
| S_i, b_i, T_i of a user                      | ``moments``, ``sums``, ``seen``                                      |
| theta_hat_i = (lambda I + S_i)^-1 b_i        | ``theta``, by ``inverse``                                            |
| f(T) = sqrt((1 + ln(1 + T)) / (1 + T))       | ``width``                                                            |
| V_t, the component of i_t in G_{t-1}         | ``cluster``: the index of its first user, whose rows are its own     |
| M_V = lambda I + sum_V S_i, b_V = sum_V b_i  | ``pooled`` is M_V^-1, ``totals`` is b_V                              |
| theta_hat_V = M_V^-1 b_V                     | ``centre``                                                           |
| U(a) = min(theta_hat_V'x + beta |x|_{M_V^-1}, 1) | ``choose``                                                       |
| C_t                                          | the first click; items down to it are observed                       |

After each answer the edges of its user to all l with |theta_i - theta_l| >= alpha (f(T_i) + f(T_l)) are deleted. Most
deletions leave the cluster connected, which a search that stops early finds out; a split is a decision (``plan``). The proof's
alpha is of order sqrt(D / lambda_x), where lambda_x is the smallest eigenvalue of E[x x']: D for features that point anywhere.

Guarantee: regret O(d sqrt(m T K) log T) with m clusters, under the cascade model with linear attraction. Requests without a
user and users beyond the first ``users`` share one estimate.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.catalogue import Catalogue
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.engines.request_calls import register_requests
from recurrank.rankers.engines.requests import Shown, Work, best, learn_of_catalogue, usable
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Seed, nothing_served, register
from recurrank.rankers.request import Choice
from recurrank.rankers.request_ranker import ContextSize, Dim, Interactions, RequestRanker
from recurrank.rankers.states import flatten, unflatten

ALPHA, BETA = 0, 1
"""Indices into ``State.numbers``."""
USERS, CUT = 0, 1
"""Indices into ``State.clock``: the number of users, the anonymous one included; the user whose edges were cut last."""
UNKNOWN, WANTED, REACHED = 0, 1, 2


class Search(NamedTuple):
    """Scratch arrays for a search of the graph."""

    mark: Ints  # (N,)
    queue: Ints  # (N,)

    @staticmethod
    def of(users: int) -> Search:
        return Search(np.zeros(users, np.int64), np.zeros(users, np.int64))


class State(NamedTuple):
    """N users, of which user 0 is anonymous and has no edges; D features with the constant."""

    features: Floats  # (L, d) of the catalogue
    short: Ints  # (M,) its items
    moments: Floats  # (N, D, D)
    inverse: Floats  # (N, D, D)
    sums: Floats  # (N, D)
    theta: Floats  # (N, D)
    seen: Ints  # (N,)
    width: Floats  # (N,)
    edges: Bools  # (N, N)
    cluster: Ints  # (N,)
    pooled: Floats  # (N, D, D)
    totals: Floats  # (N, D)
    centre: Floats  # (N, D)
    account: Floats  # (1,) unused
    numbers: Floats  # (2,) alpha, beta
    clock: Ints  # (2,)
    search: Search
    work: Work


@hot
def choose(
    state: State, rng: np.random.Generator, features: Floats, rows: Ints, count: int, slots: Ints, explore: float, chosen: Ints
) -> tuple[int, float]:
    """The K largest U(a) by the cluster of the request's user, the earlier of equals."""
    work, dim, beta, v = state.work, features.shape[1], state.numbers[BETA] * explore, state.cluster[state.work.asks[0]]
    x, block = work.columns, work.columns.shape[1]
    for start in range(0, count, block):  # columns of a block of candidates: its loops have no gaps
        size = min(block, count - start)
        for j in range(size):
            for p in range(dim):
                x[p, j] = features[rows[start + j], p]
            work.score[start + j], work.other[start + j] = state.centre[v, 0], state.pooled[v, 0, 0]
        for p in range(dim):
            # x'M^-1 x = sum_p x_p (M^-1_pp x_p + 2 sum_{q < p} M^-1_pq x_q)
            for j in range(size):
                x[dim, j] = 2 * state.pooled[v, p + 1, 0] + state.pooled[v, p + 1, p + 1] * x[p, j]
            for q in range(p):
                twice = 2 * state.pooled[v, p + 1, q + 1]
                for j in range(size):
                    x[dim, j] += twice * x[q, j]
            for j in range(size):
                work.other[start + j] += x[p, j] * x[dim, j]
                work.score[start + j] += state.centre[v, p + 1] * x[p, j]
        for j in range(start, start + size):
            work.score[j] = min(work.score[j] + beta * math.sqrt(max(work.other[j], 0.0)), 1.0)
    best(work.score, count, len(slots), chosen, work)
    return 0, 0.0


@inner
def _observe(inverse: Floats, sums: Floats, theta: Floats, i: int, x: Floats, image: Floats, size: int, click: bool) -> None:
    """(V + x x')^-1 = V^-1 - V^-1 x x' V^-1 / (1 + x'V^-1 x), b += x click, theta = V^-1 b, of row i."""
    scale = 1.0
    for p in range(size):
        image[p] = 0.0
        for q in range(size):
            image[p] += inverse[i, p, q] * x[q]
        scale += image[p] * x[p]
    if not scale >= 1:  # rounding has left nothing of V^-1 along x
        return
    for p in range(size):
        for q in range(size):
            inverse[i, p, q] -= image[p] * image[q] / scale
        if click:
            sums[i, p] += x[p]
    for p in range(size):
        theta[i, p] = 0.0
        for q in range(size):
            theta[i, p] += inverse[i, p, q] * sums[i, q]


@hot
def take(state: State, shown: Shown, clicks: Bools) -> bool:
    """S_i += x x' and b_i += x click for the items down to the first click; edges that have become too long are deleted."""
    i, dim, x, image = shown.segment, shown.features.shape[1], state.work.row, state.work.image
    v = state.cluster[i]
    x[0] = 1.0
    for k in range(len(clicks)):
        if shown.free[k] and usable(shown.features, k):
            for p in range(dim):
                x[p + 1] = shown.features[k, p]
            for p in range(dim + 1):
                for q in range(dim + 1):
                    state.moments[i, p, q] += x[p] * x[q]
            _observe(state.inverse, state.sums, state.theta, i, x, image, dim + 1, clicks[k])
            _observe(state.pooled, state.totals, state.centre, v, x, image, dim + 1, clicks[k])
            state.seen[i] += 1
        if clicks[k]:
            break
    state.width[i] = math.sqrt((1 + math.log(1 + state.seen[i])) / (1 + state.seen[i]))
    return _cut(state, i)


@inner
def _cut(state: State, i: int) -> bool:
    """Delete the edges of user i that have become too long; whether its cluster falls apart."""
    users, search, wanted = state.clock[USERS], state.search, 0
    for other in range(1, users):
        search.mark[other] = UNKNOWN
        if state.edges[i, other]:
            square = 0.0
            for p in range(state.theta.shape[1]):
                square += (state.theta[i, p] - state.theta[other, p]) ** 2
            if math.sqrt(square) >= state.numbers[ALPHA] * (state.width[i] + state.width[other]):
                state.edges[i, other] = state.edges[other, i] = False
                search.mark[other] = WANTED
                wanted += 1
    if wanted == 0:
        return False
    search.queue[0], search.mark[i] = i, REACHED
    first, last = 0, 1
    while first < last and wanted > 0:
        user = search.queue[first]
        first += 1
        for other in range(1, users):
            if state.edges[user, other] and search.mark[other] != REACHED:
                wanted -= search.mark[other] == WANTED
                search.mark[other] = REACHED
                search.queue[last] = other
                last += 1
    state.clock[CUT] = i
    return wanted > 0


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    """A slate of the catalogue for a request without a user."""
    positions = len(slate.items)
    state.work.asks[0] = 0
    choose(state, rng, state.features, state.short, len(state.short), state.work.every[:positions], 1.0, slate.items)
    for k in range(positions):
        slate.items[k] = state.short[slate.items[k]]


def _beta(ranker: RequestRanker) -> float:
    """sqrt(D ln(1 + T K / (lambda D)) + 2 ln(1 / delta)) + sqrt(lambda), delta = 1 / sqrt(T): at least C3-UCB's beta_t."""
    size, ridge = ranker.width + 1, float(vars(ranker)["ridge"])
    volume = size * math.log(1 + ranker.rounds * ranker.positions / (ridge * size))
    return math.sqrt(volume + math.log(ranker.rounds)) + math.sqrt(ridge)


class CLUBCascade(RequestRanker):
    """CLUB-cascade (Li, Zhang 2018): users in unknown clusters; a request names its user as its ``segment``.

    Args:
        features: a catalogue, or None.
        positions: K, the most items that a slate shows.
        rounds: T, how many rounds are planned.
        seed: unused; it draws nothing at random.
        dim: without a catalogue, how many features a candidate has.
        context: how many numbers describe a visitor.
        interactions: as :class:`recurrank.Anchored` has them.
        ridge: lambda.
        alpha: how many widths apart two users' estimates must be to lose their edge; 0 for no clusters; by default D / 5.
        beta: the width of the upper bounds.
        users: the most users that are told apart.

    >>> import recurrank as rr
    >>> ranker = rr.rankers.CLUBCascade(dim=2, positions=1)
    >>> ranker.learn(ranker.rank([[1.0, 0.0], [0.0, 1.0]], segment="ann"), [True])
    >>> ranker.clusters
    [['ann']]

    """

    name = "club-cascade"
    reference = "Li, Zhang 2018"
    believes = "cascade, users in unknown clusters"
    regret_bound = "O(d sqrt(m T K) log T), m clusters of users"
    compiled_rank = rank
    compiled_learn = learn_of_catalogue(take)
    compiled_propensity = certain
    compiled_served = nothing_served
    compiled_choose = choose
    compiled_take = take
    tells = True
    from_catalogue = ("features", "search", "work")

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
        ridge: Annotated[float, Option("lambda, the prior's precision of every coefficient", least=1e-6, most=1e6)] = 1.0,
        alpha: Annotated[
            float | None,
            Option("widths between users that lose their edge; 0: no clusters", least=0, usually=lambda r: (r.width + 1) / 5),
        ] = None,
        beta: Annotated[float | None, Option("width of the upper bounds", least=0, usually=_beta)] = None,
        users: Annotated[int, Option("the most users that are told apart", least=1, most=5_000)] = 1000,
    ) -> None:
        self.begin(features, dim, positions, rounds, seed, context, interactions)
        (self.ridge,) = self.record(ridge=ridge)
        self.alpha, self.beta, self.users = self.record(alpha=alpha, beta=beta, users=users)
        self.state = State(
            features=self._whole(),
            short=np.zeros(0, np.int64),
            **self._unseen(1),
            account=np.zeros(1),
            numbers=np.array([self.alpha, self.beta]),
            clock=np.array([1, 0]),
            work=self._work(64),
        )
        self._shortlist()
        _ = self.identity

    def _unseen(self, users: int) -> dict[str, Any]:
        """The arrays of the state that have one entry per user, before any answer."""
        size = self.width + 1
        blank, vectors = np.tile(np.eye(size) / self.ridge, (users, 1, 1)), np.zeros((4, users, size))
        return {
            "moments": np.zeros((users, size, size)),
            "inverse": blank,
            "pooled": blank.copy(),
            **dict(zip(("sums", "theta", "totals", "centre"), vectors.copy(), strict=True)),
            "seen": np.zeros(users, np.int64),
            "width": np.ones(users),
            "edges": np.zeros((users, users), np.bool_),
            "cluster": np.arange(users),
            "search": Search.of(users),
        }

    @property
    def clusters(self) -> list[list[str]]:
        """The users in each cluster, as of now."""
        members: dict[int, list[str]] = {}
        for user, index in self.segments.items():
            if user is not None:
                members.setdefault(int(self.state.cluster[index]), []).append(user)
        return list(members.values())

    def index_of(self, segment: str | None) -> int:
        """The index of a user; a new one is joined to all others."""
        if segment not in self.segments:
            if len(self.segments) > self.users:
                return 0
            index = self.segments[segment] = len(self.segments)
            if index == len(self.state.seen):
                self._grow(min(2 * index, self.users + 1))
            self.state.edges[index, 1:index] = self.state.edges[1:index, index] = True
            self.state.clock[USERS] = index + 1
            self._pool(np.arange(1, index + 1))
        return self.segments[segment]

    def _grow(self, users: int) -> None:
        """Make room for more users."""
        room, before = self._unseen(users), len(self.state.seen)
        for name, array in room.items():
            if name == "edges":
                array[:before, :before] = self.state.edges
            elif name != "search":
                array[:before] = getattr(self.state, name)
        self.state = self.state._replace(**room)

    def plan(self) -> None:
        """Split the cluster of the user whose edges were cut last into its connected components."""
        state = self.state
        left = np.flatnonzero(state.cluster == state.cluster[state.clock[CUT]])
        while len(left):
            part = reached = left[:1]
            while len(reached):
                reached = np.setdiff1d(np.flatnonzero(state.edges[reached].any(axis=0)), part)
                part = np.union1d(part, reached)
            self._pool(part)
            left = np.setdiff1d(left, part)

    def _pool(self, members: Ints) -> None:
        """Make these users one cluster."""
        state, v = self.state, members[0]
        state.cluster[members] = v
        state.pooled[v] = np.linalg.inv(state.moments[members].sum(axis=0) + self.ridge * np.eye(self.width + 1))
        state.totals[v] = state.sums[members].sum(axis=0)
        state.centre[v] = state.pooled[v] @ state.totals[v]

    def _choose(self, features: Floats, rows: Ints, slots: Ints, share: float, tell: bool) -> Choice:
        return super()._choose(features, rows, slots, share, tell)._replace(marginal=np.ones(len(slots)))

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return {"segments": list(self.segments), "due": self.due}, dict(flatten(self.state, self.from_catalogue))

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.segments = {segment: index for index, segment in enumerate(values["segments"])}
        state = unflatten(self.state, self.from_catalogue, arrays)
        self.state = state._replace(search=Search.of(len(state.seen)))
        self.make_room(len(self.state.short))
        self.due = values["due"]

    def copy(self, seed: Seed = None, *, into: Self | None = None) -> Self:
        other = super().copy(seed, into=into)
        other.state = other.state._replace(search=Search.of(len(other.state.seen)))
        return other


register(State, CLUBCascade)
register_requests(State, CLUBCascade)
