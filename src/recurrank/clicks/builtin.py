"""The click models of this package behind one pair of compiled functions, so that the loop of requests is compiled once."""

from __future__ import annotations

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


class Builtin:
    """The functions that compiled code calls for a :class:`~recurrank.clicks.model.ClickState`."""

    compiled_examine = examine
    compiled_sample = sample


compiles(ClickState, Builtin)
