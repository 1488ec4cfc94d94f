"""``recurrank log verify``: check that the log is what was written, and that rows outside the log agree with it.

Three streaming passes, so that memory does not grow with the log, except for a bit per event and the open slates:

1. the events: none is missing, each is linked to the one before (``chain.py``), each slate is served once and ended once;
2. the rows of slates: for every few thousand events, compare sums of digests of the expected and of the actual rows;
3. only if these differ: find the rows.

Rankers, catalogues and snapshots have their own digests. If an older version began the log, its first part is not chained; it
is checked as far as possible.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from recurrank.serving import chain
from recurrank.serving.events import Event, Kind, clicks_fit, slate_size
from recurrank.serving.history import History
from recurrank.serving.store.base import Store
from recurrank.serving.store.records import Floor, Head, Row, Status, StoreError
from recurrank.serving.verify_rankers import MOST, Faults, Lives, check_rankers, read_or_tell

CHUNK = 10_000

BUCKET = 4_096
"""Number of events whose slates are compared by one sum."""

_ENDS = (Kind.LEARNED, Kind.DROPPED)


class Verified(NamedTuple):
    """The number of events, the first chained event, and the faults."""

    events: int
    chained: int
    faults: list[str]


def verify(store: Store, archive: str | None = None) -> Verified:
    """Check everything that can be checked without folding the log.

    The chain is followed from its first event in the archive, or, if old events were dropped, from where the log begins.
    """
    faults = Faults()
    for what in read_or_tell(faults, "the database", store.integrity):
        faults(what)
    log = _Log(store, faults, archive)
    for event, mark in log.events():
        log.check(event, mark)
    log.check_end()
    if log.read:
        _Slates(store, log, faults).compare()
        check_rankers(store, log.rankers, Lives(log.created, log.deleted, log.changed), faults)
    return Verified(log.last, log.first, faults)


class _Log:
    """The first pass."""

    def __init__(self, store: Store, faults: Faults, archive: str | None) -> None:
        self.store, self.faults, self.archive = store, faults, archive
        self.last, self.read = 0, True
        self.floor = (read_or_tell(faults, "the floor of the log", lambda: [store.floor()]) or [Floor()])[0]
        self.staying: dict[int, bytes] = {}  # digests of the events below the floor that are in the log
        self.untold: set[int] = set()  # events of slates whose rows cannot be checked without the archive
        head = read_or_tell(faults, "the head of the log", lambda: [store.head()])
        self.head: Head = head[0] if head else Head(0, chain.START, 1)
        self.first = self.head.first
        self.rankers = {row.number: row for row in read_or_tell(faults, "rankers", store.ranker_rows)}
        self.before = chain.START
        notes = read_or_tell(
            faults, "the note about replaced events", lambda: [chain.unpack_notes(store.noted_as(chain.REPLACED))]
        )
        self.replaced: dict[int, bytes] = notes[0] if notes else {}
        self.open: dict[int, tuple[int, bytes, bytes | None]] = {}  # open slates: ranker, claim about the id, clicks so far
        self.ended = bytearray()  # a bit per event
        self.created: dict[int, bytes] = {}  # rankers -> claim of their CREATED event
        self.deleted: set[int] = set()
        self.changed: dict[int, int] = {}  # rankers -> the last change of their items, rules or mode
        self.sums: defaultdict[int, int] = defaultdict(int)  # by bucket, of the expected rows of slates
        self.rows: Callable[[int, Row], None] | None = None  # receives the expected rows

    def events(self) -> Iterator[tuple[Event, bytes | None]]:
        """All events, with their links; stops with a fault if the store or the archive cannot be read."""
        try:
            if self.floor.seq:
                yield from self._below()
            after = self.floor.seq
            while rows := self.store.raw(after, CHUNK):
                for *fields, mark in rows:
                    yield Event(*fields), mark
                after = rows[-1][0]
                if not isinstance(after, int):
                    raise ValueError(f"event {after!r}: its number is not one")
        except (StoreError, ValueError) as error:
            self.faults(f"events after {self.last} cannot be read: {error}")
            self.read = False

    def _below(self) -> Iterator[tuple[Event, bytes | None]]:
        """The events below the floor: from the archive, or, if they were dropped, the few that stay in the log."""
        history, opened = History(self.store, self.archive), set(self.floor.open_events())
        stay = list(self._staying())
        self.staying = {row[0]: chain.seal([row]) for row in stay}
        for seq in sorted(opened - self.staying.keys()):
            self.faults(f"event {seq} is missing: it served a slate that was open when older events went")
        if chain.seal(row for row in stay if row[0] in opened) != self.floor.seal:
            self.faults("an event that served a slate that was open when older events went was altered")
        if history.complete:
            for row in history.archived():
                if row[0] in self.staying and chain.seal([row]) != self.staying[row[0]]:
                    self.faults(f"event {row[0]}: the log does not have it as the archive does")
                yield Event(*row[:-1]), row[-1]
            if self.before != self.floor.digest:
                self.faults(f"event {self.floor.seq}: the log does not follow from the archive")
            return
        self.last, self.before = self.floor.seq, self.floor.digest
        for *fields, mark in stay:
            event, claim = Event(*fields), (mark or b"")[chain.SIZE :]
            if event.kind == Kind.SERVED:
                self.untold.add(event.seq)
                if event.seq in opened:
                    self.open[event.seq] = (event.ranker, claim, None)
                else:
                    self._end(event.seq)
            elif event.kind in (Kind.CREATED, Kind.DELETED):
                self._follow(event, claim)
        self.changed |= self.floor.changes

    def _staying(self) -> Iterator[tuple[Any, ...]]:
        after = 0
        while rows := self.store.raw(after, CHUNK):
            for row in rows:
                if row[0] > self.floor.seq:
                    return
                yield row
            after = rows[-1][0]

    def check(self, event: Event, mark: bytes | None) -> None:
        """Check the next event."""
        if event.seq != self.last + 1:
            self.faults(f"events {self.last + 1} to {event.seq - 1} are missing")
        self.last = event.seq
        wrong = _wrong_type(event, mark)
        if wrong:
            self.faults(f"event {event.seq}: its {wrong} is of the wrong type")
            self.before = mark[: chain.SIZE] if isinstance(mark, bytes) else chain.START
            return
        claim = self._linked(event, mark)
        self._follow(event, claim)

    def _linked(self, event: Event, mark: bytes | None) -> bytes:
        """Check the link; returns its claim."""
        if mark is None:
            if event.seq >= self.first:
                self.faults(f"event {event.seq}: it is not linked to the one before")
            return b""
        claim = mark[chain.SIZE :]
        if event.seq < self.first:
            self.faults(f"event {event.seq}: it is linked, though the log says that links begin with event {self.first}")
        elif not chain.follows(self.before, event, mark, self.replaced):
            self.faults(f"event {event.seq}: it was altered, or is not the one that followed event {event.seq - 1}")
        self.before = mark[: chain.SIZE]
        return claim

    def _follow(self, event: Event, claim: bytes) -> None:
        """Apply an event to slates and rankers."""
        match event.kind:
            case Kind.SERVED:
                self.open[event.seq] = (event.ranker, claim, b"")
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
                    status = claim[0] if claim else ended
                    self._expect(event.served, slate[0], status, slate[1], event.clicks)
            case Kind.CREATED:
                self.created[event.ranker] = claim
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
        if not clicks_fit(event.clicks, k):
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
        """Add the expected row of a slate."""
        self.untold.discard(served)
        if self.living(ranker) and (served > self.floor.seq or served in self.staying):
            self.sums[served // BUCKET] += self.term(served, ranker, status, mark, clicks)
            if self.rows is not None:
                self.rows(served, Row(chain.digest_in(mark).hex(), served, ranker, status, clicks))

    def term(self, served: int, ranker: int, status: int, mark: bytes, clicks: bytes) -> int:
        """A row's term in a sum. Before the first chained event, neither the id nor the way a slate ended is known."""
        mark = chain.digest_in(mark)
        if served < self.first:
            mark, status = b"", int(bool(status))
        row = repr((served, ranker, status, mark, clicks)).encode()
        return int.from_bytes(hashlib.blake2b(row, digest_size=16).digest(), "big")

    def check_end(self) -> None:
        """Check the head of the log, after the last event."""
        if not self.read:
            return
        if self.last != self.head.seq:
            what = f"events {self.last + 1} to {self.head.seq} are missing" if self.last < self.head.seq else "more was added"
            self.faults(f"the log ends with event {self.last}, its head says {self.head.seq}: {what}")
        elif self.before != self.head.digest:
            self.faults(f"event {self.last}: the head of the log does not follow from it")
        for served, (ranker, mark, clicks) in self.open.items():
            if clicks is not None:  # otherwise only the archive has them
                self._expect(served, ranker, int(Status.OPEN), mark, clicks)


def _wrong_type(event: Event, mark: Any) -> str | None:
    """The name of a field of the wrong type; None if there is none."""
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

    def __init__(self, store: Store, log: _Log, faults: Faults) -> None:
        self.store, self.log, self.faults = store, log, faults
        self.sweeping = read_or_tell(faults, "notes", lambda: [store.to_sweep()]) != [None]

    def _rows(self) -> Iterator[Row]:
        after = ""
        while True:
            try:
                rows = self.store.slates(after, CHUNK)
            except StoreError as error:
                self.faults(f"slates after {after!r} cannot be read: {error}")
                return
            yield from (row for row in rows if _wrong_row(row) or not self._left_over(row))
            if not rows:
                return
            after = rows[-1].slate

    def _left_over(self, row: Row) -> bool:
        """Whether retention will remove the row (retention.py), or it cannot be checked without the archive."""
        gone = row.served <= self.log.floor.seq and row.served not in self.log.staying and row.status != Status.OPEN
        deleted = row.ranker in self.log.rankers and not self.log.living(row.ranker)
        return (self.sweeping and (gone or deleted)) or row.served in self.log.untold

    def _mark(self, row: Row) -> bytes:
        return chain.slate_digest(row.slate) if row.served >= self.log.first else b""

    def compare(self) -> None:
        """Compare sums of rows, and the rows themselves where the sums differ."""
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
        again = _Log(self.store, Faults(), self.log.archive)
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
        """How a slate's row differs from the log; None if it does not."""
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
