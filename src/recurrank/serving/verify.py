"""``recurrank log verify``: is the log what was written, and do the rows beside it say the same.

Three passes, each a stream, so that memory does not grow with the log but for a bit per event and the slates that are open:

1. the events: none missing, every one linked to the one before (``chain.py``), every slate served once and ended once;
2. the slates' rows: for every few thousand events the sum of digests of what the rows should be, and of what they are;
3. only where these differ: which row it is.

Rankers, catalogues and snapshots have digests of their own. Of a log that an older version began, the first part is not
chained; it is checked as far as it can be.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from recurrank.serving import chain
from recurrank.serving.events import Event, Kind, slate_size
from recurrank.serving.fold import intact, unpack_catalogue
from recurrank.serving.store.base import Head, Row, Status, Store, StoreError

CHUNK = 10_000

MOST = 100
"""Findings that are told one by one."""

BUCKET = 4_096
"""Events whose slates are compared together."""

_ENDS = (Kind.LEARNED, Kind.DROPPED)


class Verified(NamedTuple):
    """How many events there are, the first that is chained, and what is wrong."""

    events: int
    chained: int
    faults: list[str]


class _Faults(list[str]):
    """As many as anybody reads."""

    def __call__(self, what: str) -> None:
        if len(self) < MOST:
            self.append(what)
        elif len(self) == MOST:
            self.append("... and more")


def verify(store: Store) -> Verified:
    """Everything that can be found out without folding the log."""
    faults = _Faults()
    for what in _read(faults, "the database", store.integrity):
        faults(what)
    log = _Log(store, faults)
    for event, mark in log.events():
        log.check(event, mark)
    log.check_end()
    if log.read:
        _Slates(store, log, faults).compare()
        _check_rankers(store, log, faults)
    return Verified(log.last, log.first, faults)


def _read(faults: _Faults, what: str, read: Callable[[], list[Any]]) -> list[Any]:
    """What a store has; what it cannot read is a finding."""
    try:
        return read()
    except (StoreError, ValueError, TypeError) as error:
        faults(f"{what} cannot be read: {error}")
        return []


class _Log:
    """The first pass."""

    def __init__(self, store: Store, faults: _Faults) -> None:
        self.store, self.faults = store, faults
        self.last, self.read = 0, True
        head = _read(faults, "the head of the log", lambda: [store.head()])
        self.head: Head = head[0] if head else Head(0, chain.START, 1)
        self.first = self.head.first
        self.rankers = {row.number: row for row in _read(faults, "rankers", store.ranker_rows)}
        self.before = chain.START
        self.open: dict[int, tuple[int, bytes, bytes]] = {}  # slates that have not ended: ranker, id's mark, clicks so far
        self.ended = bytearray()  # a bit per event
        self.created: dict[int, bytes] = {}  # rankers -> what their CREATED event says
        self.deleted: set[int] = set()
        self.changed: dict[int, int] = {}  # rankers -> the last change of their items, rules or mode
        self.sums: defaultdict[int, int] = defaultdict(int)  # of the rows that slates should have, by bucket
        self.rows: Callable[[int, Row], None] | None = None  # who wants to know the rows themselves

    def events(self) -> Iterator[tuple[Event, bytes | None]]:
        """All events, with their links; it ends where the store cannot be read."""
        after = 0
        while True:
            try:
                found = self.store.raw(after, CHUNK)
            except StoreError as error:
                self.faults(f"events after {after} cannot be read: {error}")
                self.read = False
                return
            if not found:
                return
            for *fields, mark in found:
                yield Event(*fields), mark
            after = found[-1][0]
            if not isinstance(after, int):
                self.faults(f"event {after!r}: its number is not one")
                self.read = False
                return

    def check(self, event: Event, mark: bytes | None) -> None:
        """One event after the one before."""
        if event.seq != self.last + 1:
            self.faults(f"events {self.last + 1} to {event.seq - 1} are missing")
        self.last = event.seq
        wrong = _wrong_type(event, mark)
        if wrong:
            self.faults(f"event {event.seq}: its {wrong} is of the wrong type")
            self.before = mark[: chain.SIZE] if isinstance(mark, bytes) else chain.START
            return
        beside = self._linked(event, mark)
        self._follow(event, beside)

    def _linked(self, event: Event, mark: bytes | None) -> bytes:
        """Check the link; what it says about the rows beside the log."""
        if mark is None:
            if event.seq >= self.first:
                self.faults(f"event {event.seq}: it is not linked to the one before")
            return b""
        beside = mark[chain.SIZE :]
        if event.seq < self.first:
            self.faults(f"event {event.seq}: it is linked, though the log says that links begin with event {self.first}")
        elif chain.link(self.before, event, beside) != mark:
            self.faults(f"event {event.seq}: it was altered, or is not the one that followed event {event.seq - 1}")
        self.before = mark[: chain.SIZE]
        return beside

    def _follow(self, event: Event, beside: bytes) -> None:
        """What an event does to slates and rankers."""
        match event.kind:
            case Kind.SERVED:
                self.open[event.seq] = (event.ranker, beside, b"")
                self._check_size(event)
            case Kind.REPORTED | Kind.LEARNED | Kind.DROPPED:
                self._check_size(event)
                slate = self.open.get(event.served)
                if slate is None or slate[0] != event.ranker:
                    what = "ended before" if self._has_ended(event.served) else "was never served"
                    self.faults(f"event {event.seq}: its slate {what}")
                elif event.kind == Kind.REPORTED:
                    self.open[event.served] = (slate[0], slate[1], event.clicks)
                else:
                    del self.open[event.served]
                    self._end(event.served)
                    ended = int(Status.EXPIRED if event.kind == Kind.DROPPED else Status.LEARNED)
                    status = beside[0] if beside else ended
                    self._expect(event.served, slate[0], status, slate[1], event.clicks)
            case Kind.CREATED:
                self.created[event.ranker] = beside
            case Kind.DELETED:
                self.deleted.add(event.ranker)
            case Kind.ITEMS | Kind.RULES | Kind.ROLLOUT:
                self.changed[event.ranker] = event.seq
            case _:
                self.faults(f"event {event.seq}: {event.kind} is not a kind of event")

    def _check_size(self, event: Event) -> None:
        row = self.rankers.get(event.ranker)
        if row is None or not isinstance(row.positions, int):
            return
        k = row.positions
        if event.kind == Kind.SERVED and slate_size(event.payload, k) < 0:
            self.faults(f"event {event.seq}: its payload is not a slate of {k} positions")
        if len(event.clicks) not in (0, (k + 7) // 8):
            self.faults(f"event {event.seq}: its clicks are not those of {k} positions")

    def _end(self, seq: int) -> None:
        if len(self.ended) <= seq >> 3:
            self.ended.extend(bytes((seq >> 3) + 4096 - len(self.ended)))
        self.ended[seq >> 3] |= 1 << (seq & 7)

    def _has_ended(self, seq: int) -> bool:
        return 0 <= seq >> 3 < len(self.ended) and bool(self.ended[seq >> 3] >> (seq & 7) & 1)

    def living(self, ranker: int) -> bool:
        """Whether a ranker's slates have rows."""
        row = self.rankers.get(ranker)
        return row is not None and not row.deleted

    def _expect(self, served: int, ranker: int, status: int, mark: bytes, clicks: bytes) -> None:
        """A slate's row as it should be."""
        if self.living(ranker):
            self.sums[served // BUCKET] += self.term(served, ranker, status, mark, clicks)
            if self.rows is not None:
                self.rows(served, Row(mark.hex(), served, ranker, status, clicks))

    def term(self, served: int, ranker: int, status: int, mark: bytes, clicks: bytes) -> int:
        """A row in a sum. Before the first event that is chained neither the id nor how a slate ended can be told."""
        if served < self.first:
            mark, status = b"", int(bool(status))
        row = repr((served, ranker, status, mark, clicks)).encode()
        return int.from_bytes(hashlib.blake2b(row, digest_size=16).digest(), "big")

    def check_end(self) -> None:
        """After the last event."""
        if not self.read:
            return
        if self.last != self.head.seq:
            what = f"events {self.last + 1} to {self.head.seq} are missing" if self.last < self.head.seq else "more was added"
            self.faults(f"the log ends with event {self.last}, its head says {self.head.seq}: {what}")
        elif self.before != self.head.digest:
            self.faults(f"event {self.last}: the head of the log does not follow from it")
        for served, (ranker, mark, clicks) in self.open.items():
            self._expect(served, ranker, int(Status.OPEN), mark, clicks)


def _wrong_type(event: Event, mark: Any) -> str | None:
    """The field of an event that cannot be one."""
    for name in ("seq", "ranker", "kind", "served"):
        if not isinstance(getattr(event, name), int) or not -(1 << 63) <= getattr(event, name) < 1 << 63:
            return name
    for name in ("clicks", "payload"):
        if not isinstance(getattr(event, name), bytes):
            return name
    if not isinstance(event.at, float):
        return "at"
    return "link" if mark is not None and (not isinstance(mark, bytes) or len(mark) < chain.SIZE) else None


class _Slates:
    """The second pass, and the third."""

    def __init__(self, store: Store, log: _Log, faults: _Faults) -> None:
        self.store, self.log, self.faults = store, log, faults

    def _rows(self) -> Iterator[Row]:
        after = ""
        while True:
            try:
                found = self.store.slates(after, CHUNK)
            except StoreError as error:
                self.faults(f"slates after {after!r} cannot be read: {error}")
                return
            yield from found
            if not found:
                return
            after = found[-1].slate

    def _mark(self, row: Row) -> bytes:
        return chain.slate_mark(row.slate) if row.served >= self.log.first else b""

    def compare(self) -> None:
        """Sums of rows, and the rows themselves where the sums differ."""
        sums: defaultdict[int, int] = defaultdict(int)
        for row in self._rows():
            if _wrong_row(row):
                self.faults(f"slate {row.slate!r}: its row has a field of the wrong type")
                continue
            sums[row.served // BUCKET] += self.log.term(row.served, row.ranker, row.status, self._mark(row), row.clicks)
        differ = {bucket for bucket in {*sums, *self.log.sums} if sums[bucket] != self.log.sums[bucket]}
        if differ and self.log.read:
            self._find(set(sorted(differ)[:20]))

    def _find(self, buckets: set[int]) -> None:
        wanted: dict[int, Row] = {}
        again = _Log(self.store, _Faults())
        again.rows = lambda served, row: wanted.__setitem__(served, row) if served // BUCKET in buckets else None
        for event, mark in again.events():
            again.check(event, mark)
        again.check_end()
        for row in self._rows():
            if _wrong_row(row) or row.served // BUCKET not in buckets:
                continue
            should = wanted.pop(row.served, None)
            if should is None:
                self.faults(f"slate {row.slate!r}: its row says that event {row.served} served it, which did not, or another")
                continue
            different = self._different(row, should)
            if different:
                self.faults(f"slate {row.slate!r} of event {row.served}: its row says {different}")
        for served in itertools.islice(wanted, MOST):
            self.faults(f"the slate of event {served} has no row")

    def _different(self, row: Row, should: Row) -> str | None:
        """What a slate's row says that the log does not."""
        chained = row.served >= self.log.first
        if row.ranker != should.ranker:
            return f"ranker {row.ranker}, the log {should.ranker}"
        if row.clicks != should.clicks:
            return "other clicks than the log"
        if row.status != should.status if chained else bool(row.status) != bool(should.status):
            return f"status {row.status}, the log {should.status}"
        return "another id than it was served under" if chained and self._mark(row).hex() != should.slate else None


def _wrong_row(row: Row) -> bool:
    numbers = (row.served, row.ranker, row.status)
    return not (isinstance(row.slate, str) and isinstance(row.clicks, bytes) and all(isinstance(x, int) for x in numbers))


def _check_rankers(store: Store, log: _Log, faults: _Faults) -> None:
    """Rows, settings, catalogues and snapshots."""
    for number in sorted({*log.created, *log.rankers}):
        row = log.rankers.get(number)
        if row is None:
            faults(f"ranker {number}: its row is missing")
            continue
        if number not in log.created:
            faults(f"ranker {row.name!r}: no event created it")
        if bool(row.deleted) != (number in log.deleted) or row.deleted not in (0, 1):
            faults(f"ranker {row.name!r}: its row does not say whether it was deleted as the log does")
        if row.stock != log.changed.get(number, 0):
            faults(f"ranker {row.name!r}: its row does not say when its items, rules or mode were last changed as the log does")
        beside = log.created.get(number, b"")
        if beside and chain.ranker_mark(number, row.name, row.digest, row.positions) != beside[: chain.SIZE]:
            faults(f"ranker {row.name!r}: its row was altered")
        if not row.deleted:
            _read(faults, f"ranker {row.name!r}", functools.partial(_check_catalogue, store, row, beside, faults))
        elif row.config != b"":
            faults(f"ranker {row.name!r}: it was deleted, its settings were not")
    living = {number for number, row in log.rankers.items() if not row.deleted}
    parts = _read(faults, "catalogues", store.catalogue_parts)
    for what, found in (("catalogue", parts), ("snapshot", _read(faults, "snapshots", store.snapshot_places))):
        for stray in sorted({ranker for ranker, _ in found} - living, key=str):
            faults(f"there is a {what} of ranker {stray}, which is not there")
    for number in living:
        there = [part for ranker, part in parts if ranker == number]
        if there != list(range(len(there))) or not there:
            faults(f"ranker {log.rankers[number].name!r}: parts of its catalogue are missing")


def _check_catalogue(store: Store, row: Any, beside: bytes, faults: _Faults) -> list[Any]:
    packed = store.catalogue(row.number)
    if beside:
        if chain.catalogue_mark(row.config, [packed]) != beside[chain.SIZE :]:
            faults(f"ranker {row.name!r}: its settings or its catalogue were altered")
    elif hashlib.sha256(row.config + unpack_catalogue(packed).fingerprint.encode()).hexdigest() != row.digest:
        faults(f"ranker {row.name!r}: its settings or its catalogue were altered")
    for snapshot in store.snapshots(row.number):
        if not intact(row.number, *snapshot):
            faults(f"ranker {row.name!r}: the snapshot after event {snapshot.seq} is torn or altered; it will be passed over")
    return []
