"""All events from the first on: those up to the floor from the archive, the others from the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recurrank.catalogue import Catalogue
from recurrank.serving import chain
from recurrank.serving.archive import Archive
from recurrank.serving.changes import FirstStock, Stocked, stocked_at
from recurrank.serving.events import Event, Kind
from recurrank.serving.fold import Fold, new_fold, unpack_catalogue
from recurrank.serving.request_fold import RequestFold
from recurrank.serving.restocking_fold import RestockingFold
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store.base import Store
from recurrank.serving.store.records import Snapshot, StoredRanker

CHUNK = 10_000


class History:
    """The events of a store and its archive.

    Args:
        store: the log.
        archive: address of its archive, by default the one that the store names.

    Attributes:
        floor: how far back the log reaches.
        complete: whether all events are available.

    """

    def __init__(self, store: Store, archive: str | None = None) -> None:
        self.store, self.floor = store, store.floor()
        where = archive or self.floor.archive
        self._archive = Archive(where) if where and self.floor.seq else None
        self.complete = self.floor.seq == 0 or self._archive is not None

    def raw(self) -> Iterator[tuple[Any, ...]]:
        """All events as they are stored, with their links. ValueError if not all are available."""
        yield from self.archived()
        yield from self._logged(self.floor.seq)

    def events(self, ranker: int | None = None) -> Iterator[Event]:
        """All events, or those of a ranker, with their slates as payloads."""
        shown: dict[int, bytes] = {}  # slates that are open
        for *fields, _ in self.archived(ranker):
            event = Event(*fields)
            if event.kind == Kind.SERVED:
                shown[event.seq] = event.payload
            elif event.served:
                event = event._replace(payload=shown.get(event.served, b""))
                if event.kind != Kind.REPORTED:
                    shown.pop(event.served, None)
            yield event
        after = self.floor.seq
        while events := self.store.events(after, CHUNK, ranker):
            yield from events
            after = events[-1].seq

    def told(self) -> Iterator[tuple[Event, str | None]]:
        """All available events, with their slates as payloads, and the ids of these slates."""
        shown: dict[int, tuple[bytes, str | None]] = {}  # slates that are open
        older: dict[int, str] | None = None  # ids of slates whose events lack them
        for *fields, link in self.raw() if self.complete else self._logged(0):
            event, slate = Event(*fields), None
            if event.kind == Kind.SERVED:
                slate = chain.slate_of(link[chain.SIZE :]) if link else None
                if slate is None:
                    older = dict(self._rows()) if older is None else older
                    slate = older.get(event.seq)
                shown[event.seq] = (event.payload, slate)
            elif event.served:
                payload, slate = shown.get(event.served, (b"", None))
                event = event._replace(payload=payload)
                if event.kind != Kind.REPORTED:
                    shown.pop(event.served, None)
            yield event, slate

    def _rows(self) -> Iterator[tuple[int, str]]:
        after = ""
        while rows := self.store.slates(after, CHUNK):
            yield from ((row.served, row.slate) for row in rows)
            after = rows[-1].slate

    def _logged(self, after: int) -> Iterator[tuple[Any, ...]]:
        while rows := self.store.raw(after, CHUNK):
            yield from rows
            after = rows[-1][0]

    def archived(self, ranker: int | None = None) -> Iterator[tuple[Any, ...]]:
        """The events up to the floor, or those of a ranker, as they are stored. ValueError if they were dropped."""
        if not self.complete:
            raise ValueError(f"store: the events up to {self.floor.seq:,} were dropped")
        if self._archive is not None:
            yield from self._archive.events(self.floor.seq, ranker)


def load_fold(store: Store, stored: StoredRanker, spec: LoggedSpec, catalogue: Catalogue, snapshot: Snapshot) -> Fold:
    """The fold that a snapshot holds; ValueError if it cannot be used."""

    def stock_at(seq: int) -> Stocked:
        return stocked_at(store, stored.number, catalogue, seq)

    if spec.takes_requests:
        return RequestFold.restore(snapshot.state, stock_at, spec.rollout)
    if spec.items_change:
        return RestockingFold.restore(snapshot.state, FirstStock(catalogue), stock_at, spec.streams, spec.rollout)
    return Fold.load(snapshot.state, catalogue, spec.streams, spec.rollout)


def agrees(store: Store, stored: StoredRanker, fold: Fold, snapshot: Snapshot) -> bool:
    """Whether a snapshot equals a fold of the log, in this version's format: older ones kept more of some states."""
    state = fold.save()
    if state == snapshot.state:
        return True
    spec, catalogue = LoggedSpec.unpack(stored.config), unpack_catalogue(store.catalogue(stored.number))
    try:
        return load_fold(store, stored, spec, catalogue, snapshot).save() == state
    except ValueError:  # of another format
        return False


def first_fold(store: Store, stored: StoredRanker, spec: LoggedSpec, catalogue: Catalogue) -> Fold:
    """The fold of a ranker without a usable snapshot: before its first event, or, if the log does not reach back so far, the
    fold of the archived events.
    """
    fold, history = new_fold(spec, catalogue), History(store)
    if history.floor.seq:
        if not history.complete:
            raise ValueError(
                f"none of its snapshots can be used, and its events up to {history.floor.seq:,} were dropped; restore a backup"
            )
        part: list[Event] = []
        for event in history.events(stored.number):
            if event.seq > history.floor.seq:
                break
            part.append(event)
            if len(part) == CHUNK:
                fold.apply(part)
                part = []
        fold.apply(part)
    return fold
