"""Rankers in plain Python: an ordinary class with ``rank`` and ``learn`` becomes a ranker like any other, only slower.

    @rr.rankers.plain
    class MostClicked:
        name = "most-clicked"

        def __init__(self, features, positions, rounds, *, prior=1.0): ...
        def rank(self, rng): ...              # K different items, best first; rng may be left out
        def learn(self, items, clicks): ...   # arrays of K items and K booleans; fewer where the page was cut off

Its attributes are its state. They are copied and saved, so that they have to be data: numbers, strings, arrays, lists, tuples,
sets, dicts and numpy generators. If it has ``served(items)`` and ``dropped(items)``, they are called for slates that a copy has
shown and of slates whose answer will never come.
"""

from __future__ import annotations

import copy
import functools
import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from recurrank._arrays import Bools, Floats
from recurrank.rankers.options import Option, declared
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register
from recurrank.slate import as_items


@dataclass
class Own:
    """A user's object as the state of a ranker, with what loops need to know about it."""

    object: Any
    name: str
    items: int
    takes_rng: bool


def rank(state: Own, rng: np.random.Generator, slate: Buffer) -> None:
    shown = as_items(state.object.rank(rng) if state.takes_rng else state.object.rank(), state.items)
    if len(shown) != len(slate.items):
        raise ValueError(f"{state.name}: rank() gave {len(shown)} items; it should give {len(slate.items)}")
    slate.items[:] = shown


def learn(state: Own, slate: Buffer, clicks: Bools) -> bool:
    state.object.learn(slate.items[: len(clicks)].copy(), clicks.copy())
    return False


def served(state: Own, slate: Buffer) -> None:
    if hasattr(state.object, "served"):
        state.object.served(slate.items.copy())


def drop(state: Own, slate: Buffer) -> None:
    if hasattr(state.object, "dropped"):
        state.object.dropped(slate.items.copy())


def recall(state: Own, before: Floats) -> None:
    """Do nothing: the probabilities of its slates are not known."""


class PlainRanker(Ranker):
    """A ranker around an object of an ordinary class; :func:`plain` makes one subclass of this for each such class."""

    own: ClassVar[type[Any]]
    reference = "a user's own"
    believes = "not said"
    uses_features = True
    regret_bound = "not said"
    compiled = False
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_drop = drop
    compiled_recall = recall

    state: Own

    def __init__(self, features: Items, positions: int, rounds: int, seed: Seed = None, **options: Any) -> None:
        super().__init__(features, positions, rounds, seed)
        given = {name: options.get(name, option.default) for name, option in self.declared().items()}
        values = dict(zip(given, self.record(**given), strict=True))
        instance = self.own(self.catalogue.features, self.positions, self.rounds, **values)
        self.state = Own(instance, self.name, len(self.catalogue), len(inspect.signature(instance.rank).parameters) > 0)

    @classmethod
    @functools.cache
    def declared(cls) -> dict[str, Option]:
        return declared(cls.own)

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        return {"own": self._packed(vars(self.state.object), self.name, arrays)}, arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        vars(self.state.object).clear()
        vars(self.state.object).update(self._unpacked(values["own"], arrays))

    def _copied(self, into: Any) -> Any:
        features = self.catalogue.features
        return copy.deepcopy(self._state, {id(features): features})

    def _packed(self, value: Any, path: str, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
        """A value as JSON, with its arrays in ``arrays``; ValueError for what is not data."""
        if value is self.catalogue.features:
            return {"features": None}
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufUS":
            arrays[path] = value
            return {"array": path}
        if isinstance(value, dict):
            named = [(key, f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]") for key in value]
            return {"dict": [[self._packed(key, at, arrays), self._packed(value[key], at, arrays)] for key, at in named]}
        for kind in (list, tuple, set):
            if type(value) is kind:
                parts = sorted(value) if kind is set else value
                return {kind.__name__: [self._packed(part, f"{path}.{n}", arrays) for n, part in enumerate(parts)]}
        if isinstance(value, np.random.Generator) and isinstance(value.bit_generator, np.random.PCG64):
            return {"random": value.bit_generator.state}
        raise ValueError(f"{path}: a {type(value).__name__} cannot be saved; keep numbers, strings, arrays, lists and dicts")

    def _unpacked(self, value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
        if not isinstance(value, dict):
            return value
        [(kind, inside)] = value.items()
        if kind == "features":
            return self.catalogue.features
        if kind == "array":
            return arrays[inside]
        if kind == "random":
            rng = np.random.Generator(np.random.PCG64())
            rng.bit_generator.state = inside
            return rng
        if kind == "dict":
            return {self._unpacked(key, arrays): self._unpacked(part, arrays) for key, part in inside}
        return {"list": list, "tuple": tuple, "set": set}[kind](self._unpacked(part, arrays) for part in inside)


def plain(own: type[Any]) -> type[PlainRanker]:
    """Make an ordinary class with ``rank`` and ``learn`` a ranker, known by its ``name``; for use as a decorator.

    >>> import numpy as np
    >>> @plain
    ... class Sideways:
    ...     name = "sideways"
    ...     def __init__(self, features, positions, rounds):
    ...         self.next, self.items, self.positions = 0, len(features), positions
    ...     def rank(self):
    ...         return [(self.next + k) % self.items for k in range(self.positions)]
    ...     def learn(self, items, clicks):
    ...         self.next = int(items[clicks.argmax()])
    >>> ranker = Sideways(np.eye(5), positions=2, rounds=10)
    >>> ranker.learn(ranker.rank(), [False, True])
    >>> ranker.rank().items.tolist()
    [1, 2]
    """
    missing = [name for name in ("name", "rank", "learn") if not hasattr(own, name)]
    if missing:
        raise ValueError(f"{own.__name__}: it has no {missing[0]}; a ranker in plain Python has a name, rank() and learn()")
    attributes = ("name", "reference", "believes", "uses_features", "regret_bound", "not_served", "__doc__", "__module__")
    parts = {part: getattr(own, part) for part in attributes if getattr(own, part, None) is not None}
    kind = type(own.__name__, (PlainRanker,), {"own": own, "__qualname__": own.__qualname__, **parts})
    register(Own, kind)
    return kind
