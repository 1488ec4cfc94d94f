"""What a store does, whichever database is behind it.

All writes go through :meth:`Store.commit`: a group of operations in one transaction, after which they are on disk or none is.
The store decides in that transaction what becomes of every slate, from the slate's row alone:

    served    open      a report, not final: its clicks are added; the slate stays open
              learned   a final report came, or its window closed after clicks or with unreported = "no_click"
              dropped   its window closed and nobody had reported anything

so that an operation that is repeated finds its work done, from whichever process it comes.

It also decides whether a slate may still be served: one that was drawn before the last change of the ranker's items, rules or
mode may not, whichever server drew it.
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
    """A log with what hangs on it. Subclasses say how rows are read and written; the decisions are here."""

    shared = False
    """Whether other servers may write to the same database."""

    def __init__(self) -> None:
        self.late: Counter[int] = Counter()
        """Reports that came too late, by ranker, since this process began."""
        self.noted = 0
        """The newest event that this process has heard of."""
        self.snapshots_wanted = 0
        """The event that rankers' newest snapshots should cover, if they have news."""

    @property
    def busy(self) -> bool:
        """Whether a transaction would have to wait for another one of this process, as far as it is known."""
        return False

    def commit(self, operations: Sequence[Operation], wait: bool = True) -> list[Any]:
        """Do all of them, in order, durably; what became of each: Served, Changed, a status' name, or how many expired.

        Without ``wait``, :class:`Locked` where another transaction would have to be waited for.
        """
        with self.transaction(wait) as t:
            rows = self.rows(t, {o.slate for o in operations if isinstance(o, (Serve, Report))})
            expiring = self.rows_served(t, {seq for o in operations if isinstance(o, Expire) for seq in o.served})
            rows |= {row.slate: row for row in expiring}
            ids = {row.served: row.slate for row in expiring}
            known, changes = self.living(t), dict[int, int]()
            rows = {slate: row for slate, row in rows.items() if row.ranker in known}  # those of deleted rankers are swept
            before = dict(rows)
            events: list[Event] = []
            claims: list[bytes] = []  # what each says about the rows beside the log: see chain.py
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
        if together != row.clicks:  # a report without anything new is not an event
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

    # What a database has to offer. ``t`` is what its transaction() gave.

    @abc.abstractmethod
    def transaction(self, wait: bool = True) -> AbstractContextManager[Any]:
        """A transaction that appends: one at a time over all processes; it commits durably or raises StoreError.

        Another one is waited for, for two seconds at most where it is another process's. Without ``wait``, not at all.
        """

    @abc.abstractmethod
    def probe(self, size: int) -> None:
        """Write so many bytes durably and forget them; StoreError where the store cannot be written."""

    @abc.abstractmethod
    def rows(self, t: Any, slates: set[str]) -> dict[str, Row]:
        """The rows of these slates, as far as there are any."""

    @abc.abstractmethod
    def rows_served(self, t: Any, served: set[int]) -> list[Row]:
        """The rows of the slates that these events served, as far as they are open."""

    @abc.abstractmethod
    def payload(self, t: Any, served: int) -> bytes | None:
        """The slate of a SERVED event; None where it is not in the log any more."""

    @abc.abstractmethod
    def head(self, t: Any = None) -> Head:
        """The end of the chain. New events follow it, whatever the log holds: where its last ones were removed, a gap shows."""

    @abc.abstractmethod
    def living(self, t: Any) -> dict[int, Living]:
        """Every ranker that has not been deleted."""

    @abc.abstractmethod
    def note_changes(self, t: Any, changes: dict[int, int]) -> None:
        """The last change of these rankers' items, rules or mode is that of these events."""

    @abc.abstractmethod
    def write(self, t: Any, events: list[Event], links: list[bytes], new: list[Row], changed: list[Row]) -> None:
        """Append events with their links, which move the head; add and change rows."""

    @abc.abstractmethod
    def events(self, after: int, limit: int, ranker: int | None = None) -> list[Event]:
        """The events after a place, at most so many; payloads are those of the slates concerned."""

    @abc.abstractmethod
    def changes(self, ranker: int, after: int, until: int | None = None) -> list[Event]:
        """The events that changed a ranker's items, rules or mode, after one event and up to another, in order."""

    @abc.abstractmethod
    def newest(self) -> int:
        """The seq of the last event, for readers outside a transaction."""

    @abc.abstractmethod
    def open_slates(self) -> dict[int, list[int]]:
        """The slates that are open, by ranker: the events that served them, in order."""

    @abc.abstractmethod
    def note(self, name: str, value: bytes) -> None:
        """Keep something small under a name."""

    @abc.abstractmethod
    def noted_as(self, name: str) -> bytes | None:
        """What :meth:`note` kept."""

    @abc.abstractmethod
    def create(self, name: str, config: bytes, digest: str, positions: int, catalogue: Iterable[bytes]) -> StoredRanker | None:
        """A new ranker; None when the name is taken by another one. The same one again is neither an error nor an event."""

    @abc.abstractmethod
    def delete(self, name: str) -> bool:
        """Forget a ranker but for its events and, until :meth:`sweep`, its slates; False when there is none of that name."""

    @abc.abstractmethod
    def rankers(self) -> list[StoredRanker]:
        """Those that are not deleted, by number."""

    @abc.abstractmethod
    def catalogue(self, ranker: int) -> bytes:
        """What was given to :meth:`create`, end to end."""

    @abc.abstractmethod
    def keep(self, ranker: int, snapshot: Snapshot, retain: int = 2) -> None:
        """Store a snapshot and forget all but the newest few and those that are pinned."""

    @abc.abstractmethod
    def keep_items(self, ranker: int, items: bytes) -> None:
        """Store a ranker's items as a whole, in place of those that were stored before."""

    @abc.abstractmethod
    def kept_items(self, ranker: int) -> bytes | None:
        """What :meth:`keep_items` stored."""

    @abc.abstractmethod
    def snapshots(self, ranker: int) -> Iterator[Snapshot]:
        """Newest first."""

    @abc.abstractmethod
    def drop_snapshots(self, rankers: list[int]) -> None:
        """Forget all snapshots of these rankers, and how far snapshots reach (checkpoint.py), in one transaction."""

    # What is old and goes (retention.py).

    @abc.abstractmethod
    def maintaining(self, patience: float = 0.0) -> AbstractContextManager[bool]:
        """Whether nobody else raises the floor, erases or writes to the archive meanwhile; others are waited for so long."""

    @abc.abstractmethod
    def floor(self) -> Floor:
        """How far back the log reaches."""

    @abc.abstractmethod
    def pins(self) -> list[Kept]:
        """Which snapshots there are, with their pins, in order."""

    @abc.abstractmethod
    def pin(self, snapshots: dict[int, int], pin: Pin) -> None:
        """Pin one snapshot of each of these rankers; others of them that had the same pin lose it."""

    @abc.abstractmethod
    def snapshot(self, ranker: int, seq: int) -> Snapshot | None:
        """The snapshot after an event, if it is there."""

    @abc.abstractmethod
    def raise_floor(self, floor: Floor, verified: dict[int, int], items: dict[int, bytes]) -> None:
        """Let the log begin later, in one transaction: snapshots that take its place, and items where these change."""

    @abc.abstractmethod
    def floor_items(self, ranker: int) -> bytes | None:
        """What the items of a ranker were at the floor, if they had changed by then."""

    @abc.abstractmethod
    def lines(self, after: int, until: int, limit: int) -> list[Line]:
        """The events after one and up to another that are there, at most so many."""

    @abc.abstractmethod
    def remove(self, events: list[int], slates: list[tuple[str, int]]) -> None:
        """Remove events and slates' rows, together; after a power cut they may be there again.

        A slate is an id and the event that served it: a row whose id another ranker's slate has taken since stays.
        """

    @abc.abstractmethod
    def to_sweep(self) -> bytes | None:
        """What changes whenever there may be more slates' rows without a ranker or an event; None where there are none."""

    @abc.abstractmethod
    def sweep(self, after: str, limit: int) -> str | None:
        """Remove such rows among so many after an id; the last one looked at, None at the end."""

    @abc.abstractmethod
    def swept(self, seen: bytes) -> None:
        """All rows have been looked at, if :meth:`to_sweep` is what it was before."""

    @abc.abstractmethod
    def ask_sweep(self) -> None:
        """There may be rows to sweep."""

    @abc.abstractmethod
    def replace_slates(self, payloads: dict[int, bytes], floor: Floor | None = None) -> None:
        """Replace the slates of SERVED events, and the floor where that says something about them, durably."""

    @abc.abstractmethod
    def scrub(self) -> None:
        """Let nothing of what was replaced stay in the database's files; StoreError where somebody is in the way."""

    @abc.abstractmethod
    def size(self) -> int:
        """Bytes that the store takes on disk."""

    def disk(self) -> tuple[int, int] | None:
        """Bytes of the disk that a file is on, all and free."""
        return None

    # Everything as it is on disk, for whoever checks it (verify.py).

    def integrity(self) -> list[str]:
        """What the database itself finds wrong."""
        return []

    def damage(self) -> list[str]:
        """The same in less time: its pages alone, not compared with its indexes."""
        return []

    @abc.abstractmethod
    def raw(self, after: int, limit: int) -> list[tuple[Any, ...]]:
        """The events after a place, at most so many: fields as they are stored, and the link."""

    @abc.abstractmethod
    def slates(self, after: str, limit: int) -> list[Row]:
        """The slates' rows after an id, in order of the ids, at most so many."""

    @abc.abstractmethod
    def ranker_rows(self) -> list[RankerRow]:
        """All rankers' rows, by number."""

    @abc.abstractmethod
    def catalogue_parts(self) -> list[tuple[int, int]]:
        """Which parts of catalogues there are: ranker and part, in order."""

    @abc.abstractmethod
    def snapshot_places(self) -> list[tuple[int, int]]:
        """Which snapshots there are: ranker and event, in order."""

    @abc.abstractmethod
    def lease(self) -> bool:
        """Whether this server may learn: it holds the lease, or has it now. Always, where it is alone."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of everything."""
