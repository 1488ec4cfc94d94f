"""The base class of click models, and how compiled code finds their functions.

A click model is examination times attraction (the paper's equation clickfactor): ``v(A, k) = chi(A, k) alpha(A(k))``.
Each model is one file: two compiled functions over a state (a NamedTuple of arrays), and a class for Python users.

    examine(state, items, chi)          fills chi[k] with the marginal examination probability of position k
    sample(state, items, rng, clicks)   draws one user's clicks

A third function, for models that have a faster way, does both for simulations and adds up the regret:

    meet(state, items, rng, clicks, chi, best, lost) -> clicks

``meeting.py`` lets the loop of a simulation call them by their address, so that a ranker is compiled once for all models.
The models of this package share one type of state, :class:`ClickState`; a user's own model has its own type of state.
The loop of requests calls the :func:`examine` and :func:`sample` of this module; numba picks the switch over this package's
models (``builtin.py``) or the user's functions by the type of the state, at compile time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_count
from recurrank._compiled import PART, contributes, inner
from recurrank.slate import Slate, as_items

if TYPE_CHECKING:
    from recurrank.clicks.optimum import Optimum

DOCUMENT, POSITION, CASCADE, DEPENDENT, BROWSING, BAYESIAN, CHAIN, MIXTURE, SETWISE = range(9)
"""The models of this package; ``ClickState.kind`` is one of these."""


class ClickState(NamedTuple):
    """The parameters of any model of this package, as compiled code sees them."""

    kind: int  # which model
    attraction: Floats  # (L,)
    satisfaction: Floats  # (L,) or (0,)
    table: Floats  # (rows, columns): parameters by position, or single numbers
    scratch: Floats  # for computations within a call


def click_state(kind: int, attraction: Floats, table: ArrayLike = ((),), satisfaction: Floats | None = None) -> ClickState:
    """A state; ``table`` becomes two-dimensional, so that all states have one type."""
    parameters = np.atleast_2d(np.array(table, np.float64))
    by_item = np.empty(0) if satisfaction is None else satisfaction
    for array in (parameters, by_item):
        array.setflags(write=False)
    return ClickState(kind, attraction, by_item, parameters, np.zeros(parameters.shape[1]))


class ClickModel:
    """How users click on a ranking. Subclasses set the class variables and, in ``__init__``, ``attraction`` and ``state``.

    Attributes:
        attraction: the probability alpha(a) that an examined item is clicked, one per item.
        positions: how many positions the parameters describe; None if they fit any number.
        state: the parameters as compiled code sees them; None if the model runs only in Python.

    """

    name: ClassVar[str]
    reference: ClassVar[str]
    describes: ClassVar[str]
    compiled_examine: ClassVar[Callable[..., Any]]
    compiled_sample: ClassVar[Callable[..., Any]]
    compiled_meet: ClassVar[Callable[..., Any] | None] = None

    attraction: Floats
    positions: int | None = None
    state: Any = None

    @classmethod
    def defaults(cls, items: int, positions: int) -> dict[str, Any]:
        """Default parameters, besides the attraction."""
        return {}

    @classmethod
    def parameters(cls) -> list[str]:
        """The names of its parameters besides the attraction."""
        return list(inspect.signature(cls).parameters)[1:]

    def examine(self, slate: Slate | ArrayLike) -> Floats:
        """The marginal probability chi(A, k) that each position of the slate is examined."""
        items = self._items(slate)
        chi = np.empty(len(items))
        type(self).compiled_examine(self.state, items, chi)
        return chi

    def expected(self, slate: Slate | ArrayLike) -> Floats:
        """The probability v(A, k) of a click at each position; their sum is the expected number of clicks."""
        return self.examine(slate) * self.attraction[self._items(slate)]

    def sample(self, slate: Slate | ArrayLike, rng: np.random.Generator) -> Bools:
        """The clicks of one user."""
        items = self._items(slate)
        if not isinstance(rng, np.random.Generator):
            raise ValueError(f"rng: {type(rng).__name__} is not a numpy.random.Generator; give numpy.random.default_rng(seed)")
        if self.state is None:  # one draw per position, in order
            expected = self.expected(slate)
            return np.array([rng.random() for _ in expected]) < expected
        clicks = np.empty(len(items), np.bool_)
        type(self).compiled_sample(self.state, items, rng, clicks)
        return clicks

    def complain(self) -> None:
        """ValueError if the model turned out to be invalid, which happens only with a user's own function."""

    def best(self, positions: int) -> Ints:
        """The ranking A*: the most attractive items in order, ties by their index in the catalogue."""
        if as_count("positions", positions) > len(self.attraction):
            raise ValueError(f"positions: {positions} is more than the {len(self.attraction)} items of the click model")
        least = np.partition(self.attraction, -positions)[-positions]
        candidates = np.flatnonzero(self.attraction >= least)
        order = np.argsort(-self.attraction[candidates], kind="stable")
        return candidates[order[:positions]].astype(np.int64)

    def optimum(self, positions: int) -> Optimum:
        """The ranking with the most expected clicks, which regret is measured against; often but not always :meth:`best`."""
        from recurrank.clicks.optimum import optimum

        return optimum(self, positions)

    def _items(self, slate: Slate | ArrayLike) -> Ints:
        return as_items(slate, len(self.attraction), self.positions)


_compiled: dict[type[Any], type[Any]] = {}
_models: dict[str, type[ClickModel]] = {}


def register(state: type[Any], model: type[ClickModel]) -> None:
    """Register a model by its name, and its compiled functions by the type of its state."""
    if state is not ClickState:
        compiles(state, model)
    _models[model.name] = model


def compiles(state: type[Any], functions: type[Any]) -> None:
    """Compiled code uses ``compiled_examine`` and ``compiled_sample`` of this class for this type of state."""
    _compiled[state] = functions
    contributes(state, functions)


def models() -> dict[str, type[ClickModel]]:
    """Every click model by its name."""
    return dict(_models)


# Compiled loops call the next two, and Python may. Python looks the model up by the type of the state each time, numba once.


def examine(state: Any, items: Ints, chi: Floats) -> None:
    """The examine of this state's model."""
    _compiled[type(state)].compiled_examine(state, items, chi)


def sample(state: Any, items: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    """The sample of this state's model."""
    _compiled[type(state)].compiled_sample(state, items, rng, clicks)


@inner
def settle(expected: float, chance: float, k: int, clicks: Bools, best: Floats, lost: Floats) -> bool:
    """Click with probability ``expected`` at position k, and add the regret there; return whether there is a click."""
    clicks[k] = chance < expected
    lost[k] += best[k] - expected
    return bool(chance < expected)


@inner
def account(state: Any, items: Ints, clicks: Bools, chi: Floats, best: Floats, lost: Floats) -> int:
    """Add v(A*, k) - v(A, k) to ``lost[k]``, so that regret is in expectation; return the number of clicks."""
    many = 0
    for k in range(len(items)):
        lost[k] += best[k] - chi[k] * state.attraction[items[k]]
        many += clicks[k]
    return many


@overload(examine, jit_options=PART, strict=False)
def _examine(state: Any, items: Any, chi: Any) -> Any:
    own = _compiled[state.instance_class].compiled_examine
    return lambda state, items, chi: own(state, items, chi)


@overload(sample, jit_options=PART, strict=False)
def _sample(state: Any, items: Any, rng: Any, clicks: Any) -> Any:
    own = _compiled[state.instance_class].compiled_sample
    return lambda state, items, rng, clicks: own(state, items, rng, clicks)
