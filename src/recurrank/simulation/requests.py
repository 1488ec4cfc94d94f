"""A ranker meets a stream of requests and users who click: the loop, compiled once for every kind of ranker."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import loop
from recurrank.clicks.filtering import examined_given_clicks
from recurrank.clicks.model import CASCADE, DOCUMENT, MIXTURE, ClickModel, ClickState, examine, sample
from recurrank.clicks.optimum import BY_EXAMINATION, EXACT, FOUND, IN_CHAIN, Room, by_examination, indices, of_request, pick
from recurrank.clicks.presets import make
from recurrank.plugins import plainly
from recurrank.rankers.dispatch import Calls
from recurrank.rankers.engines.request_calls import choose, take
from recurrank.rankers.engines.requests import Shown, best
from recurrank.rankers.ranker import Ranker
from recurrank.rankers.request_ranker import RequestRanker
from recurrank.requests.streams import Requests
from recurrank.requests.world import COUNT, GROUP, Drawn, draw, drawn
from recurrank.seeds import stream


@loop
def play(
    state: Any, rng: np.random.Generator, world: Drawn, visitors: np.random.Generator, model: ClickState,
    users: np.random.Generator, by_group: Floats, segments: Ints, features: Floats, rows: Ints,
    shown: Shown, chosen: Ints, ideal: Ints,
    clicks: Bools, chi: Floats, told: bool, how: int, room: Room, totals: Floats, rounds: int,
) -> int:  # fmt: skip
    """Up to ``rounds`` rounds, stopping after one that makes a decision due; how many were played, negative if one is due.

    ``features`` are those of all items, or of this request's candidates; ``rows`` says which are the candidates'. ``totals``
    are regret and clicks; regret is in expectation, against the best order of the request's candidates, found as ``how`` says.
    """
    positions, dim = len(chosen), shown.features.shape[1]
    for t in range(rounds):
        draw(world, visitors)
        count, group = world.about[COUNT], world.about[GROUP]
        size = min(positions, count)
        for i in range(count):
            model.attraction[i] = world.truth[i]
        if by_group.shape[0] > 0:
            for i in range(model.table.shape[0]):
                for k in range(model.table.shape[1]):
                    model.table[i, k] = by_group[group, i, k]
        state.work.asks[0] = segments[group]
        choose(state, rng, features, rows, count, world.slots[:size], 1.0, chosen)
        best(world.truth, count, size, ideal, state.work)
        if how == BY_EXAMINATION:
            by_examination(model, size, ideal, room)
        elif how == IN_CHAIN:
            indices(model, count, room)
            best(room.worth, count, count, room.order, state.work)
            pick(room, count, size, ideal)
        examine(model, ideal[:size], chi)
        for k in range(size):
            totals[0] += chi[k] * world.truth[ideal[k]]
        examine(model, chosen[:size], chi)
        for k in range(size):
            totals[0] -= chi[k] * world.truth[chosen[k]]
            for p in range(dim):
                shown.features[k, p] = features[rows[chosen[k]], p]
        sample(model, chosen[:size], users, clicks[:size])
        for k in range(size):
            totals[1] += clicks[k]
        if told:
            examined_given_clicks(model, chosen[:size], clicks[:size], shown.examined)
        answer = Shown(shown.features, shown.free, segments[group], shown.examined)
        if take(state, answer, clicks[:size]):
            return -(t + 1)
    return rounds


class RequestSimulation:
    """A ranker of requests and simulated visitors.

    Attributes:
        round: how many rounds have been played.
        regret: so far, in expectation.
        clicked: clicks so far.
        optimum: the reference of regret: ``exact`` where no order of a request's candidates is better, or ``best found``.

    """

    def __init__(
        self, ranker: Ranker, clicks: str | ClickModel, requests: Requests, seed: int | np.random.SeedSequence
    ) -> None:
        if not isinstance(ranker, RequestRanker):
            raise ValueError(
                f"ranker: {getattr(ranker, 'name', ranker)!r} ranks one catalogue for everybody, and takes no requests"
            )
        if not isinstance(requests, Requests):
            raise ValueError(f"requests: {type(requests).__name__} is not a stream of requests; give one of rr.requests")
        self.ranker, self.world = ranker, requests.world()
        if ranker.width != self.world.dim:
            raise ValueError(f"requests: {self.world.dim} features per candidate, but the ranker was made for {ranker.width}")
        self.stream = drawn(self.world, ranker.positions)
        self.model = _model(clicks, self.world.candidates, ranker.positions)
        self._how, exact = of_request(self.model, ranker.positions)
        self.optimum = EXACT if exact else FOUND
        self.users, self.visitors = stream(seed, "users", ranker.served), stream(seed, "requests", ranker.served)
        self.changes = stream(seed, "changes", ranker.served)
        self.round = 0
        self._totals = np.zeros(2)
        named: list[str] | list[None] = self.world.segments or [None] * len(self.world.start)
        self._segments = np.array([ranker.index_of(name) for name in named], np.int64)
        self._by_group = _by_group(self.world.patience, self.model)
        k = ranker.positions
        self._shown = Shown(np.zeros((k, ranker.width)), np.ones(k, np.bool_), 0, np.ones(k))
        self._room = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.bool_), np.zeros(k)
        self._ideal = Room.of(self.world.candidates, k)
        ranker.make_room(self.world.candidates)

    @property
    def regret(self) -> float:
        return float(self._totals[0])

    @property
    def clicked(self) -> int:
        return int(self._totals[1])

    def prepare(self) -> None:
        """Compile what is not compiled yet, playing no round."""
        with plainly():
            self._play(self.ranker.state, self.ranker.rng, 0)

    def advance(self, until: int) -> None:
        """Play to round ``until``."""
        while self.round < until:
            stop = until
            if self.world.turn is not None:
                stop = min(until, (self.round // self.world.every + 1) * self.world.every)
            self.ranker.advance(functools.partial(self._rounds, stop - self.round))
            if self.world.turn is not None and self.round % self.world.every == 0:
                self._turn()

    def _rounds(self, rounds: int, calls: Calls) -> tuple[int, bool]:
        played = self._play(calls.state, calls.rng, rounds)
        self.round += abs(played)
        return abs(played), played < 0

    def _turn(self) -> None:
        assert self.world.turn is not None
        self.world.turn(self.changes, self.round)
        np.copyto(self.stream.features, self.world.features)
        np.copyto(self.stream.attraction, np.atleast_2d(self.world.attraction))

    def _play(self, state: Any, rng: np.random.Generator, rounds: int) -> int:
        chosen, ideal, clicks, chi = self._room
        own = self.world.contexts.size > 0
        features, rows = (self.stream.joint, self.stream.every) if own else (self.stream.features, self.stream.rows)
        return play(
            state, rng, self.stream, self.visitors, self.model, self.users, self._by_group,
            self._segments, features, rows, self._shown, chosen, ideal, clicks, chi, bool(getattr(self.ranker, "told", False)),
            self._how, self._ideal, self._totals, rounds,
        )  # fmt: skip


def _model(clicks: str | ClickModel, candidates: int, positions: int) -> ClickState:
    """The state of a click model whose attractions are those of the present request."""
    model = make(clicks, np.full(candidates, 0.5), positions) if isinstance(clicks, str) else clicks
    if not isinstance(model, ClickModel) or not isinstance(model.state, ClickState):
        raise ValueError(f"clicks: {clicks!r} is not a click model of this package; requests need one, by name or made")
    if model.positions is not None and model.positions < positions:
        raise ValueError(f"clicks: parameters for {model.positions} positions, but the ranker shows {positions}")
    satisfaction = model.state.satisfaction
    if len(satisfaction) and (satisfaction != satisfaction[0]).any():
        raise ValueError("clicks: satisfaction differs between items, which requests do not know; give one for all")
    everyone = np.full(candidates, satisfaction[0]) if len(satisfaction) else np.zeros(0)
    return model.state._replace(attraction=np.zeros(candidates), table=model.state.table.copy(), satisfaction=everyone)


def _by_group(patience: Floats, model: ClickState) -> Floats:
    """The click model's parameters p for each group: p^patience, but for a mixture's share; empty where all groups are alike.

    Among them are examination by position, and the probabilities of going on.
    """
    if not len(patience):
        return np.zeros((0, 1, 1))
    if model.kind in (DOCUMENT, CASCADE):
        raise ValueError("clicks: document-based and cascade clicks have no parameters that could depend on the request")
    powers: Floats = model.table[None] ** patience[:, None, None]
    if model.kind == MIXTURE:
        powers[:, 1] = model.table[1]
    return powers
