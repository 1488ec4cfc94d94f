"""What both databases do alike: the same statements, spelled for each: ``@`` is the prefix of tables, ``?`` a value."""

from __future__ import annotations

import abc
import functools
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from recurrank.serving import chain
from recurrank.serving.events import CHANGES, Event, Kind
from recurrank.serving.store.base import Head, Living, RankerRow, Row, Snapshot, Store, StoredRanker

_RANKERS = "SELECT number, name, config, digest, positions FROM @rankers WHERE NOT deleted"
_LIVING = "EXISTS (SELECT 1 FROM @rankers WHERE number = ? AND NOT deleted)"
_EVENTS = """
    SELECT e.seq, e.ranker, e.kind, e.served, e.clicks, CASE WHEN e.served > 0 THEN s.payload ELSE e.payload END, e.at
    FROM @events e LEFT JOIN @events s ON e.served > 0 AND s.seq = e.served WHERE e.seq > ?
"""


def _items_name(ranker: int) -> str:
    """What a ranker's items are kept under, in the table of notes."""
    return f"items/{ranker}"


@functools.cache
def _spelled(query: str, prefix: str, mark: str) -> str:
    return query.replace("@", prefix).replace("?", mark)


class SqlStore(Store):
    """A :class:`~recurrank.serving.store.base.Store` in a database that speaks SQL."""

    prefix: ClassVar[str]
    mark: ClassVar[str]
    flag: ClassVar[str]  # the column ``deleted`` as a number

    def run(self, t: Any, query: str, *values: Any) -> Any:
        """Run a statement in what :meth:`reading` or a transaction gave; its rows can be fetched from the result."""
        return t.execute(_spelled(query, self.prefix, self.mark), values)

    def all(self, query: str, *values: Any) -> list[Any]:
        """All rows of a query, outside a transaction."""
        with self.reading() as t:
            return list(self.run(t, query, *values).fetchall())

    @abc.abstractmethod
    def reading(self) -> AbstractContextManager[Any]:
        """For queries outside a transaction."""

    @abc.abstractmethod
    def long_transaction(self) -> AbstractContextManager[Any]:
        """A transaction for what may be large; it has to call :meth:`append_alone` before it appends."""

    @abc.abstractmethod
    def append_alone(self, t: Any) -> None:
        """Be the only one who appends, until the transaction ends."""

    def payload(self, t: Any, served: int) -> bytes:
        return bytes(self.run(t, "SELECT payload FROM @events WHERE seq = ?", served).fetchone()[0])

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
        change = "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        with self.long_transaction() as t:
            self.run(t, f"INSERT INTO @meta VALUES (?, ?) {change}", name, value)

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
            made = StoredRanker(*self.run(t, f"{_RANKERS} AND name = ?", name).fetchone())
            parts = list(catalogue)
            for part, data in enumerate(parts):
                self.run(t, "INSERT INTO @catalogues VALUES (?, ?, ?)", made.number, part, data)
            self.append_alone(t)  # not before: the others rank and learn while a large catalogue is sent
            says = chain.ranker_mark(made.number, name, digest, positions) + chain.catalogue_mark(config, parts)
            self._append(t, made.number, Kind.CREATED, says)
            return made

    def delete(self, name: str) -> bool:
        with self.long_transaction() as t:
            self.append_alone(t)
            row = self.run(t, f"{_RANKERS} AND name = ?", name).fetchone()
            if row is None:
                return False
            self.run(t, "UPDATE @rankers SET deleted = TRUE, config = ? WHERE number = ?", b"", row[0])
            for table in ("catalogues", "snapshots", "slates"):
                self.run(t, f"DELETE FROM @{table} WHERE ranker = ?", row[0])
            self.run(t, "DELETE FROM @meta WHERE name = ?", _items_name(row[0]))
            self._append(t, row[0], Kind.DELETED)
            return True

    def _append(self, t: Any, ranker: int, kind: Kind, says: bytes = b"") -> None:
        """An event of a ranker, not of a slate."""
        seq, digest, _ = self.head(t)
        event = Event(seq + 1, ranker, int(kind), 0, b"", b"", time.time())
        self.write(t, [event], [chain.link(digest, event, says)], [], [])

    def rankers(self) -> list[StoredRanker]:
        return [StoredRanker(*row) for row in self.all(f"{_RANKERS} ORDER BY number")]

    def catalogue(self, ranker: int) -> bytes:
        return b"".join(row[0] for row in self.all("SELECT data FROM @catalogues WHERE ranker = ? ORDER BY part", ranker))

    def keep(self, ranker: int, snapshot: Snapshot, retain: int = 2) -> None:
        change = "ON CONFLICT (ranker, seq) DO UPDATE SET digest = excluded.digest, state = excluded.state"
        newest = "SELECT seq FROM @snapshots WHERE ranker = ? ORDER BY seq DESC LIMIT ?"
        with self.long_transaction() as t:
            self.run(t, f"INSERT INTO @snapshots SELECT ?, ?, ?, ? WHERE {_LIVING} {change}", ranker, *snapshot, ranker)
            self.run(t, f"DELETE FROM @snapshots WHERE ranker = ? AND seq NOT IN ({newest})", ranker, ranker, retain)

    def keep_items(self, ranker: int, items: bytes) -> None:
        change = "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        with self.long_transaction() as t:
            self.run(t, f"INSERT INTO @meta SELECT ?, ? WHERE {_LIVING} {change}", _items_name(ranker), items, ranker)

    def kept_items(self, ranker: int) -> bytes | None:
        return self.noted_as(_items_name(ranker))

    def snapshots(self, ranker: int) -> Iterator[Snapshot]:
        for (seq,) in self.all("SELECT seq FROM @snapshots WHERE ranker = ? ORDER BY seq DESC", ranker):
            one = "SELECT seq, digest, state FROM @snapshots WHERE ranker = ? AND seq = ?"
            for row in self.all(one, ranker, seq):
                yield Snapshot(*row)

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
