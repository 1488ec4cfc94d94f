"""The log in one SQLite file: one writer connection, WAL, ``synchronous=FULL``, so that a commit is on disk.

There is only one connection that writes: SQLite before 3.51.3 can corrupt a WAL that several writers checkpoint. A lock file
next to the database keeps a second server away.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from recurrank.serving import chain
from recurrank.serving.events import CHANGES, Event, Kind
from recurrank.serving.files import check_path, give_to_owner
from recurrank.serving.store.records import Head, Living, Locked, Row, StoreError
from recurrank.serving.store.sql import SqlStore

MIGRATIONS = [
    """
    CREATE TABLE rankers (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL, config BLOB NOT NULL, digest TEXT NOT NULL, positions INTEGER NOT NULL,
        deleted INTEGER NOT NULL DEFAULT 0);
    CREATE UNIQUE INDEX ranker_names ON rankers (name) WHERE NOT deleted;
    CREATE TABLE catalogues (ranker INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (ranker, part));
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY, ranker INTEGER NOT NULL, kind INTEGER NOT NULL, served INTEGER NOT NULL,
        clicks BLOB NOT NULL, payload BLOB NOT NULL, at REAL NOT NULL);
    CREATE TABLE slates (
        slate TEXT PRIMARY KEY, served INTEGER NOT NULL, ranker INTEGER NOT NULL, status INTEGER NOT NULL, clicks BLOB NOT NULL
        ) WITHOUT ROWID;
    CREATE INDEX open_slates ON slates (served) WHERE status = 0;
    CREATE TABLE snapshots (
        ranker INTEGER NOT NULL, seq INTEGER NOT NULL, digest TEXT NOT NULL, state BLOB NOT NULL, PRIMARY KEY (ranker, seq));
    """,
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    """
    ALTER TABLE events ADD COLUMN link BLOB;
    CREATE TABLE head (seq INTEGER NOT NULL, digest BLOB NOT NULL, first INTEGER NOT NULL);
    INSERT INTO head SELECT coalesce(max(seq), 0), zeroblob(16), coalesce(max(seq), 0) + 1 FROM events;
    """,
    """
    ALTER TABLE rankers ADD COLUMN stock INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX changes ON events (ranker, seq) WHERE kind IN (7, 8);
    """,
    """
    DROP INDEX changes;
    CREATE INDEX changes ON events (ranker, seq) WHERE kind IN (7, 8, 9);
    """,
    "ALTER TABLE snapshots ADD COLUMN pin INTEGER NOT NULL DEFAULT 0",
]
"""In order; each runs in its own transaction, which records its number. Never change a released one."""

LOCKED = 2.0
"""Seconds to wait for another process's lock on the file."""

WAL = 64 << 20
"""Bytes to which the WAL is truncated after a checkpoint: it may grow far larger while a backup reads."""

TAIL, TAIL_BYTES = 20_000, 32 << 20
"""Most events, and bytes of slates, kept in memory for the learner."""


class SqliteStore(SqlStore):
    """A :class:`~recurrank.serving.store.base.Store` in a file."""

    prefix, mark, flag = "", "?", "deleted"

    def __init__(self, path: str | Path, read_only: bool = False) -> None:
        super().__init__()
        self.path, self._read_only = Path(path), read_only
        check_path(self.path)
        self._guard = None if read_only else _only_one(self.path)
        opened: list[sqlite3.Connection] = []
        try:
            self._writer = self._connect(opened)
            self._reader = self._connect(opened)
            if read_only:
                check_version(self._reader)
            else:
                migrate(self._writer)
            self._writer.execute("PRAGMA busy_timeout=0")  # _begin() waits, where it may
        except (sqlite3.Error, StoreError) as error:
            for connection in opened:
                connection.close()
            if self._guard:
                self._guard.close()
            raise StoreError(f"{self.path}: {error}") from error
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._lazy = False  # whether commits return before they are on disk
        self._living: dict[int, Living] | None = None  # valid as long as every transaction succeeded
        self._head: Head | None = None  # as of the current transaction
        self._newest: int | None = None  # the last event that is on disk
        self._tail: deque[Event] = deque(maxlen=TAIL)  # the last events, without gaps
        self._tail_lock = threading.Lock()
        self._pending: list[Event] = []  # events of the current transaction
        self._shown: dict[int, bytes] = {}  # the slates of the last SERVED events
        self._shown_bytes = 0

    def _connect(self, opened: list[sqlite3.Connection]) -> sqlite3.Connection:
        if self._read_only:
            address = f"{self.path.absolute().as_uri()}?mode=ro"
            opened.append(sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=LOCKED))
            return opened[-1]
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=LOCKED)
        opened.append(connection)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        # Each checkpoint delays the requests of one group; every 32 MB, that is far less than 1 % of them.
        connection.execute("PRAGMA wal_autocheckpoint=8000")
        connection.execute(f"PRAGMA journal_size_limit={WAL}")
        return connection

    @contextmanager
    def transaction(self, wait: bool = True, lazy: bool = False) -> Iterator[sqlite3.Connection]:
        if not self._write_lock.acquire(blocking=wait):
            raise Locked("the store is being written")
        try:
            connection = self._writer
            if lazy != self._lazy:
                connection.execute(f"PRAGMA synchronous={'NORMAL' if lazy else 'FULL'}")
                self._lazy = lazy
            self._begin(wait)
            yield connection
            connection.execute("COMMIT")
            self._newest = None if self._head is None else self._head.seq
            self._remember()
        except Locked:
            raise
        except sqlite3.Error as error:
            self._forget()
            raise StoreError(f"the store cannot be written: {error}") from error
        except BaseException:
            self._forget()
            raise
        finally:
            self._write_lock.release()

    def long_transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return self.transaction()

    def lazy_transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return self.transaction(lazy=True)

    def append_alone(self, t: sqlite3.Connection) -> None:
        """Nothing to do: there is only one transaction at a time."""

    def _begin(self, wait: bool) -> None:
        """Begin a transaction. SQLite's busy timeout would block an event loop, and is set per connection, not per call."""
        until = time.monotonic() + LOCKED
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY or (wait and time.monotonic() > until):
                    raise
                if not wait:
                    raise Locked("the store is being written by another process") from error
            time.sleep(0.005)

    def _remember(self) -> None:
        """Keep the written events for the learner: reading them back would cost it, and competing requests, far more."""
        with self._tail_lock:
            for event in self._pending:
                if event.kind == Kind.SERVED:
                    self._shown[event.seq] = event.payload
                    self._shown_bytes += len(event.payload)
                elif event.served:
                    event = event._replace(payload=self._shown.get(event.served, b""))
                elif event.payload:
                    event = event._replace(payload=b"")  # a change may be large: it is read on demand
                self._tail.append(event)
            while len(self._shown) > TAIL or self._shown_bytes > TAIL_BYTES:
                oldest = next(iter(self._shown))
                self._shown_bytes -= len(self._shown.pop(oldest))
                while self._tail and self._tail[0].seq <= oldest:
                    self._tail.popleft()
        self._pending = []

    def _forget(self) -> None:
        _rollback(self._writer)
        self._living = self._head = self._newest = None
        self._pending = []
        with self._tail_lock:  # a failed commit may be on disk or not
            self._tail.clear()

    @property
    def busy(self) -> bool:
        return self._write_lock.locked()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._read_lock:
            try:
                yield self._reader
            except sqlite3.Error as error:
                raise StoreError(f"the store cannot be read: {error}") from error

    def rows(self, t: sqlite3.Connection, slates: set[str]) -> dict[str, Row]:
        found: dict[str, Row] = {}
        names = list(slates)
        for start in range(0, len(names), 500):
            part = names[start : start + 500]
            marks = ",".join("?" * len(part))
            columns = "s.slate, s.served, s.ranker, s.status, s.clicks, coalesce(substr(e.payload, 1, 4), x'')"
            query = f"SELECT {columns} FROM slates s LEFT JOIN events e ON e.seq = s.served WHERE s.slate IN ({marks})"
            found |= {row[0]: Row(*row) for row in t.execute(query, part)}
        return found

    def rows_served(self, t: sqlite3.Connection, served: set[int]) -> list[Row]:
        query = "SELECT slate, served, ranker, status, clicks FROM slates WHERE status = 0 AND served = ?"
        return [Row(*row) for seq in sorted(served) for row in t.execute(query, (seq,))]

    def head(self, t: sqlite3.Connection | None = None) -> Head:
        if t is None:
            return super().head()
        if self._head is None:  # there is no other writer
            self._head = super().head(t)
        return self._head

    def living(self, t: sqlite3.Connection) -> dict[int, Living]:
        if self._living is None:  # there is no other writer
            self._living = super().living(t)
        return self._living

    def _append(self, t: sqlite3.Connection, ranker: int, kind: Kind, claim: bytes = b"") -> None:
        super()._append(t, ranker, kind, claim)
        self._living = None

    def write(self, t: sqlite3.Connection, events: list[Event], links: list[bytes], new: list[Row], changed: list[Row]) -> None:
        _insert(t, "INSERT INTO events VALUES", [(*event, link) for event, link in zip(events, links, strict=True)])
        change = (
            " ON CONFLICT (slate) DO UPDATE SET served = excluded.served, ranker = excluded.ranker, status = excluded.status, "
            "clicks = excluded.clicks"
        )
        _insert(t, "INSERT INTO slates VALUES", [row[:5] for row in (*new, *changed)], change)
        if events:
            self._head = self.head(t)._replace(seq=events[-1].seq, digest=links[-1][: chain.SIZE])
            t.execute("UPDATE head SET seq = ?, digest = ?", self._head[:2])
            self._pending += events

    def _recent(self, after: int, limit: int) -> list[Event] | None:
        """The events after ``after``, if all of them are still in memory."""
        with self._tail_lock:
            if not self._tail or self._tail[0].seq > after + 1:
                return None
            start = after + 1 - self._tail[0].seq
            found = list(itertools.islice(self._tail, start, start + limit))
        lost = sorted({_payload_of(event) for event in found if not event.payload} - {0})
        if lost:  # old slates, and changes
            shown: dict[int, bytes] = {}
            with self.reading() as reader:
                for first in range(0, len(lost), 500):
                    part = lost[first : first + 500]
                    query = f"SELECT seq, payload FROM events WHERE seq IN ({','.join('?' * len(part))})"
                    shown |= dict(reader.execute(query, part))
            found = [event._replace(payload=shown.get(_payload_of(event), event.payload)) for event in found]
        return found

    def events(self, after: int, limit: int, ranker: int | None = None) -> list[Event]:
        recent = self._recent(after, limit) if ranker is None else None
        return super().events(after, limit, ranker) if recent is None else recent

    def newest(self) -> int:
        newest = self._newest
        return super().newest() if newest is None else newest

    def size(self) -> int:
        return sum(path.stat().st_size for end in ("", "-wal") if (path := self.path.with_name(self.path.name + end)).exists())

    def scrub(self) -> None:
        with self._write_lock, self._read_lock:
            try:
                self._writer.execute("VACUUM")
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                raise StoreError(f"the store cannot be written: {error}") from error
        with self._tail_lock:
            self._tail.clear()
            self._shown.clear()
            self._shown_bytes = 0

    def disk(self) -> tuple[int, int] | None:
        usage = shutil.disk_usage(self.path.absolute().parent)
        return usage.total, usage.free

    def integrity(self) -> list[str]:
        with self.reading() as reader:
            return [row[0] for row in reader.execute("PRAGMA integrity_check") if row[0] != "ok"]

    def damage(self) -> list[str]:
        with self.reading() as reader:
            return [row[0] for row in reader.execute("PRAGMA quick_check(1)") if row[0] != "ok"]

    def lease(self) -> bool:
        return True

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()
            if self._guard:
                self._guard.close()


def _payload_of(event: Event) -> int:
    """The event that holds an event's payload; 0 if it has none."""
    return event.served or (event.seq if event.kind in CHANGES else 0)


def _insert(t: sqlite3.Connection, head: str, rows: Sequence[tuple[Any, ...]], tail: str = "") -> None:
    """Insert many rows in few statements: each statement releases the GIL, and has to wait to get it back."""
    start = 0
    while start < len(rows):
        count = 1 << min(6, (len(rows) - start).bit_length() - 1)  # powers of two, so that there are few different statements
        part = rows[start : start + count]
        marks = ", ".join(["(" + ", ".join("?" * len(part[0])) + ")"] * count)
        t.execute(f"{head} {marks}{tail}", [value for row in part for value in row])
        start += count


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a file; StoreError for a newer one."""
    done = int(connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()[0])
    if done > len(MIGRATIONS):
        raise StoreError(f"the store is of a newer version ({done}, known here: {len(MIGRATIONS)}); update recurrank")
    return done


def check_version(connection: sqlite3.Connection) -> None:
    """Raise StoreError for a file of another version."""
    if (done := version_of(connection)) < len(MIGRATIONS):
        raise StoreError(f"the store is of an older version ({done}, current: {len(MIGRATIONS)}); start its server once")


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file up to date, one transaction per step; a file of a newer version is refused."""
    connection.execute("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, at REAL NOT NULL)")
    done = version_of(connection)
    for number, script in enumerate(MIGRATIONS[done:], start=done + 1):
        try:
            connection.execute("BEGIN IMMEDIATE")
            for statement in script.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute("INSERT INTO migrations VALUES (?, ?)", (number, time.time()))
            connection.execute("COMMIT")
        except BaseException:
            _rollback(connection)
            raise


def _rollback(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:  # the transaction is gone already
        pass


def _only_one(path: Path) -> Any:
    """Lock the file against other servers; the system releases the lock when the process dies."""
    lock = path.with_name(path.name + ".lock")
    guard = open(lock, "w")  # noqa: SIM115  (held until close)
    with suppress(OSError):  # the lock works whoever owns the file
        give_to_owner(lock, path)
    try:
        import fcntl

        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # Windows: its own file locks must suffice
        pass
    except OSError as error:
        guard.close()
        raise ValueError(f"store: {path} is in use by another server; stop that one, or give another file") from error
    return guard
