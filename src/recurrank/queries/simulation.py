"""Rankers meet simulated users of queries: the loop, compiled once for every kind of ranker.

Every round draws a query at random; the ranker shows at most K of its documents; a user clicks by their labels. Any ranker of
requests can take part: the algorithms of ``rankers.documents`` and :class:`recurrank.Anchored`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_count
from recurrank._compiled import loop
from recurrank._frames import frame
from recurrank._stopwatch import Stopwatch
from recurrank.plugins import plainly
from recurrank.queries.dataset import Queries
from recurrank.queries.metrics import dcg, ideal_dcg, ideal_slates
from recurrank.queries.users import Users, click, expected, make_users
from recurrank.rankers.dispatch import Calls
from recurrank.rankers.engines.request_calls import choose, take
from recurrank.rankers.engines.requests import Shown
from recurrank.rankers.request_ranker import RequestRanker
from recurrank.seeds import stream

DISCOUNT = 0.9995
"""Discount of online NDCG per impression (Hofmann et al. 2013)."""
CHECKPOINTS = 20

REGRET, CLICKS, ONLINE, WEIGHT = range(4)


class Documents(NamedTuple):
    """Queries as compiled code sees them."""

    features: Any  # (n, d) float32
    labels: Ints  # (n,)
    offsets: Ints  # (q + 1,)
    ideal: Floats  # (q,) DCG of the best slate, 0 where nothing is relevant
    best: Floats  # (q,) clicks on it, in expectation


class Room(NamedTuple):
    """Scratch memory for one slate."""

    every: Ints  # (most,) 0, 1, 2, ...
    chosen: Ints  # (K,)
    labels: Ints  # (K,)
    clicks: Bools  # (K,)
    shown: Shown

    @staticmethod
    def of(most: int, positions: int, dim: int) -> Room:
        whole = np.zeros(positions, np.int64)
        shown = Shown(np.zeros((positions, dim)), np.ones(positions, np.bool_), 0, np.ones(positions))
        return Room(np.arange(max(most, positions)), whole, whole.copy(), np.zeros(positions, np.bool_), shown)


@loop
def play(
    state: Any, rng: np.random.Generator, data: Documents, visitors: np.random.Generator, users: Users,
    clicker: np.random.Generator, room: Room, totals: Floats, rounds: int,
) -> int:  # fmt: skip
    """Play up to ``rounds`` rounds, stopping when a decision is due; return the number played, negative if one is due.

    ``totals`` are regret (expected clicks on the best slate by labels less those on the shown one), clicks, discounted NDCG of
    the shown slates, and the discount of the next.
    """
    positions, dim = len(room.chosen), data.features.shape[1]
    for t in range(rounds):
        q = int(visitors.random() * len(data.ideal))
        first, last = data.offsets[q], data.offsets[q + 1]
        size = min(positions, last - first)
        chosen, labels, clicks = room.chosen[:size], room.labels[:size], room.clicks[:size]
        choose(state, rng, data.features[first:last], room.every, last - first, room.every[:size], 1.0, chosen)
        for k in range(size):
            labels[k] = data.labels[first + chosen[k]]
            for p in range(dim):
                room.shown.features[k, p] = data.features[first + chosen[k], p]
        click(users, labels, clicker, clicks)
        totals[REGRET] += data.best[q] - expected(users, labels)
        for k in range(size):
            totals[CLICKS] += clicks[k]
        if data.ideal[q] > 0:
            totals[ONLINE] += totals[WEIGHT] * dcg(labels) / data.ideal[q]
        totals[WEIGHT] *= DISCOUNT
        if take(state, room.shown, clicks):
            return -(t + 1)
    return rounds


@loop
def judge(state: Any, rng: np.random.Generator, data: Documents, room: Room) -> float:
    """The mean NDCG of the best known orders."""
    total = 0.0
    for q in range(len(data.ideal)):
        first, last = data.offsets[q], data.offsets[q + 1]
        size = min(len(room.chosen), last - first)
        chosen, labels = room.chosen[:size], room.labels[:size]
        choose(state, rng, data.features[first:last], room.every, last - first, room.every[:size], 0.0, chosen)
        for k in range(size):
            labels[k] = data.labels[first + chosen[k]]
        if data.ideal[q] > 0:
            total += dcg(labels) / data.ideal[q]
    return total / len(data.ideal)


class QueryRun(NamedTuple):
    """The results of a simulation, at checkpoints.

    Attributes:
        rounds: the checkpoints, as numbers of impressions.
        ndcg: NDCG@K on the test queries, exploration left out; NaN without test queries.
        online: NDCG@K of the shown slates, discounted by 0.9995 per impression and summed up to each checkpoint.
        regret: expected clicks on the slates in the order of the labels less those on the shown ones, summed; may be below 0,
            since users who are satisfied early click less.
        clicks: the number of clicks.
        seconds: time of the impressions and decisions, without compilation and tests.

    """

    rounds: Ints
    ndcg: Floats
    online: Floats
    regret: Floats
    clicks: Ints
    seconds: float

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row per checkpoint."""
        names = ("rounds", "ndcg", "online", "regret", "clicks")
        return frame({name: getattr(self, name) for name in names})


class QuerySimulation:
    """A ranker of requests and simulated users of queries.

    Attributes:
        round: the number of impressions so far.
        totals: regret, clicks, discounted online NDCG, and the discount of the next impression.

    """

    def __init__(self, ranker: RequestRanker, train: Queries, users: Users, seed: int | np.random.SeedSequence) -> None:
        if not isinstance(ranker, RequestRanker):
            raise ValueError(f"ranker: {getattr(ranker, 'name', ranker)!r} ranks one catalogue, and takes no queries")
        _fits(ranker, train, "train")
        if len(users.click) <= train.top:
            raise ValueError(f"users: defined for labels up to {len(users.click) - 1}, and the queries have {train.top}")
        if len(users.examination) < ranker.positions:
            raise ValueError(f"users: examine {len(users.examination)} positions, but the ranker shows {ranker.positions}")
        self.ranker, self.users, self.round = ranker, users, 0
        self.data = documents(train, ranker.positions, users)
        self.totals = np.array([0.0, 0.0, 0.0, 1.0])
        self._room = Room.of(train.most, ranker.positions, train.dim)
        self._visitors, self._clicker = stream(seed, "requests", ranker.served), stream(seed, "users", ranker.served)
        ranker.make_room(train.most)

    def prepare(self) -> None:
        """Compile what is not compiled yet, playing no round."""
        with plainly():
            self._rounds(0, self.ranker.calls)

    def advance(self, until: int) -> None:
        """Play to impression ``until``."""
        while self.round < until:
            self.ranker.advance(functools.partial(self._rounds, until - self.round))

    def _rounds(self, rounds: int, calls: Calls) -> tuple[int, bool]:
        played = play(
            calls.state, calls.rng, self.data, self._visitors, self.users, self._clicker, self._room, self.totals, rounds
        )  # fmt: skip
        self.round += abs(played)
        return abs(played), played < 0


def documents(queries: Queries, positions: int, users: Users | None = None) -> Documents:
    """Queries for compiled code, with their best slates."""
    best = np.zeros(len(queries))
    if users is not None:
        best = np.array([expected(users, labels) for labels in ideal_slates(queries, positions)])
    return Documents(queries.features, queries.labels, queries.offsets, ideal_dcg(queries, positions), best)


def evaluate(ranker: RequestRanker, queries: Queries) -> float:
    """NDCG@K of the ranker's best known orders on these queries; the ranker does not change."""
    _fits(ranker, queries, "test")
    return _evaluate(ranker, documents(queries, ranker.positions), queries.most)


def _evaluate(ranker: RequestRanker, data: Documents, most: int) -> float:
    copy = ranker.copy()
    copy.make_room(most)
    return float(judge(copy.state, copy.rng, data, Room.of(most, ranker.positions, data.features.shape[1])))


def simulate(
    ranker: RequestRanker,
    train: Queries,
    users: str | Users = "perfect",
    impressions: int = 10_000,
    seed: int | np.random.SeedSequence = 0,
    *,
    test: Queries | None = None,
    checkpoints: ArrayLike | None = None,
) -> QueryRun:
    """Let a ranker learn from simulated users of queries.

    Args:
        ranker: of requests; made with ``dim=train.dim``.
        train: the queries that users ask, each equally often.
        users: their name (``perfect``, ``navigational``, ``informational``, ``position``), or made with ``Users.of``.
        impressions: the number of queries asked.
        seed: of the users; it may be the ranker's.
        test: queries to measure NDCG on.
        checkpoints: impressions at which to record results; by default about 20, evenly spread on a log scale.

    >>> import numpy as np
    >>> from recurrank.rankers.documents import PDGD
    >>> rng = np.random.default_rng(0)
    >>> labels = np.tile([2, 1, 0, 0, 0], 20)
    >>> train = Queries(labels[:, None] + rng.normal(size=(100, 3)), labels, np.arange(0, 101, 5))
    >>> run = simulate(PDGD(dim=3, positions=3, seed=0), train, "perfect", 2000, test=train)
    >>> bool(run.ndcg[-1] > run.ndcg[0])
    True

    """
    impressions = as_count("impressions", impressions)
    if isinstance(users, str):
        users = make_users(users, train.top, getattr(ranker, "positions", 1))
    marks = _checkpoints(impressions, checkpoints)
    simulation = QuerySimulation(ranker, train, users, seed)
    simulation.prepare()
    judged = None
    if test is not None:
        _fits(ranker, test, "test")
        judged = documents(test, ranker.positions), test.most
        _evaluate(ranker, *judged)
    noted, offline, seconds = np.empty((len(marks), 3)), np.full(len(marks), np.nan), 0.0
    for i, mark in enumerate(marks):
        watch = Stopwatch()
        simulation.advance(int(mark))
        seconds += watch.seconds
        noted[i] = simulation.totals[[ONLINE, REGRET, CLICKS]]
        if judged is not None:
            offline[i] = _evaluate(ranker, *judged)
    simulation.advance(impressions)
    return QueryRun(marks, offline, noted[:, 0], noted[:, 1], noted[:, 2].astype(np.int64), seconds)


def _fits(ranker: RequestRanker, queries: Queries, name: str) -> None:
    if ranker.width != queries.dim:
        raise ValueError(f"{name}: {queries.dim} features per document, but the ranker was made for {ranker.width}")


def _checkpoints(impressions: int, given: ArrayLike | None) -> Ints:
    if given is None:
        return np.unique(np.geomspace(1, impressions, CHECKPOINTS).round().astype(np.int64))
    marks = np.asarray(given)
    if marks.ndim != 1 or not marks.size or marks.dtype.kind not in "iu":
        raise ValueError("checkpoints: give a list of whole numbers of impressions")
    if marks[0] < 1 or marks[-1] > impressions or (np.diff(marks) <= 0).any():
        raise ValueError(f"checkpoints: give increasing numbers between 1 and {impressions}")
    return marks.astype(np.int64)
