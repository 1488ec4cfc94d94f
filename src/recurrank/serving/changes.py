"""Changes of items, and the rules of all slates: their events in the log, and the items and rules that result.

A ranker's items are those that it was created with, changed by all ITEMS events so far. After many changes they are also
stored as a whole, so that a start does not have to read all of these events again.
"""

from __future__ import annotations

import functools
import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from recurrank._arrays import Floats, Ints
from recurrank.catalogue import Catalogue
from recurrank.rankers.request import Name, as_rows
from recurrank.rankers.stock import Stock
from recurrank.serving.events import Event, Kind
from recurrank.serving.store.base import Store

KEEP = 64
"""Changes after which the items are stored as a whole."""

Id = Annotated[str, Meta(min_length=1, max_length=256)]


class ItemChanges(msgspec.Struct, array_like=True):
    """The payload of an ITEMS event, applied in the order of the fields; features are concatenated 64-bit numbers."""

    remove: list[str]
    change: list[str]
    change_features: bytes
    add: list[str]
    add_features: bytes

    @property
    def empty(self) -> bool:
        return not (self.remove or self.change or self.add)


class SlateRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of all slates of a ranker."""

    exclude: Annotated[list[Id], Meta(max_length=10_000, description="items that are not shown")] = []
    pin: Annotated[
        dict[int, Id],
        Meta(max_length=1_000, description="what stands at which position, counted from 0, where it is a candidate"),
    ] = {}
    explore: Annotated[float, Meta(ge=0, le=1, description="the share of the usual exploration that is allowed")] = 1.0


NO_RULES = SlateRules()


class FirstStock(Stock):
    """The items that a ranker was created with, named by their ids, or else by their numbers as text; evaluated lazily.

    The items of most rankers never change, and then cost nothing.
    """

    origin: Catalogue

    def __init__(self, catalogue: Catalogue) -> None:
        self.origin, self.named, self.scales = catalogue, True, catalogue.scales

    def __len__(self) -> int:
        return len(self.origin)

    @functools.cached_property
    def _whole(self) -> Stock:
        return Stock.of(self.origin)

    @functools.cached_property
    def ids(self) -> Sequence[str]:  # type: ignore[override]
        return self.origin.ids or tuple(str(item) for item in range(len(self.origin)))

    @functools.cached_property
    def index(self) -> dict[Name, int]:  # type: ignore[override]
        return {name: item for item, name in enumerate(self.ids)}

    @property
    def features(self) -> Floats:  # type: ignore[override]
        return self._whole.features

    @property
    def dim(self) -> int:
        return self.origin.dim


class Stocked(NamedTuple):
    """The items and rules of a ranker after the event ``seq``, the last that changed them or the ranker's mode.

    ``items`` is the last event that changed the items.
    """

    stock: Stock
    rules: SlateRules = NO_RULES
    seq: int = 0
    items: int = 0

    def after(self, events: Iterable[Event]) -> Stocked:
        """The items and rules after these events as well; ValueError for an event that does not fit."""
        stock, rules, seq, items = self
        for event in events:
            if event.seq <= seq:
                continue
            try:
                if event.kind == Kind.ITEMS:
                    stock = changed(stock, msgspec.msgpack.decode(event.payload, type=ItemChanges))
                    items = event.seq
                elif event.kind == Kind.RULES:
                    rules = msgspec.msgpack.decode(event.payload, type=SlateRules)
            except (msgspec.MsgspecError, ValueError) as error:
                raise ValueError(f"event {event.seq}: it does not fit the items of this ranker ({error})") from error
            seq = event.seq
        return Stocked(stock, rules, seq, items)

    def pack(self) -> bytes:
        """The items and rules as bytes, with a digest."""
        buffer, (stock, rules, seq, items) = io.BytesIO(), self
        np.save(buffer, stock.features, allow_pickle=False)
        whole = msgspec.msgpack.encode(
            [seq, msgspec.to_builtins(rules, str_keys=True), list(stock.index.items()), buffer.getvalue(), items]
        )
        return hashlib.sha256(whole).digest() + whole

    @staticmethod
    def unpack(packed: bytes) -> Stocked:
        """The items and rules that were packed; ValueError for torn or altered bytes."""
        if hashlib.sha256(memoryview(packed)[32:]).digest() != packed[:32]:
            raise ValueError("items: torn or altered")
        seq, rules, index, features, *items = msgspec.msgpack.decode(memoryview(packed)[32:])
        stock = Stock(np.load(io.BytesIO(features), allow_pickle=False), dict(index), named=True)
        return Stocked(stock, msgspec.convert(rules, SlateRules, strict=False), seq, *items)


StockAt = Callable[[int], Stocked]
"""Returns a ranker's items and rules after an event."""


def changed(stock: Stock, changes: ItemChanges) -> Stock:
    """The items after changes; ValueError for changes that do not fit them."""
    if changes.remove:
        stock = stock.removed(changes.remove)
    if changes.change:
        stock = stock.updated(changes.change, _rows(changes.change_features, stock.dim))
    if changes.add:
        stock = stock.added(changes.add, _rows(changes.add_features, stock.dim))
    return stock


def left(before: Stock, after: Stock) -> list[int]:
    """The indices of items that were removed; other items may have them by now."""
    return [item for _, item in before.index.items() - after.index.items()]


def carried_counts(counts: Ints, gone: list[int], size: int) -> Ints:
    """Counts by index, reset for removed items and extended to ``size`` indices."""
    carried = np.concatenate([counts, np.zeros(size - len(counts), np.int64)])
    carried[gone] = 0
    return carried


def _rows(features: bytes, dim: int) -> Floats:
    return np.frombuffer(features, "<f8").reshape(-1, dim)


class Wanted(NamedTuple):
    """Requested changes of items."""

    add: Sequence[str] = ()
    add_features: Any = ()
    change: Sequence[str] = ()
    change_features: Any = ()
    remove: Sequence[str] = ()


def needed(stock: Stock, wanted: Wanted) -> ItemChanges:
    """The changes that a request still requires; ValueError, in one line, for impossible ones.

    Removing an unknown item, and adding an existing one with the same features, changes nothing: a repeated request has no
    further effect.
    """
    _once(wanted)
    new, other = as_rows(wanted.add_features, stock.dim) if wanted.add else None, None
    if wanted.change:
        other = as_rows(wanted.change_features, stock.dim)
    add = []
    for row, name in enumerate(wanted.add):
        item = stock.index.get(name)
        if item is None:
            add.append(row)
        elif new is not None and not np.array_equal(stock.features[item], new[row]):
            raise ValueError(f"add[{row}]: {name!r} is there already, with other features; change it instead")
    for row, name in enumerate(wanted.change):
        if name not in stock.index:
            raise ValueError(f"change[{row}]: {name!r} is not an item of this ranker; add it instead")
    change = [
        row for row, name in enumerate(wanted.change)
        if other is not None and not np.array_equal(stock.features[stock.index[name]], other[row])
    ]  # fmt: skip
    return ItemChanges(
        remove=[name for name in wanted.remove if name in stock.index],
        change=[wanted.change[row] for row in change],
        change_features=b"" if other is None else other[change].astype("<f8").tobytes(),
        add=[wanted.add[row] for row in add],
        add_features=b"" if new is None else new[add].astype("<f8").tobytes(),
    )


def _once(wanted: Wanted) -> None:
    """Raise ValueError unless every item is named only once."""
    named = {"add": wanted.add, "change": wanted.change, "remove": wanted.remove}
    if len(set().union(*named.values())) < sum(map(len, named.values())):
        seen: dict[str, str] = {}
        for field, names in named.items():
            for row, name in enumerate(names):
                if name in seen:
                    raise ValueError(f"{field}[{row}]: {name!r} is in {seen[name]}, too; name each item once")
                seen[name] = f"{field}[{row}]"


def stocked_at(store: Store, ranker: int, origin: Catalogue, seq: int | None = None) -> Stocked:
    """A ranker's items and rules after the event ``seq``, by default now."""
    start = Stocked(FirstStock(origin) if origin.ids is None else Stock.of(origin))
    for kept in (store.floor_items(ranker), store.kept_items(ranker)):
        if kept is not None:
            try:
                found = Stocked.unpack(kept)
                start = found if start.seq < found.seq and (seq is None or found.seq <= seq) else start
            except (ValueError, msgspec.MsgspecError):  # the log has the changes
                pass
    return start.after(store.changes(ranker, start.seq, seq))
