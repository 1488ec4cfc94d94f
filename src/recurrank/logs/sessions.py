"""The table of sessions: queries, the items that were shown in order, and the clicks.

A session is one result page. Items and queries are numbered in the order of their first appearance; ``item_ids`` and
``query_ids`` name them. Pages may have different lengths: ``items`` is padded with -1 up to the longest.

A log of *counts* has no pages, only how often each item was shown and clicked at each position. It is sufficient for the
position-based model and for no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import apart
from recurrank.seeds import stream

Codes = NDArray[np.int32]
Marks = NDArray[np.uint8]

EMPTY = -1
"""In ``items``, a position beyond the end of a short page."""


@dataclass(frozen=True, eq=False)
class Sessions:
    """Pages that were shown, one row each.

    Attributes:
        query: number of the page's query; shape (n,).
        items: numbers of the items, first position first, -1 beyond the end of a page; shape (n, K).
        clicks: 1 where the item was clicked; shape (n, K).
        query_ids: names of the queries.
        item_ids: names of the items.
        time: seconds since 1970, if the log has them; shape (n,).
        propensity: the probability that this item was shown at this position, if the log has it; shape (n, K).
        joint: the probability of the whole page, if the log has it; shape (n,).
        conditional: the probability of each item given those above it, NaN where unknown; shape (n, K).
        seen: which positions were on the screen, if the log has it; shape (n, K).

    """

    query: Codes
    items: Codes
    clicks: Marks
    query_ids: Sequence[str]
    item_ids: Sequence[str]
    time: Floats | None = None
    propensity: Floats | None = None
    joint: Floats | None = None
    conditional: Floats | None = None
    seen: Bools | None = None

    def __len__(self) -> int:
        return len(self.query)

    @property
    def positions(self) -> int:
        """K, the length of the longest page."""
        return int(self.items.shape[1])

    @property
    def lengths(self) -> Ints:
        """The number of items on each page."""
        lengths: Ints = (self.items != EMPTY).sum(axis=1)
        return lengths

    def take(self, rows: Any) -> Sessions:
        """Some of the pages, by index or mask, with the same names and numbers."""
        return replace(
            self,
            query=self.query[rows],
            items=self.items[rows],
            clicks=self.clicks[rows],
            time=None if self.time is None else self.time[rows],
            propensity=None if self.propensity is None else self.propensity[rows],
            joint=None if self.joint is None else self.joint[rows],
            conditional=None if self.conditional is None else self.conditional[rows],
            seen=None if self.seen is None else self.seen[rows],
        )

    def on_screen(self) -> Sessions:
        """Cut each page at the first position that was neither seen nor clicked: the rest has no information on clicks.

        Pages of which nothing was seen are removed, and so are probabilities, which are those of whole pages.
        """
        if self.seen is None:
            return self
        examined = self.seen | (self.clicks > 0)
        items = np.where(np.minimum.accumulate(examined, axis=1), self.items, np.int32(EMPTY))
        clicks = np.where(items == EMPTY, 0, self.clicks).astype(self.clicks.dtype)
        cut = replace(self, items=items, clicks=clicks, propensity=None, joint=None, conditional=None, seen=None)
        return cut.take(examined[:, 0])

    def split(self, how: str = "time", share: float = 0.25, seed: int = 0) -> tuple[Sessions, Sessions]:
        """A part to fit to, and a part to test on with ``share`` of the pages.

        ``how`` is "time" (test on the last pages; in the order of the log if it has no times) or "random".
        """
        if how not in ("time", "random"):
            raise ValueError(f"split: {how!r} is unknown; choose time or random")
        if not 0 < share < 1:
            raise ValueError(f"share: {share} lies outside (0, 1); give the part of the pages to test on")
        tested = round(share * len(self))
        if not 0 < tested < len(self):
            raise ValueError(f"split: {len(self)} pages are too few to test on a share of {share:g} of them")
        if how == "random":
            order = stream(seed, "split").permutation(len(self))
        elif self.time is None:
            order = np.arange(len(self))
        else:
            order = np.argsort(self.time, kind="stable")
        return self.take(np.sort(order[:-tested])), self.take(np.sort(order[-tested:]))


@dataclass(frozen=True, eq=False)
class Counts:
    """How often items were shown and clicked, by query, item and position; one row per combination.

    Attributes:
        query: number of the query; shape (n,).
        item: number of the item; shape (n,).
        position: from 0; shape (n,).
        impressions: how often the item was shown there; shape (n,).
        clicks: how often it was clicked there; shape (n,).
        query_ids: names of the queries.
        item_ids: names of the items.

    """

    query: Codes
    item: Codes
    position: Codes
    impressions: Ints
    clicks: Ints
    query_ids: Sequence[str]
    item_ids: Sequence[str]

    def __len__(self) -> int:
        return len(self.query)

    @property
    def positions(self) -> int:
        """K, the number of positions."""
        return int(self.position.max()) + 1


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs that have attractions: an item for a query, or an item for all queries.

    Attributes:
        query: number of each pair's query, or 0 for all if attractions are shared; shape (P,).
        item: number of each pair's item; shape (P,).
        shared: whether an item has one attraction over all queries.

    """

    query: Codes
    item: Codes
    shared: bool

    def __len__(self) -> int:
        return len(self.item)


def pairs_of(sessions: Sessions, shared: bool = False) -> tuple[Pairs, Codes]:
    """The pairs in a log, and its pages in terms of them (shape of ``items``)."""
    if shared:
        count = len(sessions.item_ids)
        return Pairs(np.zeros(count, np.int32), np.arange(count, dtype=np.int32), True), sessions.items
    keys, coded = _number(sessions.query, sessions.items, len(sessions.item_ids))
    query, item = np.divmod(keys, len(sessions.item_ids))
    return Pairs(query.astype(np.int32), item.astype(np.int32), False), coded


def code_pairs(sessions: Sessions, pairs: Pairs, query_of: Codes, item_of: Codes) -> Codes:
    """Another log's pages in terms of these pairs; -2 for a pair that is not among them, -1 for no item.

    ``query_of`` and ``item_of`` translate the other log's numbers into those of the pairs, -1 for those that have none.
    """
    if pairs.shared:
        coded = np.where(item_of >= 0, item_of, UNSEEN).astype(np.int32)
        return np.where(sessions.items >= 0, coded[sessions.items], EMPTY).astype(np.int32)
    base = int(pairs.item.max(initial=0)) + 1
    keys = pairs.query.astype(np.int64) * base + pairs.item
    order = np.argsort(keys)
    return _look_up(keys[order], order.astype(np.int32), base, query_of[sessions.query], item_of, sessions.items)


UNSEEN = -2
"""In pages that a model is tested on, an item that it was not fitted to."""


def translate(theirs: Sequence[str], ours: Sequence[str]) -> Codes:
    """Our number of each of their names, or -1."""
    numbers = {name: number for number, name in enumerate(ours)}
    return np.fromiter((numbers.get(name, -1) for name in theirs), np.int32, len(theirs))


@apart
def _number(query: Codes, items: Codes, base: int) -> tuple[Ints, Codes]:
    """Number the (query, item) combinations by first appearance, with a hash table of at least twice as many slots as pairs.

    Most items are shown for one query, so the last query of an item and its number then are tried first.
    """
    shown_for, numbered = np.full(base, -1, np.int32), np.empty(base, np.int32)
    size = 1 << 12
    slots = np.full(size, -1, np.int32)
    keys = np.empty(size // 2, np.int64)
    coded = np.empty(items.shape, np.int32)
    count = 0
    for row in range(items.shape[0]):
        for k in range(items.shape[1]):
            if items[row, k] < 0:
                coded[row, k] = -1
                continue
            if shown_for[items[row, k]] == query[row]:
                coded[row, k] = numbered[items[row, k]]
                continue
            key = np.int64(query[row]) * base + items[row, k]
            slot = _slot(key, size)
            while slots[slot] >= 0 and keys[slots[slot]] != key:
                slot = (slot + 1) & (size - 1)
            if slots[slot] < 0:
                if count == len(keys):
                    size *= 2
                    more = np.empty(size // 2, np.int64)
                    more[:count] = keys
                    keys = more
                    slots = np.full(size, -1, np.int32)
                    for number in range(count):
                        moved = _slot(keys[number], size)
                        while slots[moved] >= 0:
                            moved = (moved + 1) & (size - 1)
                        slots[moved] = number
                    slot = _slot(key, size)
                    while slots[slot] >= 0:
                        slot = (slot + 1) & (size - 1)
                slots[slot] = count
                keys[count] = key
                count += 1
            coded[row, k] = slots[slot]
            shown_for[items[row, k]], numbered[items[row, k]] = query[row], slots[slot]
    return keys[:count].copy(), coded


@apart
def _slot(key: int, size: int) -> int:
    """The slot where a key's search begins: Fibonacci hashing."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    slot: int = np.int64(mixed >> np.uint64(20)) & (size - 1)  # type: ignore[assignment]
    return slot


@apart
def _look_up(keys: Ints, numbers: Codes, base: int, query: Codes, item_of: Codes, items: Codes) -> Codes:
    coded = np.empty(items.shape, np.int32)
    for row in range(items.shape[0]):
        for k in range(items.shape[1]):
            if items[row, k] < 0:
                coded[row, k] = -1
                continue
            item = item_of[items[row, k]]
            coded[row, k] = -2
            if item < 0 or query[row] < 0 or item >= base:
                continue
            key = np.int64(query[row]) * base + item
            index = np.searchsorted(keys, key)
            if index < len(keys) and keys[index] == key:
                coded[row, k] = numbers[index]
    return coded
