"""The click models of this package behind one pair of compiled functions, so that a loop is compiled once for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.clicks import bayesian, browsing, cascade, chain, dependent, document, mixture, position, setwise
from recurrank.clicks.model import (
    BAYESIAN,
    BROWSING,
    CASCADE,
    DEPENDENT,
    DOCUMENT,
    MIXTURE,
    POSITION,
    SETWISE,
    ClickState,
    account,
    compiles,
)


@hot
def examine(state: ClickState, items: Ints, chi: Floats) -> None:
    if state.kind == POSITION:
        position.examine(state, items, chi)
    elif state.kind == DOCUMENT:
        document.examine(state, items, chi)
    elif state.kind == CASCADE:
        cascade.examine(state, items, chi)
    elif state.kind == DEPENDENT:
        dependent.examine(state, items, chi)
    elif state.kind == BROWSING:
        browsing.examine(state, items, chi)
    elif state.kind == BAYESIAN:
        bayesian.examine(state, items, chi)
    elif state.kind == MIXTURE:
        mixture.examine(state, items, chi)
    elif state.kind == SETWISE:
        setwise.examine(state, items, chi)
    else:
        chain.examine(state, items, chi)


@hot
def sample(state: ClickState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    if state.kind == POSITION:
        position.sample(state, items, rng, clicks)
    elif state.kind == DOCUMENT:
        document.sample(state, items, rng, clicks)
    elif state.kind == CASCADE:
        cascade.sample(state, items, rng, clicks)
    elif state.kind == DEPENDENT:
        dependent.sample(state, items, rng, clicks)
    elif state.kind == BROWSING:
        browsing.sample(state, items, rng, clicks)
    elif state.kind == BAYESIAN:
        bayesian.sample(state, items, rng, clicks)
    elif state.kind == MIXTURE:
        mixture.sample(state, items, rng, clicks)
    elif state.kind == SETWISE:
        setwise.sample(state, items, rng, clicks)
    else:
        chain.sample(state, items, rng, clicks)


@hot
def meet(state: ClickState, items: Ints, rng: Any, clicks: Bools, chi: Floats, best: Floats, lost: Floats) -> int:
    if state.kind == POSITION:
        return position.meet(state, items, rng, clicks, chi, best, lost)
    if state.kind == DOCUMENT:
        return document.meet(state, items, rng, clicks, chi, best, lost)
    examine(state, items, chi)
    sample(state, items, rng, clicks)
    return account(state, items, clicks, chi, best, lost)


class Builtin:
    """What compiled code takes for :class:`~recurrank.clicks.model.ClickState`."""

    compiled_examine = examine
    compiled_sample = sample
    compiled_meet = meet


compiles(ClickState, Builtin)
