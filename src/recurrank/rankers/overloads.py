"""What compiled loops call for the functions of ``dispatch.py`` that depend on the algorithm: ``rank``, ``learn`` and so on.

Numba looks the algorithm up by the type of the state, once, when it compiles a loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from recurrank._compiled import PART
from recurrank.rankers.dispatch import algorithms, conditional, drop, learn, propensity, rank, recall, served


@overload(rank, jit_options=PART, strict=False)
def _rank(state: Any, rng: Any, slate: Any) -> Any:
    own = algorithms[state.instance_class].compiled_rank
    return lambda state, rng, slate: own(state, rng, slate)


@overload(learn, jit_options=PART, strict=False)
def _learn(state: Any, slate: Any, clicks: Any) -> Any:
    own = algorithms[state.instance_class].compiled_learn
    return lambda state, slate, clicks: own(state, slate, clicks)


@overload(recall, jit_options=PART, strict=False)
def _recall(state: Any, before: Any) -> Any:
    own = algorithms[state.instance_class].compiled_recall
    return lambda state, before: own(state, before)


@overload(propensity, jit_options=PART, strict=False)
def _propensity(state: Any, before: Any, slate: Any, marginal: Any) -> Any:
    own = algorithms[state.instance_class].compiled_propensity
    if own is None:

        def unknown(state: Any, before: Any, slate: Any, marginal: Any) -> float:
            for k in range(len(marginal)):
                marginal[k] = np.nan
            return np.nan

        return unknown
    return lambda state, before, slate, marginal: own(state, before, slate, marginal)


@overload(conditional, jit_options=PART, strict=False)
def _conditional(state: Any, slate: Any, marginal: Any, joint: Any, given: Any) -> Any:
    own = algorithms[state.instance_class].compiled_conditional
    return lambda state, slate, marginal, joint, given: own(state, slate, marginal, joint, given)


@overload(served, jit_options=PART, strict=False)
def _served(state: Any, rng: Any, slate: Any, rules: Any) -> Any:
    kind = algorithms[state.instance_class]
    own, again, always = kind.compiled_served, kind.compiled_rank, kind.counted_in_0_1_0
    if own is None:
        return lambda state, rng, slate, rules: again(state, rng, slate)
    if always:
        return lambda state, rng, slate, rules: own(state, slate)

    def choose(state: Any, rng: Any, slate: Any, rules: Any) -> None:
        if rules == 1:
            again(state, rng, slate)
        else:
            own(state, slate)

    return choose


@overload(drop, jit_options=PART, strict=False)
def _drop(state: Any, slate: Any) -> Any:
    own = algorithms[state.instance_class].compiled_drop
    if own is None:
        return lambda state, slate: None
    return lambda state, slate: own(state, slate)
