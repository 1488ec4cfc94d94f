"""How compiled code finds the ``choose`` and ``take`` of whichever ranker of requests it runs: by the type of its state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import PART
from recurrank.rankers.engines.requests import Shown

_compiled: dict[type[Any], Any] = {}


def register_requests(state: type[Any], ranker: Any) -> None:
    """Make compiled code use ``compiled_choose`` and ``compiled_take`` of this class for this type of state."""
    _compiled[state] = ranker


def choose(
    state: Any, rng: np.random.Generator, features: Floats, rows: Ints, count: int, slots: Ints, explore: float, chosen: Ints
) -> tuple[int, float]:
    """The choose of this state's algorithm; only compiled code can call it."""
    raise TypeError("only compiled code can call this; use a ranker's own method")


def take(state: Any, shown: Shown, clicks: Bools) -> bool:
    """The take of this state's algorithm; only compiled code can call it."""
    raise TypeError("only compiled code can call this; use a ranker's own method")


@overload(choose, jit_options=PART, strict=False)
def _choose(state: Any, rng: Any, features: Any, rows: Any, count: Any, slots: Any, explore: Any, chosen: Any) -> Any:
    own = _compiled[state.instance_class].compiled_choose
    return lambda state, rng, features, rows, count, slots, explore, chosen: own(
        state, rng, features, rows, count, slots, explore, chosen
    )


@overload(take, jit_options=PART, strict=False)
def _take(state: Any, shown: Any, clicks: Any) -> Any:
    own = _compiled[state.instance_class].compiled_take
    return lambda state, shown, clicks: own(state, shown, clicks)
