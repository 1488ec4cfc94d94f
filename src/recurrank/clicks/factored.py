"""The factored model: any examination function, as in the paper's equation (clickfactor).

    v(A, k) = chi(A, k) alpha(A(k)),

where clicks at different positions are independent given the ranking (the paper does not specify their joint distribution).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, njit, types
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_probabilities
from recurrank._compiled import hot
from recurrank.clicks.model import ClickModel, register
from recurrank.slate import Slate

Examination = Callable[[Ints, int], float]
SIGNATURE = types.float64(types.Array(types.int64, 1, "C"), types.int64)


class FactoredState(NamedTuple):
    attraction: Floats
    chi: Any  # a compiled function; all have the same type, so that they share one compiled loop on disk
    wrong: Floats  # (1,) the last value that was not a probability, or 0


@hot
def examine(state: FactoredState, items: Ints, chi: Floats) -> None:
    for k in range(len(items)):
        chi[k] = state.chi(items, k)
        if not 0.0 <= chi[k] <= 1.0:
            state.wrong[0] = chi[k]


@hot
def sample(state: FactoredState, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    for k in range(len(items)):
        clicks[k] = rng.random() < state.chi(items, k) * state.attraction[items[k]]


class Factored(ClickModel):
    """Position k of a ranking is examined with probability ``chi(items, k)``, k counting from 0.

    ``chi`` is an ordinary function of the array of shown items. If numba can compile it, simulations run at full
    speed; if not, they call it from Python, round by round, with the same result.

    >>> Factored([0.5, 0.4], chi=lambda items, k: 0.5**k).expected([0, 1]).tolist()
    [0.5, 0.2]
    """

    name = "factored"
    reference = "the paper, equation (clickfactor)"
    describes = "examination is any function of the ranking and the position"
    compiled_examine = examine
    compiled_sample = sample

    def __init__(self, attraction: ArrayLike, chi: Examination) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        try:
            inspect.signature(chi).bind(np.arange(1), 0)
        except (TypeError, ValueError) as error:
            raise ValueError(f"chi: {chi!r} is not a function of (items, k); give one that returns a probability") from error
        self.chi = chi
        self.state = _compile(self.attraction, chi)

    def complain(self) -> None:
        """ValueError if compiled code met an examination that is not a probability."""
        if self.state is not None and self.state.wrong[0] != 0:
            wrong, self.state.wrong[0] = float(self.state.wrong[0]), 0.0
            raise ValueError(f"chi: it gave {wrong} or failed for some ranking; give a probability in [0, 1] for every ranking")

    def examine(self, slate: Slate | ArrayLike) -> Floats:
        items = self._items(slate)
        with np.errstate(all="ignore"):  # its values are checked
            return as_probabilities("chi", [self.chi(items, k) for k in range(len(items))]).copy()


def _compile(attraction: Floats, chi: Examination) -> FactoredState | None:
    """The state for compiled loops; None where numba cannot compile ``chi``, for any reason."""
    try:
        function: Any = njit(getattr(chi, "py_func", chi))

        def guarded(items: Ints, k: int) -> float:
            try:
                return function(items, k)  # type: ignore[no-any-return]
            except Exception:
                return np.nan

        return FactoredState(attraction, cfunc(SIGNATURE)(guarded), np.zeros(1))
    except Exception:
        return None


register(FactoredState, Factored)
