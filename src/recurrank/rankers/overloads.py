"""``rank`` and ``learn`` of ``dispatch.py`` in compiled loops: numba looks the algorithm up by the type of the state, once."""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from recurrank._compiled import PART
from recurrank.rankers.dispatch import algorithms, learn, rank


@overload(rank, jit_options=PART, strict=False)
def _rank(state: Any, rng: Any, slate: Any) -> Any:
    own = algorithms[state.instance_class].compiled_rank
    return lambda state, rng, slate: own(state, rng, slate)


@overload(learn, jit_options=PART, strict=False)
def _learn(state: Any, slate: Any, clicks: Any) -> Any:
    own = algorithms[state.instance_class].compiled_learn
    return lambda state, slate, clicks: own(state, slate, clicks)
