"""Click models in plain Python: an ordinary class with ``examine`` becomes a click model, slower than compiled ones.

@rr.clicks.plain
class InAHurry:
    name = "in-a-hurry"

    def __init__(self, attraction, patience=0.5): ...
    def examine(self, items): ...        # the probability that each position is examined
    def sample(self, items, rng): ...    # K booleans; optional: without it, clicks at different positions are independent
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, as_probabilities
from recurrank.clicks.model import ClickModel, register
from recurrank.slate import Slate


class PlainModel(ClickModel):
    """A click model around an object of an ordinary class; :func:`plain` makes one subclass of this for each such class."""

    own: ClassVar[type[Any]]
    reference = "a user's own"
    describes = "not said"

    def __init__(self, attraction: ArrayLike, **parameters: Any) -> None:
        self.attraction = as_probabilities("attraction", attraction)
        self.object = self.own(self.attraction, **parameters)

    @classmethod
    def parameters(cls) -> list[str]:
        return list(inspect.signature(cls.own).parameters)[1:]

    @classmethod
    def defaults(cls, items: int, positions: int) -> dict[str, Any]:
        own = getattr(cls.own, "defaults", None)
        return {} if own is None else dict(own(items, positions))

    def examine(self, slate: Slate | ArrayLike) -> Floats:
        items = self._items(slate)
        return as_probabilities(f"{self.name}.examine", self.object.examine(items), shape=items.shape).copy()

    def sample(self, slate: Slate | ArrayLike, rng: np.random.Generator) -> Bools:
        if not hasattr(self.object, "sample"):
            return super().sample(slate, rng)
        return np.asarray(self.object.sample(self._items(slate), rng), np.bool_)


def plain(own: type[Any]) -> type[PlainModel]:
    """Register an ordinary class with ``examine`` as a click model under its ``name``; for use as a decorator.

    >>> @plain
    ... class Every:
    ...     name = "every-other"
    ...     def __init__(self, attraction): ...
    ...     def examine(self, items):
    ...         return [1.0 - k % 2 for k in range(len(items))]
    >>> Every([0.9, 0.5, 0.1]).expected([0, 1, 2]).tolist()
    [0.9, 0.0, 0.1]
    """
    missing = [name for name in ("name", "examine") if not hasattr(own, name)]
    if missing:
        raise ValueError(f"{own.__name__}: it has no {missing[0]}; a click model in plain Python has a name and examine()")
    copied = ("name", "reference", "describes", "__doc__", "__module__")
    parts = {part: getattr(own, part) for part in copied if getattr(own, part, None) is not None}
    kind = type(own.__name__, (PlainModel,), {"own": own, "__qualname__": own.__qualname__, **parts})
    register(kind, kind)
    return kind
