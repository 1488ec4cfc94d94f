"""SQL that both databases share. In the statements ``@`` stands for the prefix of tables and ``?`` for a value."""

from __future__ import annotations

import abc
import functools
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

import msgspec

from recurrank.serving import chain
from recurrank.serving.checkpoint import NAME as CHECKPOINT
from recurrank.serving.events import CHANGES, Event, Kind
from recurrank.serving.store.base import Store
from recurrank.serving.store.records import (
    Floor,
    Head,
    Kept,
    Line,
    Living,
    Pin,
    RankerRow,
    Row,
    Snapshot,
    Status,
    StoredRanker,
)

_RANKERS = "SELECT number, name, config, digest, positions FROM @rankers WHERE NOT deleted"
_LIVING = "EXISTS (SELECT 1 FROM @rankers WHERE number = ? AND NOT deleted)"
_EVENTS = """
    SELECT e.seq, e.ranker, e.kind, e.served, e.clicks, CASE WHEN e.served > 0 THEN s.payload ELSE e.payload END, e.at
    FROM @events e LEFT JOIN @events s ON e.served > 0 AND s.seq = e.served WHERE e.seq > ?
"""


_CHANGE_NOTE = "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
FLOOR, FLOOR_ITEMS, SWEEP = "floor", "floor_items/", "sweep"
"""Names of notes; the second is a prefix."""


def _items_name(ranker: int) -> str:
    """Name of the note with a ranker's items."""
    return f"items/{ranker}"


def _floor_items_name(ranker: int) -> str:
    """Name of the note with a ranker's items at the floor."""
    return f"{FLOOR_ITEMS}{ranker}"


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


@functools.cache
def _spelled(query: str, prefix: str, mark: str) -> str:
    return query.replace("@", prefix).replace("?", mark)


class SqlStore(Store):
    """A :class:`~recurrank.serving.store.base.Store` in a database that speaks SQL."""

    prefix: ClassVar[str]
    mark: ClassVar[str]
    flag: ClassVar[str]  # the column ``deleted`` as a number

    def __init__(self) -> None:
        super().__init__()
        self._maintenance = threading.Lock()

    def run(self, t: Any, query: str, *values: Any) -> Any:
        """Run a statement in what :meth:`reading` or a transaction yielded; its rows can be fetched from the result."""
        return t.execute(_spelled(query, self.prefix, self.mark), values)

    def all(self, query: str, *values: Any) -> list[Any]:
        """All rows of a query, outside a transaction."""
        with self.reading() as t:
            return list(self.run(t, query, *values).fetchall())

    @abc.abstractmethod
    def reading(self) -> AbstractContextManager[Any]:
        """A context for queries outside a transaction."""

    @abc.abstractmethod
    def long_transaction(self) -> AbstractContextManager[Any]:
        """A transaction for large writes; it must call :meth:`append_alone` before it appends."""

    @abc.abstractmethod
    def lazy_transaction(self) -> AbstractContextManager[Any]:
        """A transaction that a power cut may undo, until the next durable one is on disk."""

    @abc.abstractmethod
    def append_alone(self, t: Any) -> None:
        """Take the exclusive right to append, until the transaction ends."""

    def payload(self, t: Any, served: int) -> bytes | None:
        found = self.run(t, "SELECT payload FROM @events WHERE seq = ?", served).fetchone()
        return bytes(found[0]) if found else None

    def head(self, t: Any = None) -> Head:
        if t is None:
            return Head(*self.all("SELECT seq, digest, first FROM @head")[0])
        newest = "SELECT coalesce(max(seq), 0) FROM @events"
        query = f"SELECT CASE WHEN seq > ({newest}) THEN seq ELSE ({newest}) END, digest, first FROM @head"
        return Head(*self.run(t, query).fetchone())

    def living(self, t: Any) -> dict[int, Living]:
        found = self.run(t, "SELECT number, positions, stock FROM @rankers WHERE NOT deleted").fetchall()
        return {number: Living(positions, stock) for number, positions, stock in found}

    def note_changes(self, t: Any, changes: dict[int, int]) -> None:
        for number, seq in changes.items():
            self.run(t, "UPDATE @rankers SET stock = ? WHERE number = ?", seq, number)

    def changes(self, ranker: int, after: int, until: int | None = None) -> list[Event]:
        kinds = ", ".join(str(int(kind)) for kind in CHANGES)
        query = "SELECT seq, ranker, kind, served, clicks, payload, at FROM @events"
        where = f"WHERE kind IN ({kinds}) AND ranker = ? AND seq > ? AND seq <= ? ORDER BY seq"
        return list(map(Event._make, self.all(f"{query} {where}", ranker, after, 2**62 if until is None else until)))

    def events(self, after: int, limit: int, ranker: int | None = None) -> list[Event]:
        which = "" if ranker is None else f" AND e.ranker = {int(ranker)}"
        return list(map(Event._make, self.all(f"{_EVENTS}{which} ORDER BY e.seq LIMIT ?", after, limit)))

    def newest(self) -> int:
        return int(self.all("SELECT coalesce(max(seq), 0) FROM @events")[0][0])

    def open_slates(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for ranker, served in self.all("SELECT ranker, served FROM @slates WHERE status = 0 ORDER BY served"):
            found.setdefault(ranker, []).append(served)
        return found

    def probe(self, size: int) -> None:
        self.note("probe", bytes(size))
        with self.long_transaction() as t:
            self.run(t, "DELETE FROM @meta WHERE name = 'probe'")

    def note(self, name: str, value: bytes) -> None:
        with self.long_transaction() as t:
            self._note(t, name, value)

    def _note(self, t: Any, name: str, value: bytes) -> None:
        self.run(t, f"INSERT INTO @meta VALUES (?, ?) {_CHANGE_NOTE}", name, value)

    def noted_as(self, name: str) -> bytes | None:
        found = self.all("SELECT value FROM @meta WHERE name = ?", name)
        return found[0][0] if found else None

    def create(self, name: str, config: bytes, digest: str, positions: int, catalogue: Iterable[bytes]) -> StoredRanker | None:
        with self.long_transaction() as t:
            row = self.run(t, f"{_RANKERS} AND name = ?", name).fetchone()
            if row is not None:
                return StoredRanker(*row) if row[3] == digest else None
            insert = "INSERT INTO @rankers (name, config, digest, positions) VALUES (?, ?, ?, ?)"
            self.run(t, insert, name, config, digest, positions)
            stored = StoredRanker(*self.run(t, f"{_RANKERS} AND name = ?", name).fetchone())
            parts = list(catalogue)
            for part, data in enumerate(parts):
                self.run(t, "INSERT INTO @catalogues VALUES (?, ?, ?)", stored.number, part, data)
            self.append_alone(t)  # not earlier: other servers rank and learn while a large catalogue is sent
            claim = chain.ranker_mark(stored.number, name, digest, positions) + chain.catalogue_mark(config, parts)
            self._append(t, stored.number, Kind.CREATED, claim)
            return stored

    def delete(self, name: str) -> bool:
        with self.long_transaction() as t:
            self.append_alone(t)
            row = self.run(t, f"{_RANKERS} AND name = ?", name).fetchone()
            if row is None:
                return False
            self.run(t, "UPDATE @rankers SET deleted = TRUE, config = ? WHERE number = ?", b"", row[0])
            for table in ("catalogues", "snapshots"):
                self.run(t, f"DELETE FROM @{table} WHERE ranker = ?", row[0])
            for name in (_items_name(row[0]), _floor_items_name(row[0])):
                self.run(t, "DELETE FROM @meta WHERE name = ?", name)
            self._note(t, SWEEP, secrets.token_bytes(8))
            self._append(t, row[0], Kind.DELETED)
            return True

    def _append(self, t: Any, ranker: int, kind: Kind, claim: bytes = b"") -> None:
        """Append an event about a ranker."""
        seq, digest, _ = self.head(t)
        event = Event(seq + 1, ranker, int(kind), 0, b"", b"", time.time())
        self.write(t, [event], [chain.link(digest, event, claim)], [], [])

    def rankers(self) -> list[StoredRanker]:
        return [StoredRanker(*row) for row in self.all(f"{_RANKERS} ORDER BY number")]

    def catalogue(self, ranker: int) -> bytes:
        return b"".join(row[0] for row in self.all("SELECT data FROM @catalogues WHERE ranker = ? ORDER BY part", ranker))

    def keep(self, ranker: int, snapshot: Snapshot, retain: int = 2) -> None:
        change = "ON CONFLICT (ranker, seq) DO UPDATE SET digest = excluded.digest, state = excluded.state"
        newest = "SELECT seq FROM @snapshots WHERE ranker = ? ORDER BY seq DESC LIMIT ?"
        with self.long_transaction() as t:
            insert = "INSERT INTO @snapshots (ranker, seq, digest, state)"
            self.run(t, f"{insert} SELECT ?, ?, ?, ? WHERE {_LIVING} {change}", ranker, *snapshot, ranker)
            old = f"ranker = ? AND seq NOT IN ({newest}) AND pin = {int(Pin.NONE)}"
            self.run(t, f"DELETE FROM @snapshots WHERE {old}", ranker, ranker, retain)

    def keep_items(self, ranker: int, items: bytes) -> None:
        with self.long_transaction() as t:
            self._keep_items(t, _items_name(ranker), ranker, items)

    def _keep_items(self, t: Any, name: str, ranker: int, items: bytes) -> None:
        self.run(t, f"INSERT INTO @meta SELECT ?, ? WHERE {_LIVING} {_CHANGE_NOTE}", name, items, ranker)

    def kept_items(self, ranker: int) -> bytes | None:
        return self.noted_as(_items_name(ranker))

    def snapshots(self, ranker: int) -> Iterator[Snapshot]:
        for (seq,) in self.all("SELECT seq FROM @snapshots WHERE ranker = ? ORDER BY seq DESC", ranker):
            if (found := self.snapshot(ranker, seq)) is not None:
                yield found

    def snapshot(self, ranker: int, seq: int) -> Snapshot | None:
        found = self.all("SELECT seq, digest, state FROM @snapshots WHERE ranker = ? AND seq = ?", ranker, seq)
        return Snapshot(*found[0]) if found else None

    def drop_snapshots(self, rankers: list[int]) -> None:
        with self.long_transaction() as t:
            for ranker in rankers:
                self.run(t, "DELETE FROM @snapshots WHERE ranker = ?", ranker)
            self.run(t, "DELETE FROM @meta WHERE name = ?", CHECKPOINT)

    @contextmanager
    def maintaining(self, patience: float = 0.0) -> Iterator[bool]:
        mine = self._maintenance.acquire(timeout=patience)
        try:
            yield mine
        finally:
            if mine:
                self._maintenance.release()

    def floor(self) -> Floor:
        stored = self.noted_as(FLOOR)
        return Floor() if stored is None else msgspec.msgpack.decode(stored, type=Floor)

    def pins(self) -> list[Kept]:
        return [Kept(*row) for row in self.all("SELECT ranker, seq, pin FROM @snapshots ORDER BY ranker, seq")]

    def pin(self, snapshots: dict[int, int], pin: Pin) -> None:
        with self.long_transaction() as t:
            self._pin(t, snapshots, pin)

    def _pin(self, t: Any, snapshots: dict[int, int], pin: Pin) -> None:
        for ranker, seq in snapshots.items():
            self.run(t, "UPDATE @snapshots SET pin = 0 WHERE ranker = ? AND pin = ? AND seq <> ?", ranker, int(pin), seq)
            self.run(t, "UPDATE @snapshots SET pin = ? WHERE ranker = ? AND seq = ?", int(pin), ranker, seq)

    def raise_floor(self, floor: Floor, verified: dict[int, int], items: dict[int, bytes]) -> None:
        with self.long_transaction() as t:
            self._pin(t, verified, Pin.VERIFIED)
            for ranker, packed in items.items():
                self._keep_items(t, _floor_items_name(ranker), ranker, packed)
            self._note(t, FLOOR, msgspec.msgpack.encode(floor))

    def floor_items(self, ranker: int) -> bytes | None:
        return self.noted_as(_floor_items_name(ranker))

    def lines(self, after: int, until: int, limit: int) -> list[Line]:
        query = "SELECT seq, ranker, kind, at, link FROM @events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
        return [Line(*row) for row in self.all(query, after, until, limit)]

    def remove(self, events: list[int], slates: list[tuple[str, int]]) -> None:
        with self.lazy_transaction() as t:
            if slates:  # an event serves one slate, so that it distinguishes rows of a reused id
                names, served = zip(*slates, strict=True)
                which = f"slate IN ({_marks(names)}) AND served IN ({_marks(served)})"
                self.run(t, f"DELETE FROM @slates WHERE {which}", *names, *served)
            if events:
                self.run(t, f"DELETE FROM @events WHERE seq IN ({_marks(events)})", *events)

    def replace_slates(self, payloads: dict[int, bytes], floor: Floor | None = None) -> None:
        with self.long_transaction() as t:
            for seq, payload in payloads.items():
                self.run(t, "UPDATE @events SET payload = ? WHERE seq = ?", payload, seq)
            if floor is not None:
                self._note(t, FLOOR, msgspec.msgpack.encode(floor))

    def to_sweep(self) -> bytes | None:
        return self.noted_as(SWEEP)

    def ask_sweep(self) -> None:
        self.note(SWEEP, secrets.token_bytes(8))

    def sweep(self, after: str, limit: int) -> str | None:
        rows, floor = self.slates(after, limit), self.floor().seq
        if not rows:
            return None
        living = {stored.number for stored in self.rankers()}
        old = [row.served for row in rows if row.served <= floor and row.status != Status.OPEN]
        present = {seq for (seq,) in self.all(f"SELECT seq FROM @events WHERE seq IN ({_marks(old)})", *old)} if old else set()
        lost = {*old} - present
        gone = [(row.slate, row.served) for row in rows if row.ranker not in living or row.served in lost]
        if gone:
            self.remove([], gone)
        return rows[-1].slate

    def swept(self, seen: bytes) -> None:
        with self.long_transaction() as t:
            self.run(t, "DELETE FROM @meta WHERE name = ? AND value = ?", SWEEP, seen)

    def raw(self, after: int, limit: int) -> list[tuple[Any, ...]]:
        query = "SELECT seq, ranker, kind, served, clicks, payload, at, link FROM @events WHERE seq > ? ORDER BY seq LIMIT ?"
        return self.all(query, after, limit)

    def slates(self, after: str, limit: int) -> list[Row]:
        query = "SELECT slate, served, ranker, status, clicks FROM @slates WHERE slate > ? ORDER BY slate LIMIT ?"
        return [Row(*row) for row in self.all(query, after, limit)]

    def ranker_rows(self) -> list[RankerRow]:
        query = f"SELECT number, name, config, digest, positions, {self.flag}, stock FROM @rankers ORDER BY number"
        return [RankerRow(*row) for row in self.all(query)]

    def catalogue_parts(self) -> list[tuple[int, int]]:
        return self.all("SELECT ranker, part FROM @catalogues ORDER BY ranker, part")

    def snapshot_places(self) -> list[tuple[int, int]]:
        return self.all("SELECT ranker, seq FROM @snapshots ORDER BY ranker, seq")
