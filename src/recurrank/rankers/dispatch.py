"""The compiled functions of an algorithm, by the type of its state: what loops over rounds call.

Python looks the algorithm up each time; ``overloads.py`` has numba's side, where that is done once, at compilation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import loop

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
    """The rank of this state's algorithm."""
    algorithms[type(state)].compiled_rank(state, rng, slate)


def learn(state: Any, slate: Buffer, clicks: Bools) -> bool:
    """The learn of this state's algorithm."""
    return bool(algorithms[type(state)].compiled_learn(state, slate, clicks))


def recall(state: Any, before: Floats) -> None:
    """What the probabilities of the next slate depend on, before it is drawn."""
    algorithms[type(state)].compiled_recall(state, before)


def propensity(state: Any, before: Floats, slate: Buffer, marginal: Floats) -> float:
    """How probable a slate of this state's algorithm was, NaN where it does not say."""
    own = algorithms[type(state)].compiled_propensity
    if own is None:
        marginal[:] = np.nan
        return float("nan")
    return float(own(state, before, slate, marginal))


def conditional(state: Any, slate: Buffer, marginal: Floats, joint: float, given: Floats) -> None:
    """How probable each item of a slate was given those above it, NaN where that is not known."""
    kind = algorithms[type(state)]
    if kind.compiled_propensity is None:
        given[:] = np.nan
    else:
        kind.compiled_conditional(state, slate, marginal, joint, given)


@loop
def draw(state: Any, rng: np.random.Generator, slate: Buffer, before: Floats, marginal: Floats, given: Floats) -> float:
    """Rank, and tell how probable what came out was: each item at its position, given those above, and all of it."""
    recall(state, before)
    rank(state, rng, slate)
    joint = propensity(state, before, slate, marginal)
    conditional(state, slate, marginal, joint, given)
    return joint


def served(state: Any, rng: np.random.Generator, slate: Buffer, rules: int) -> None:
    """Update this state for a slate that a copy has served (the slate may be overwritten)."""
    kind = algorithms[type(state)]
    if kind.compiled_served is None or (rules == 1 and not kind.counted_in_0_1_0):
        kind.compiled_rank(state, rng, slate)
    else:
        kind.compiled_served(state, slate)


def drop(state: Any, slate: Buffer) -> None:
    """Update this state for a slate that will never be answered."""
    own = algorithms[type(state)].compiled_drop
    if own is not None:
        own(state, slate)
