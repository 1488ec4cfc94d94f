"""Items that come and go, for rankers of a whole catalogue: ``add``, ``update``, ``remove``, as rankers of requests have them.

An item keeps its index while it is there; an index that has become free is given to an item that comes later. Where the
catalogue has ids, items go by their ids, otherwise by their indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Ints
from recurrank.rankers.ranker import Ranker
from recurrank.rankers.request import Name
from recurrank.rankers.stock import Stock

TIMES, LARGEST = 1e6, 1e100
"""A new item's features are at most TIMES as large as all before, or LARGEST if those were zero: what was learned is moved to
coordinates in which all items are of one size."""


class Restocking(Ranker):
    """A ranker whose catalogue may change. An algorithm says in ``begin_with`` what it keeps."""

    items_change: ClassVar[bool] = True

    def add(self, ids: Sequence[Name], features: ArrayLike) -> None:
        """Add items to the catalogue; ValueError, and no change, if one is there already."""
        self._change(Stock.of(self.catalogue).added(ids, features))

    def update(self, ids: Sequence[Name], features: ArrayLike) -> None:
        """Change the features of items of the catalogue."""
        self._change(Stock.of(self.catalogue).updated(ids, features))

    def remove(self, ids: Iterable[Name]) -> None:
        """Remove items, which are not shown again; ValueError, and no change, if fewer are left than positions."""
        self._change(Stock.of(self.catalogue).removed(ids))

    def _change(self, stock: Stock) -> None:
        self.check_scale(stock)
        self.restock(stock)

    @property
    def restocked(self) -> bool:
        """Whether items have come, changed or gone."""
        return isinstance(self.catalogue, Stock) and self.catalogue.origin is None

    @property
    def alive(self) -> Ints:
        """The indices of all items, ascending."""
        return self.catalogue.alive if isinstance(self.catalogue, Stock) else np.arange(len(self.catalogue))

    def restock(self, stock: Stock) -> None:
        """Rank the items of this stock, which is shared, not copied, from now on; ValueError if they are too few."""
        if len(stock) < self.positions:
            raise ValueError(f"ids: {len(stock)} items would be left for {self.positions} positions; leave at least as many")
        self.identity  # noqa: B018  # computed now, from the first catalogue
        self._settle()
        self.begin_with(stock)

    def check_scale(self, stock: Stock) -> None:
        """ValueError if one change would bring items that are far larger than all before."""
        before, after = (
            np.abs(features).max(axis=0).astype(np.float64) for features in (self.catalogue.features, stock.features)
        )
        large = after > np.where(before > 0, TIMES * np.minimum(before, LARGEST / TIMES), LARGEST)
        if large.any():
            raise ValueError(
                f"features: {after[large].max():g} is more than a million times as large as any before; give items of one scale"
            )

    def begin_with(self, stock: Stock) -> None:
        """Keep what can be kept, and rank these items."""
        raise NotImplementedError

    def carried(self, marks: Ints) -> Ints:
        """The marks of a slate from before a change of items, as a slate of today would have them; by default the same.

        A caller who knows that the items at its first positions are still those that it showed may learn from it by these.
        """
        return marks

    def unchanged(self, stock: Stock) -> Ints:
        """The indices of the items that are the same in this stock, ascending."""
        both = np.intersect1d(stock.alive, self.alive)
        same: Ints = both[(stock.features[both] == self.catalogue.features[both]).all(axis=1)]
        return same
