"""A ranker meets a click model: the loop, compiled once per ranker."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from recurrank._arrays import Bools, Ints
from recurrank._compiled import interpreted, loop
from recurrank._sources import is_ours
from recurrank._uniforms import Uniforms
from recurrank.clicks.meeting import Meeting, Users, in_python, meet
from recurrank.clicks.model import ClickModel, ClickState, models
from recurrank.plugins import plainly
from recurrank.rankers.dispatch import Buffer, Calls, learn, rank
from recurrank.rankers.ranker import Ranker
from recurrank.seeds import stream


@loop
def play(
    state: Any, rng: np.random.Generator, slate: Buffer, users: Any, clicks: Bools, clicked: Ints, rounds: int
) -> int:  # fmt: skip
    """Up to ``rounds`` rounds, stopping after one that makes a decision due; how many were played, negative if one is due.

    ``users`` leave their ``clicks``, and sum up the expected loss at every position.
    """
    seen = 0
    for t in range(rounds):
        rank(state, rng, slate)
        seen += meet(users)
        if learn(state, slate, clicks):
            clicked[0] += seen
            return -(t + 1)
    clicked[0] += seen
    return rounds


class Simulation:
    """A ranker and simulated users, round by round.

    Attributes:
        round: how many rounds have been played.
        optimum: the ranking that regret is measured against.
        lost: regret by position so far, in expectation.

    """

    def __init__(self, ranker: Ranker, model: ClickModel, seed: int | np.random.SeedSequence) -> None:
        _check(ranker, model)
        if ranker.catalogue.gaps:
            raise ValueError(
                "ranker: items were removed from its catalogue; simulate one that is made on the items that are left"
            )
        if len(model.attraction) != len(ranker.catalogue):
            raise ValueError(
                f"model: {len(model.attraction)} items, but the ranker has {len(ranker.catalogue)}; they must be the same"
            )
        if getattr(ranker, "context", 0):
            raise ValueError(f"context: {ranker.name!r} needs one with every request; simulate it with requests")
        if model.positions is not None and model.positions < ranker.positions:
            raise ValueError(f"model: parameters for {model.positions} positions, but the ranker shows {ranker.positions}")
        self.ranker, self.model = ranker, model
        with plainly():
            self.optimum = model.optimum(ranker.positions)
        self.best = self.optimum.expected
        self.round = 0
        self.lost = np.zeros(ranker.positions)
        self._clicked = np.zeros(1, np.int64)
        # Where something is plain Python, the loop is too.
        self._compiled = ranker.compiled and model.state is not None
        self._loop = play if self._compiled else interpreted(play)
        rng = stream(seed, "users", ranker.served)
        buffered = self._compiled and isinstance(model.state, ClickState) and not isinstance(seed, np.random.Generator)
        chance = Uniforms.of(rng, ranker.positions) if buffered else rng
        self._slate, self._clicks = Buffer.empty(ranker.positions), np.zeros(ranker.positions, np.bool_)
        chi = np.zeros(ranker.positions)
        self._meeting = Meeting(model.state, self._slate.items, chance, self._clicks, chi, self.best, self.lost)

    @functools.cached_property
    def _users(self) -> Any:
        """The users, as the loop takes them."""
        with plainly():
            return Users(self.model, self._meeting) if self._compiled else in_python(self.model, self._meeting)

    @property
    def clicked(self) -> int:
        """Clicks so far."""
        return int(self._clicked[0])

    def prepare(self) -> None:
        """Compile what is not compiled yet, playing no round; ValueError where numba cannot compile a user's own code."""
        with plainly():
            self.ranker.prepare()
            if self._compiled:
                self._play(self.ranker.state, self.ranker.rng, 0)
        if not is_ours(type(self.ranker).__module__):
            self.ranker.copy().rank()  # compiled loops do not check what a user's own algorithm draws

    def advance(self, until: int) -> None:
        """Play to round ``until``, or through the first decision of the ranker on the way."""
        before = self.round

        def rounds(calls: Calls) -> tuple[int, bool]:
            played = self._play(calls.state, calls.rng, until - before)
            self.round = before + abs(played)
            self.model.complain()
            self.ranker.validated(self._slate.items)
            return abs(played), played < 0

        self.ranker.advance(rounds)

    def _play(self, state: Any, rng: np.random.Generator, rounds: int) -> int:
        users = self._users.compiled if self._compiled else self._users
        played: int = self._loop(state, rng, self._slate, users, self._clicks, self._clicked, rounds)
        return played


def _check(ranker: object, model: object) -> None:
    """ValueError unless these are a ranker and a click model."""
    if not isinstance(ranker, Ranker):
        raise ValueError(f"ranker: {_called(ranker)} is not a ranker; give the ranker first, then the click model")
    if not hasattr(ranker, "compiled_rank"):
        raise ValueError(f"ranker: {ranker.name} ranks the documents of queries; simulate it with recurrank.queries.simulate")
    if not isinstance(model, ClickModel):
        kind = models().get(model) if isinstance(model, str) else None
        problem = "is a name" if kind else "is not a click model"
        raise ValueError(f"model: {_called(model)} {problem}; give rr.clicks.{kind.__name__ if kind else 'PositionBased'}(...)")


def _called(value: object) -> str:
    return repr(value) if isinstance(value, str) else type(value).__name__
