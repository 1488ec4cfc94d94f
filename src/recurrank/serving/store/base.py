"""What a store does, independent of its database.

All writes go through :meth:`Store.commit`: a group of operations in one transaction, after which all or none are on disk.
The store decides in that transaction what becomes of each slate, from the slate's row alone:

    served    open      a report, not final: its clicks are added; the slate stays open
              learned   a final report came, or its window closed after clicks or with unreported = "no_click"
              dropped   its window closed without any report

so that a repeated operation finds its work done, from whichever process it comes.

It also decides whether a slate may still be served: a slate that was drawn before the last change of the ranker's items, rules
or mode may not, whichever server drew it.
"""

from __future__ import annotations

import abc
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from recurrank.serving import chain
from recurrank.serving.events import Event, Kind, joined, pack_clicks, shown_in
from recurrank.serving.store.records import (
    Change,
    Changed,
    Expire,
    Floor,
    Head,
    Kept,
    Line,
    Living,
    Operation,
    Pin,
    RankerRow,
    Report,
    Row,
    Serve,
    Served,
    Snapshot,
    Status,
    StoredRanker,
)

_LEARNED, _EXPIRED = bytes([Status.LEARNED]), bytes([Status.EXPIRED])


class Store(abc.ABC):
    """A log and its rows. Subclasses read and write rows; this class decides."""

    shared = False
    """Whether other servers may write to the same database."""

    def __init__(self) -> None:
        self.late: Counter[int] = Counter()
        """By ranker, reports that came too late since this process started."""
        self.noted = 0
        """The newest event that this process knows of."""
        self.snapshots_wanted = 0
        """Rankers with new events should soon get a snapshot that covers this event."""

    @property
    def busy(self) -> bool:
        """Whether a transaction would probably have to wait for another one of this process."""
        return False

    def commit(self, operations: Sequence[Operation], wait: bool = True) -> list[Any]:
        """Execute operations in order, durably; returns for each: Served, Changed, a status, or the number of expired slates.

        Without ``wait``, raises :class:`Locked` if it would have to wait for another transaction.
        """
        with self.transaction(wait) as t:
            rows = self.rows(t, {o.slate for o in operations if isinstance(o, (Serve, Report))})
            expiring = self.rows_served(t, {seq for o in operations if isinstance(o, Expire) for seq in o.served})
            rows |= {row.slate: row for row in expiring}
            ids = {row.served: row.slate for row in expiring}
            known, changes = self.living(t), dict[int, int]()
            rows = {slate: row for slate, row in rows.items() if row.ranker in known}  # rows of deleted rankers are swept later
            before = dict(rows)
            events: list[Event] = []
            claims: list[bytes] = []  # one per event: see chain.py
            (last, digest, _), now = self.head(t), time.time()
            payloads: dict[int, bytes] = {}

            def note(
                ranker: int, kind: Kind, served: int = 0, clicks: bytes = b"", payload: bytes = b"", claim: bytes = b""
            ) -> int:
                seq = last + len(events) + 1
                events.append(Event(seq, ranker, int(kind), served, clicks, payload, now))
                claims.append(claim)
                return seq

            outcomes: list[Any] = []
            for operation in operations:
                match operation:
                    case Serve(slate, ranker, payload, stock):
                        row = rows.get(slate)
                        if ranker not in known:
                            outcomes.append(Served(None))
                        elif row is None and stock < known[ranker].stock:
                            outcomes.append(Served(None, stale=True))
                        elif row is None:
                            seq = note(ranker, Kind.SERVED, payload=payload, claim=chain.slate_mark(slate))
                            rows[slate] = Row(slate, seq, ranker, Status.OPEN, b"", payload[:4])
                            payloads[seq] = payload
                            outcomes.append(Served(payload))
                        elif row.ranker != ranker:
                            outcomes.append(Served(None))
                        else:
                            outcomes.append(Served(payloads.get(row.served) or self.payload(t, row.served)))
                    case Report(slate):
                        outcomes.append(self._reported(rows.get(slate), operation, known, rows, note))
                    case Expire(served, learn):
                        over = [rows[ids[seq]] for seq in served if seq in ids and ids[seq] in rows]
                        outcomes.append(sum(self._expired(row, learn, rows, note) for row in over))
                    case Change(ranker, kind, payload, after):
                        if ranker not in known or known[ranker].stock != after:
                            outcomes.append(Changed(0, gone=ranker not in known))
                        else:
                            changes[ranker] = note(ranker, kind, payload=payload)
                            known[ranker] = known[ranker]._replace(stock=changes[ranker])
                            outcomes.append(Changed(changes[ranker]))
            new = [row for slate, row in rows.items() if slate not in before]
            changed = [row for slate, row in rows.items() if slate in before and row != before[slate]]
            self.write(t, events, chain.links(digest, events, claims), new, changed)
            self.note_changes(t, changes)
        self.noted = max(self.noted, last + len(events))
        if "late" in outcomes:
            reports = zip(operations, outcomes, strict=True)
            self.late.update(rows[o.slate].ranker for o, outcome in reports if outcome == "late" and isinstance(o, Report))
        return outcomes

    @staticmethod
    def _reported(row: Row | None, report: Report, known: dict[int, Living], rows: dict[str, Row], note: Any) -> str:
        if row is None or report.ranker not in (None, row.ranker):
            return "unknown"
        positions = known[row.ranker].positions
        shown = shown_in(row.head, positions)
        if any(not 0 <= position < shown for position in (*report.clicks, *(report.seen or ()))):
            return "invalid"
        if row.status != Status.OPEN:
            return "duplicate" if row.status == Status.LEARNED else "late"
        bits = pack_clicks(positions, report.clicks)
        if report.seen is not None:
            bits += pack_clicks(positions, report.seen)
        together = joined(row.clicks, bits)
        if report.final:
            note(row.ranker, Kind.LEARNED, row.served, together, claim=_LEARNED)
            rows[row.slate] = row._replace(status=Status.LEARNED, clicks=together)
            return "learned"
        if together != row.clicks:  # a report without news is not an event
            note(row.ranker, Kind.REPORTED, row.served, together)
            rows[row.slate] = row._replace(clicks=together)
        return "open"

    @staticmethod
    def _expired(row: Row, learn: bool, rows: dict[str, Row], note: Any) -> int:
        if row.status != Status.OPEN:
            return 0
        kind = Kind.LEARNED if row.clicks or learn else Kind.DROPPED
        note(row.ranker, kind, row.served, row.clicks, claim=_EXPIRED if kind == Kind.LEARNED else b"")
        rows[row.slate] = row._replace(status=Status.EXPIRED)
        return 1

    # What a database must provide. ``t`` is what its transaction() yielded.

    @abc.abstractmethod
    def transaction(self, wait: bool = True) -> AbstractContextManager[Any]:
        """A transaction that appends: one at a time over all processes; it commits durably or raises StoreError.

        Waits for other transactions, at most two seconds for those of other processes; not at all without ``wait``.
        """

    @abc.abstractmethod
    def probe(self, size: int) -> None:
        """Write ``size`` bytes durably and delete them; StoreError if the store cannot be written."""

    @abc.abstractmethod
    def rows(self, t: Any, slates: set[str]) -> dict[str, Row]:
        """The existing rows of these slates, by id."""

    @abc.abstractmethod
    def rows_served(self, t: Any, served: set[int]) -> list[Row]:
        """The rows of the open slates that these events served."""

    @abc.abstractmethod
    def payload(self, t: Any, served: int) -> bytes | None:
        """The slate of a SERVED event; None if it is not in the log any more."""

    @abc.abstractmethod
    def head(self, t: Any = None) -> Head:
        """The end of the chain. New events follow it even if the last events were removed, so that a gap remains visible."""

    @abc.abstractmethod
    def living(self, t: Any) -> dict[int, Living]:
        """All rankers that are not deleted, by number."""

    @abc.abstractmethod
    def note_changes(self, t: Any, changes: dict[int, int]) -> None:
        """Record these events as the last changes of their rankers' items, rules or mode."""

    @abc.abstractmethod
    def write(self, t: Any, events: list[Event], links: list[bytes], new: list[Row], changed: list[Row]) -> None:
        """Append events with their links, move the head, add and change rows."""

    @abc.abstractmethod
    def events(self, after: int, limit: int, ranker: int | None = None) -> list[Event]:
        """The events after ``after``, at most ``limit``; events about a served slate have it as their payload."""

    @abc.abstractmethod
    def changes(self, ranker: int, after: int, until: int | None = None) -> list[Event]:
        """The events after ``after`` and up to ``until`` that changed a ranker's items, rules or mode, in order."""

    @abc.abstractmethod
    def newest(self) -> int:
        """The seq of the last event, for readers outside a transaction."""

    @abc.abstractmethod
    def open_slates(self) -> dict[int, list[int]]:
        """By ranker, the events that served its open slates, in order."""

    @abc.abstractmethod
    def note(self, name: str, value: bytes) -> None:
        """Store a small value under a name."""

    @abc.abstractmethod
    def noted_as(self, name: str) -> bytes | None:
        """The value that :meth:`note` stored."""

    @abc.abstractmethod
    def create(self, name: str, config: bytes, digest: str, positions: int, catalogue: Iterable[bytes]) -> StoredRanker | None:
        """Create a ranker; None if another one has the name. Creating the same one again has no effect."""

    @abc.abstractmethod
    def delete(self, name: str) -> bool:
        """Delete a ranker, except its events and, until :meth:`sweep`, its slates; False if there is none of that name."""

    @abc.abstractmethod
    def rankers(self) -> list[StoredRanker]:
        """All rankers that are not deleted, ordered by number."""

    @abc.abstractmethod
    def catalogue(self, ranker: int) -> bytes:
        """The catalogue that was given to :meth:`create`, its parts joined."""

    @abc.abstractmethod
    def keep(self, ranker: int, snapshot: Snapshot, retain: int = 2) -> None:
        """Store a snapshot, and delete all but the ``retain`` newest and the pinned ones."""

    @abc.abstractmethod
    def keep_items(self, ranker: int, items: bytes) -> None:
        """Store a ranker's items as a whole, replacing those stored before."""

    @abc.abstractmethod
    def kept_items(self, ranker: int) -> bytes | None:
        """The items that :meth:`keep_items` stored."""

    @abc.abstractmethod
    def snapshots(self, ranker: int) -> Iterator[Snapshot]:
        """A ranker's snapshots, newest first."""

    @abc.abstractmethod
    def drop_snapshots(self, rankers: list[int]) -> None:
        """Delete all snapshots of these rankers, and the checkpoint (checkpoint.py), in one transaction."""

    # The removal of old events (retention.py).

    @abc.abstractmethod
    def maintaining(self, patience: float = 0.0) -> AbstractContextManager[bool]:
        """The exclusive right to raise the floor, erase or write to the archive; False if it is taken for ``patience``."""

    @abc.abstractmethod
    def floor(self) -> Floor:
        """How far back the log reaches."""

    @abc.abstractmethod
    def pins(self) -> list[Kept]:
        """All snapshots with their pins, ordered by ranker and event."""

    @abc.abstractmethod
    def pin(self, snapshots: dict[int, int], pin: Pin) -> None:
        """Pin one snapshot of each of these rankers; their other snapshots with the same pin lose it."""

    @abc.abstractmethod
    def snapshot(self, ranker: int, seq: int) -> Snapshot | None:
        """A ranker's snapshot after event ``seq``, if it exists."""

    @abc.abstractmethod
    def raise_floor(self, floor: Floor, verified: dict[int, int], items: dict[int, bytes]) -> None:
        """Let the log begin later, in one transaction; also pin verified snapshots and store items at the floor."""

    @abc.abstractmethod
    def floor_items(self, ranker: int) -> bytes | None:
        """The items of a ranker at the floor, if they had changed by then."""

    @abc.abstractmethod
    def lines(self, after: int, until: int, limit: int) -> list[Line]:
        """The events in the log after ``after`` and up to ``until``, at most ``limit``."""

    @abc.abstractmethod
    def remove(self, events: list[int], slates: list[tuple[str, int]]) -> None:
        """Remove events and rows of slates in one transaction, which a power cut may undo.

        A slate is given by its id and the event that served it: a row stays if a newer slate has reused its id.
        """

    @abc.abstractmethod
    def to_sweep(self) -> bytes | None:
        """A token that changes whenever there may be more rows of slates to sweep; None if there are none."""

    @abc.abstractmethod
    def sweep(self, after: str, limit: int) -> str | None:
        """Remove rows without a ranker or an event among ``limit`` rows after an id; returns the last id, None at the end."""

    @abc.abstractmethod
    def swept(self, seen: bytes) -> None:
        """Record that all rows have been swept, if :meth:`to_sweep` still returns ``seen``."""

    @abc.abstractmethod
    def ask_sweep(self) -> None:
        """Record that there may be rows to sweep."""

    @abc.abstractmethod
    def replace_slates(self, payloads: dict[int, bytes], floor: Floor | None = None) -> None:
        """Replace the slates of SERVED events, and optionally the floor, durably."""

    @abc.abstractmethod
    def scrub(self) -> None:
        """Remove replaced data from the database's files; StoreError if another transaction prevents it."""

    @abc.abstractmethod
    def size(self) -> int:
        """Size of the store on disk, in bytes."""

    def disk(self) -> tuple[int, int] | None:
        """Total and free bytes of the disk with the store's file; None if it is not a file."""
        return None

    # Everything as it is on disk, for verification (verify.py).

    def integrity(self) -> list[str]:
        """Faults that the database itself finds."""
        return []

    def damage(self) -> list[str]:
        """:meth:`integrity` in less time: checks pages alone, without comparing them to indexes."""
        return []

    @abc.abstractmethod
    def raw(self, after: int, limit: int) -> list[tuple[Any, ...]]:
        """The events after ``after``, at most ``limit``: fields as they are stored, and the link."""

    @abc.abstractmethod
    def slates(self, after: str, limit: int) -> list[Row]:
        """The rows of slates after an id, ordered by id, at most ``limit``."""

    @abc.abstractmethod
    def ranker_rows(self) -> list[RankerRow]:
        """The rows of all rankers, ordered by number."""

    @abc.abstractmethod
    def catalogue_parts(self) -> list[tuple[int, int]]:
        """Ranker and part of all parts of catalogues, in order."""

    @abc.abstractmethod
    def snapshot_places(self) -> list[tuple[int, int]]:
        """Ranker and event of all snapshots, in order."""

    @abc.abstractmethod
    def lease(self) -> bool:
        """Try to get or keep the lease, the right to learn; always True if the store is not shared."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the store and release its locks."""
