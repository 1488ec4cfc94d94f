"""Items that come and go: a catalogue in which every item keeps its index until it is removed.

A stock never changes; ``added``, ``updated`` and ``removed`` return another one, so that copies of a ranker may share it. The
index of a removed item is given to one that comes later. Slates of requests carry the features of what they showed: their
answers stay right when items change. The service keeps the ids of what other slates showed.
"""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, Ints
from recurrank.catalogue import Catalogue
from recurrank.catalogue.rows import SMALLEST_SCALE
from recurrank.rankers.request import Name, as_rows, distinct, listed

WHOLE = int | np.integer
"""Types of whole numbers."""


class Stock(Catalogue):
    """A catalogue with gaps.

    Attributes:
        features: one row per index, float64; the rows of absent items are zero.
        index: of every item, by its name: its id, or its index where the first catalogue had no ids.

    """

    features: Floats
    origin: Catalogue | None = None  # the catalogue that it is still equal to
    precise = True

    def __init__(self, features: Floats, index: dict[Name, int], *, named: bool, precise: bool = True) -> None:
        self.features, self.index, self.named, self.precise = features, index, named, precise

    @classmethod
    def empty(cls, dim: int) -> Stock:
        """A stock without items."""
        return cls(np.zeros((0, dim)), {}, named=True)

    @classmethod
    def of(cls, catalogue: Catalogue) -> Stock:
        """The items of a catalogue."""
        if isinstance(catalogue, Stock):
            return catalogue
        names = range(len(catalogue)) if catalogue.ids is None else catalogue.ids
        index = {name: row for row, name in enumerate(names)}
        features = np.ascontiguousarray(catalogue.features, np.float64)
        if not np.isfinite(features).all():
            raise ValueError("features: not all are finite numbers")
        stock = cls(features, index, named=catalogue.ids is not None, precise=catalogue.precise)
        stock.origin = catalogue
        return stock

    def __len__(self) -> int:
        return len(self.index)

    @functools.cached_property
    def scales(self) -> Floats:  # type: ignore[override]
        """The largest absolute value of each feature, 1 for a feature that all items lack."""
        largest = np.abs(self.features).max(axis=0, initial=0.0)
        return np.where(largest < SMALLEST_SCALE, 1.0, largest)

    @functools.cached_property
    def names(self) -> dict[int, Name]:
        """The name of every index in use."""
        return {index: name for name, index in self.index.items()}

    @functools.cached_property
    def ids(self) -> Sequence[str] | None:  # type: ignore[override]
        """The id of every index, empty where there is no item."""
        return tuple(str(self.names.get(index, "")) for index in range(len(self.features))) if self.named else None

    @functools.cached_property
    def alive(self) -> Ints:
        """The indices of all items, ascending."""
        return np.sort(np.fromiter(self.index.values(), np.int64, len(self.index)))

    def as_names(self, field: str, names: Iterable[Name]) -> list[Name]:
        """Names as the catalogue has them, as a list: whole numbers are text where items have ids."""
        given = names if type(names) is list else listed(field, names)
        if not self.named or set(map(type, given)) <= {str}:
            return given
        return [str(name) if isinstance(name, WHOLE) and not isinstance(name, bool) else name for name in given]

    def indices_of(self, field: str, names: Iterable[Name]) -> Ints:
        """The indices of items; ValueError for a name that is unknown or repeated."""
        wanted = self.as_names(field, names)
        try:
            indices = operator.itemgetter(*wanted)(self.index) if len(wanted) > 1 else [self.index[name] for name in wanted]
        except (KeyError, TypeError):
            distinct(field, wanted)
            number, name = next((number, name) for number, name in enumerate(wanted) if name not in self.index)
            raise ValueError(f"{field}[{number}]: {name!r} is not an item of the catalogue") from None
        if len(set(indices)) < len(indices):
            distinct(field, wanted)
        return np.fromiter(indices, np.int64, len(indices))  # faster than np.array

    def added(self, ids: Sequence[Name], features: ArrayLike) -> Stock:
        """The stock with new items; ValueError if one is there already."""
        names, rows = self._checked(ids, features)
        for number, name in enumerate(names):
            if name in self.index:
                raise ValueError(f"ids[{number}]: {name!r} is in the catalogue already; use update() to change its features")
        free = self._free(names)
        size = max(len(self.features), int(free.max()) + 1)
        whole = np.zeros((size, self.dim))
        whole[: len(self.features)] = self.features
        whole[free] = rows
        index = {**self.index, **{name: int(row) for name, row in zip(names, free, strict=True)}}
        return self._with(whole, index)

    def _free(self, names: list[Name]) -> Ints:
        """The indices that new items get, the smallest that are free; a number is its own index where items have no ids."""
        free = np.setdiff1d(np.arange(len(self.features) + len(names)), self.alive).tolist()
        numbers = set() if self.named else {name for name in names if isinstance(name, WHOLE)}
        for number, name in enumerate(names):
            if name in numbers and name not in free:
                raise ValueError(
                    f"ids[{number}]: {name!r} is not a free index, by which items without ids go; the next one is {free[0]}"
                )
        others = iter([index for index in free if index not in numbers])
        return np.array([name if name in numbers else next(others) for name in names], np.int64)

    def updated(self, ids: Sequence[Name], features: ArrayLike) -> Stock:
        """The stock with other features for some items; ValueError if one is not there."""
        names, rows = self._checked(ids, features)
        whole = self.features.copy()
        whole[self.indices_of("ids", names)] = rows
        return self._with(whole, self.index)

    def removed(self, ids: Iterable[Name]) -> Stock:
        """The stock without some items; ValueError if one is not there."""
        indices = self.indices_of("ids", ids)
        whole = self.features.copy()
        whole[indices] = 0.0
        gone = set(indices.tolist())
        return self._with(whole, {name: row for name, row in self.index.items() if row not in gone})

    def _with(self, features: Floats, index: dict[Name, int]) -> Stock:
        return Stock(features, index, named=self.named, precise=self.precise)

    def _checked(self, ids: Sequence[Name], features: ArrayLike) -> tuple[list[Name], Floats]:
        if isinstance(ids, set | frozenset):
            raise ValueError("ids: a set has no order; give a list, one id per row of features")
        names = self.as_names("ids", ids)
        distinct("ids", names)
        rows = as_rows(features, self.dim)
        if len(rows) != len(names):
            raise ValueError(f"ids: {len(names)} ids for {len(rows)} rows of features; give one id per row")
        return names, rows

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of every item, its name, index and features."""
        if self.origin is not None:
            return self.origin.fingerprint
        head = repr((self.features.shape, self.named, list(self.index.items()))).encode()
        return hashlib.sha256(head + self.features.tobytes()).hexdigest()
