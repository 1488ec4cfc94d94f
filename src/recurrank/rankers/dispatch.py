"""The functions of an algorithm, for the loops that call them.

The loop of a simulation is compiled with the functions of its ranker: ``rank`` and ``learn`` below find them by the type of
the state, Python in each call and numba once, when it compiles the loop. All other loops are compiled once for all algorithms.
They call the functions by address, on one state and the arrays of a round: :class:`Calls`.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba.extending import overload

from recurrank._addresses import Call, Packed, call
from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import PART, addressed, interpreted, loop

if TYPE_CHECKING:
    from recurrank.rankers.ranker import Ranker

algorithms: dict[type[Any], type[Ranker]] = {}
"""Every algorithm by the type of its state; ``ranker.register_state`` adds to it."""


class Buffer(NamedTuple):
    """A slate as compiled functions see it."""

    items: Ints  # (K,)
    marks: Ints  # (K, 2)

    @staticmethod
    def empty(positions: int) -> Buffer:
        return Buffer(np.zeros(positions, np.int64), np.full((positions, 2), -1, np.int64))


def rank(state: Any, rng: np.random.Generator, slate: Buffer) -> None:
    """Call ``rank`` of the algorithm that this state belongs to."""
    algorithms[type(state)].compiled_rank(state, rng, slate)


def learn(state: Any, slate: Buffer, clicks: Bools) -> bool:
    """Call ``learn`` of the algorithm that this state belongs to."""
    return bool(algorithms[type(state)].compiled_learn(state, slate, clicks))


@overload(rank, jit_options=PART, strict=False)
def _rank(state: Any, rng: Any, slate: Any) -> Any:
    own = algorithms[state.instance_class].compiled_rank
    return lambda state, rng, slate: own(state, rng, slate)


@overload(learn, jit_options=PART, strict=False)
def _learn(state: Any, slate: Any, clicks: Any) -> Any:
    own = algorithms[state.instance_class].compiled_learn
    return lambda state, slate, clicks: own(state, slate, clicks)


class Round(NamedTuple):
    """The arrays of one round that an algorithm's functions read and write besides its state."""

    slate: Buffer
    clicks: Bools  # (K,) the answer
    answered: Ints  # (1,) how many of these count: fewer than K where the lower positions were never on the screen
    before: Floats  # (2 K,) what probabilities of the slate depend on, from before it was drawn
    marginal: Floats  # (K,) how probable each item was at its position,
    given: Floats  # (K,) given those above it,
    joint: Floats  # (1,) and all of the slate

    @staticmethod
    def empty(positions: int) -> Round:
        slate, clicks, before = Buffer.empty(positions), np.zeros(positions, np.bool_), np.zeros(2 * positions)
        return Round(slate, clicks, np.array([positions]), before, np.zeros(positions), np.zeros(positions), np.zeros(1))


class Drawing(NamedTuple):
    """The steps of drawing a slate: save what its probabilities depend on, rank, compute marginal and conditional ones."""

    recall: Any
    rank: Any
    tell: Any
    tell_given: Any


class Folding(NamedTuple):
    """The functions that update the state after a slate. ``learn`` gives 1 when a decision is due."""

    learn: Any
    served: Any
    drop: Any


class _Arguments(NamedTuple):
    """The arguments of an algorithm's functions; the state is 0 for functions that do not read it."""

    round: Round
    rng: np.random.Generator
    state: Any


class Calls:
    """The functions of an algorithm, to be called on one state and the arrays of one round.

    ``rules`` is the version of the rankers' decisions. A ranker in plain Python has Python functions in place of addresses,
    for loops that are not compiled either.
    """

    def __init__(self, kind: type[Ranker], state: Any, rng: np.random.Generator, arrays: Round, rules: int) -> None:
        self.state, self.rng, self.round = state, rng, arrays
        self._kind, self._rules = kind, rules

    def loop(self, function: Any) -> Any:
        """A compiled loop, or its Python function if the algorithm is not compiled."""
        return function if self._kind.compiled else interpreted(function)

    @property
    def drawing(self) -> Drawing:
        return Drawing(self.recall, self.rank, self.tell, self.tell_given)

    @property
    def folding(self) -> Folding:
        return Folding(self.learn, self.served, self.drop)

    @functools.cached_property
    def rank(self) -> Any:
        return self._call(_ranks, self._kind.compiled_rank)

    @functools.cached_property
    def recall(self) -> Any:
        return self._call(_recalls, self._kind.compiled_recall)

    @functools.cached_property
    def tell(self) -> Any:
        own = self._kind.compiled_propensity
        return self._call(_tells_nothing) if own is None else self._call(_tells, own)

    @functools.cached_property
    def tell_given(self) -> Any:
        own = self._kind.compiled_conditional
        return self._call(_does_nothing) if self._kind.compiled_propensity is None else self._call(_tells_given, own)

    @functools.cached_property
    def learn(self) -> Any:
        return self._call(_learns, self._kind.compiled_learn)

    @functools.cached_property
    def served(self) -> Any:
        own = self._kind.compiled_served
        if own is None or (self._rules == 1 and not self._kind.counted_in_0_1_0):
            return self.rank
        return self._call(_takes, own)

    @functools.cached_property
    def drop(self) -> Any:
        own = self._kind.compiled_drop
        return self._call(_does_nothing) if own is None else self._call(_takes, own)

    def _call(self, function: Any, *own: Any) -> Call | Callable[[], int]:
        if not self._kind.compiled:
            return functools.partial(function(*own), [_Arguments(self.round, self.rng, self.state)])
        packed = self._with_state if any(map(_reads_state, own)) else self._stateless
        return packed.call(_entry(function, *own))

    @functools.cached_property
    def _with_state(self) -> Packed:
        try:
            return Packed(_Arguments(self.round, self.rng, self.state))
        except TypeError as error:
            raise ValueError(f"{self._kind.name}: of its state {error}; make it of arrays") from error

    @functools.cached_property
    def _stateless(self) -> Packed:
        """For functions that do not read the state: they are compiled once for all algorithms."""
        return Packed(_Arguments(self.round, self.rng, 0))


@loop
def draw(drawing: Drawing) -> None:
    """Rank, and compute how probable the slate was: each item at its position, each given those above, and the whole."""
    call(drawing.recall)
    call(drawing.rank)
    call(drawing.tell)
    call(drawing.tell_given)


@loop
def once(function: Any) -> int:
    """Call one of the functions of an algorithm, from Python."""
    return call(function)


@functools.cache
def _reads_state(function: Any) -> bool:
    """Whether a function uses its first parameter, whatever its name."""
    plain: Any = interpreted(function)
    state = plain.__code__.co_varnames[0]
    used = [instruction.argval for instruction in dis.get_instructions(plain)]
    return any(state in (names if isinstance(names, tuple) else (names,)) for names in used)


@functools.cache
def _entry(function: Any, *own: Any) -> Any:
    """One of the functions below for these functions of an algorithm, compiled to be called by address."""
    return addressed(function(*own))


def _ranks(own: Any) -> Any:
    def entry(at: Any) -> int:
        own(at[0].state, at[0].rng, at[0].round.slate)
        return 0

    return entry


def _learns(own: Any) -> Any:
    def entry(at: Any) -> int:
        arrays = at[0].round
        return 1 if own(at[0].state, arrays.slate, arrays.clicks[: arrays.answered[0]]) else 0

    return entry


def _takes(own: Any) -> Any:
    def entry(at: Any) -> int:
        own(at[0].state, at[0].round.slate)
        return 0

    return entry


def _does_nothing() -> Any:
    def entry(at: Any) -> int:
        return 0

    return entry


def _recalls(own: Any) -> Any:
    def entry(at: Any) -> int:
        own(at[0].state, at[0].round.before)
        return 0

    return entry


def _tells(own: Any) -> Any:
    def entry(at: Any) -> int:
        arrays = at[0].round
        arrays.joint[0] = own(at[0].state, arrays.before, arrays.slate, arrays.marginal)
        return 0

    return entry


def _tells_given(own: Any) -> Any:
    def entry(at: Any) -> int:
        arrays = at[0].round
        own(at[0].state, arrays.slate, arrays.marginal, arrays.joint[0], arrays.given)
        return 0

    return entry


def _tells_nothing() -> Any:
    def entry(at: Any) -> int:
        arrays = at[0].round
        arrays.joint[0] = np.nan
        for k in range(len(arrays.marginal)):
            arrays.marginal[k] = arrays.given[k] = np.nan
        return 0

    return entry
