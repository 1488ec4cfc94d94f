"""Items that come and go: a catalogue each of whose items keeps its index for as long as it is there.

A stock never changes; ``added``, ``updated`` and ``removed`` give another one, so that copies of a ranker may share it. The
index of a removed item is given to one that comes later. Slates of requests carry the features of what they showed: their
answers are right whatever has become of the items. The service keeps the ids of what other slates showed.
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
from recurrank.rankers.request import Name, as_rows, distinct, listed


class Stock(Catalogue):
    """A catalogue with gaps.

    Attributes:
        features: one row per index, float64; the rows of absent items are zero.
        index: of every item, by its name: its id, or its index where the first catalogue had no ids.

    """

    features: Floats
    origin: Catalogue | None = None  # what it is still equal to

    def __init__(self, features: Floats, index: dict[Name, int], *, named: bool) -> None:
        self.features, self.index, self.named = features, index, named
        self.scales = np.ones(features.shape[1])

    @classmethod
    def empty(cls, dim: int) -> Stock:
        """No items."""
        return cls(np.zeros((0, dim)), {}, named=True)

    @classmethod
    def of(cls, catalogue: Catalogue) -> Stock:
        """The items of a catalogue."""
        if isinstance(catalogue, Stock):
            return catalogue
        names = range(len(catalogue)) if catalogue.ids is None else catalogue.ids
        index = {name: place for place, name in enumerate(names)}
        features = np.ascontiguousarray(catalogue.features, np.float64)
        if not np.isfinite(features).all():
            raise ValueError("features: not all are finite numbers")
        stock = cls(features, index, named=catalogue.ids is not None)
        stock.origin = catalogue
        return stock

    def __len__(self) -> int:
        return len(self.index)

    @functools.cached_property
    def names(self) -> dict[int, Name]:
        """The name of every index in use."""
        return {place: name for name, place in self.index.items()}

    @functools.cached_property
    def ids(self) -> Sequence[str] | None:  # type: ignore[override]
        """By index, with an empty one where there is no item."""
        return tuple(str(self.names.get(place, "")) for place in range(len(self.features))) if self.named else None

    @functools.cached_property
    def alive(self) -> Ints:
        """The indices of all items, ascending."""
        return np.sort(np.fromiter(self.index.values(), np.int64, len(self.index)))

    def places(self, field: str, names: Iterable[Name]) -> Ints:
        """The indices of items; ValueError for a name that is unknown or repeated."""
        asked = names if type(names) is list else listed(field, names)
        try:
            found = operator.itemgetter(*asked)(self.index) if len(asked) > 1 else [self.index[name] for name in asked]
        except (KeyError, TypeError):
            distinct(field, asked)
            place, name = next((place, name) for place, name in enumerate(asked) if name not in self.index)
            raise ValueError(f"{field}[{place}]: {name!r} is not an item of the catalogue") from None
        if len(set(found)) < len(found):
            distinct(field, asked)
        return np.fromiter(found, np.int64, len(found))  # faster than np.array

    def added(self, ids: Sequence[Name], features: ArrayLike) -> Stock:
        """With new items; ValueError if one is there already."""
        names, rows = self._checked(ids, features)
        for place, name in enumerate(names):
            if name in self.index:
                raise ValueError(f"ids[{place}]: {name!r} is in the catalogue already; use update() to change its features")
        free = np.setdiff1d(np.arange(len(self.features) + len(names)), self.alive)[: len(names)]
        size = max(len(self.features), int(free[-1]) + 1)
        whole = np.zeros((size, self.dim))
        whole[: len(self.features)] = self.features
        whole[free] = rows
        index = {**self.index, **{name: int(place) for name, place in zip(names, free, strict=True)}}
        return Stock(whole, index, named=self.named)

    def updated(self, ids: Sequence[Name], features: ArrayLike) -> Stock:
        """With other features for items that are there."""
        names, rows = self._checked(ids, features)
        whole = self.features.copy()
        whole[self.places("ids", names)] = rows
        return Stock(whole, self.index, named=self.named)

    def removed(self, ids: Iterable[Name]) -> Stock:
        """Without some items; ValueError if one is not there."""
        places = self.places("ids", ids)
        whole = self.features.copy()
        whole[places] = 0.0
        gone = set(places.tolist())
        return Stock(whole, {name: place for name, place in self.index.items() if place not in gone}, named=self.named)

    def _checked(self, ids: Sequence[Name], features: ArrayLike) -> tuple[list[Name], Floats]:
        names = listed("ids", ids)
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
