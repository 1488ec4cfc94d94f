"""The log in PostgreSQL, for several servers on one database.

Transactions that append take an advisory lock, so that the log has no gaps and a reader in order misses nothing. The learner's
lease is another advisory lock, held by a separate connection: it ends with the connection, and so with the server. A third lock
is the right to raise the floor or to erase.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from recurrank.serving import chain
from recurrank.serving.auth import NOTE, Change, Key
from recurrank.serving.events import Event
from recurrank.serving.store.postgres_connection import SILENCE, LockNotAvailable, Reconnecting
from recurrank.serving.store.records import Row, StoreError
from recurrank.serving.store.sql import SqlStore

APPEND, LEARN, MAINTAIN = 0x72656375, 0x72616E6B, 0x6D61696E
"""Keys of the advisory locks."""

LOOK = 0.05
"""Seconds between two attempts to get the right to maintain the store."""

MIGRATIONS = [
    """
    CREATE TABLE recurrank_rankers (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT NOT NULL, config BYTEA NOT NULL, digest TEXT NOT NULL,
        positions INTEGER NOT NULL, deleted BOOLEAN NOT NULL DEFAULT FALSE);
    CREATE UNIQUE INDEX recurrank_ranker_names ON recurrank_rankers (name) WHERE NOT deleted;
    CREATE TABLE recurrank_catalogues (
        ranker BIGINT NOT NULL, part INTEGER NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (ranker, part));
    CREATE TABLE recurrank_events (
        seq BIGINT PRIMARY KEY, ranker BIGINT NOT NULL, kind SMALLINT NOT NULL, served BIGINT NOT NULL,
        clicks BYTEA NOT NULL, payload BYTEA NOT NULL, at DOUBLE PRECISION NOT NULL);
    CREATE TABLE recurrank_slates (
        slate TEXT PRIMARY KEY, served BIGINT NOT NULL, ranker BIGINT NOT NULL, status SMALLINT NOT NULL,
        clicks BYTEA NOT NULL);
    CREATE INDEX recurrank_open_slates ON recurrank_slates (served) WHERE status = 0;
    CREATE TABLE recurrank_snapshots (
        ranker BIGINT NOT NULL, seq BIGINT NOT NULL, digest TEXT NOT NULL, state BYTEA NOT NULL, PRIMARY KEY (ranker, seq));
    CREATE TABLE recurrank_keys (
        name TEXT PRIMARY KEY, hash TEXT NOT NULL, roles TEXT NOT NULL, created DOUBLE PRECISION NOT NULL);
    """,
    "CREATE TABLE recurrank_meta (name TEXT PRIMARY KEY, value BYTEA NOT NULL)",
    """
    ALTER TABLE recurrank_events ADD COLUMN link BYTEA;
    CREATE TABLE recurrank_head (seq BIGINT NOT NULL, digest BYTEA NOT NULL, first BIGINT NOT NULL);
    INSERT INTO recurrank_head SELECT coalesce(max(seq), 0), decode(repeat('00', 16), 'hex'), coalesce(max(seq), 0) + 1
        FROM recurrank_events;
    """,
    """
    ALTER TABLE recurrank_rankers ADD COLUMN stock BIGINT NOT NULL DEFAULT 0;
    CREATE INDEX recurrank_changes ON recurrank_events (ranker, seq) WHERE kind IN (7, 8);
    """,
    """
    DROP INDEX recurrank_changes;
    CREATE INDEX recurrank_changes ON recurrank_events (ranker, seq) WHERE kind IN (7, 8, 9);
    """,
    "ALTER TABLE recurrank_snapshots ADD COLUMN pin SMALLINT NOT NULL DEFAULT 0",
]
"""In order; each runs in its own transaction, which records its number. Never change a released one."""

SCRUBBING = 24 * 3600.0
"""Most seconds for rewriting the table of events, during which the database is silent."""

WAIT, PAUSE, TRY = 60.0, 1.0, 0.5
"""Seconds to wait for other transactions before that, between two attempts, and for the lock in one attempt: meanwhile other
users of the events wait behind it."""


class PostgresStore(SqlStore):
    """A :class:`~recurrank.serving.store.base.Store` in a database."""

    shared = True
    prefix, mark, flag = "recurrank_", "%s", "deleted::int"

    def __init__(self, address: str, read_only: bool = False) -> None:
        super().__init__()
        self._writer, self._reader, self._leaser = Reconnecting(address), Reconnecting(address), Reconnecting(address)
        self._maintainer = Reconnecting(address)
        self._slow = Reconnecting(address)  # for large writes, so that commits of this server do not wait for them
        self._leased: Any = None
        try:
            with self._writer.use() as connection:
                if read_only:
                    check_version(connection)
                else:
                    migrate(connection)
        except StoreError:
            self.close()
            raise

    @contextmanager
    def transaction(self, wait: bool = True) -> Iterator[Any]:
        with self._writer.use(SILENCE) as connection, connection.transaction(), connection.cursor() as t:
            _lock(t)
            yield t

    @contextmanager
    def long_transaction(self) -> Iterator[Any]:
        with self._slow.use() as connection, connection.transaction(), connection.cursor() as t:
            yield t

    @contextmanager
    def lazy_transaction(self) -> Iterator[Any]:
        with self.long_transaction() as t:
            t.execute("SET LOCAL synchronous_commit = off")
            yield t

    def append_alone(self, t: Any) -> None:
        _lock(t)

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with self._reader.use() as connection, connection.cursor() as t:
            yield t

    def rows(self, t: Any, slates: set[str]) -> dict[str, Row]:
        if not slates:
            return {}
        columns = "s.slate, s.served, s.ranker, s.status, s.clicks, coalesce(substr(e.payload, 1, 4), ''::bytea)"
        joined = "recurrank_slates s LEFT JOIN recurrank_events e ON e.seq = s.served"
        t.execute(f"SELECT {columns} FROM {joined} WHERE s.slate = ANY(%s)", (list(slates),))
        return {row[0]: Row(*row) for row in t.fetchall()}

    def rows_served(self, t: Any, served: set[int]) -> list[Row]:
        if not served:
            return []
        query = "SELECT slate, served, ranker, status, clicks FROM recurrank_slates WHERE status = 0 AND served = ANY(%s)"
        t.execute(query + " ORDER BY served", (list(served),))
        return [Row(*row) for row in t.fetchall()]

    def write(self, t: Any, events: list[Event], links: list[bytes], new: list[Row], changed: list[Row]) -> None:
        if events:
            kinds = "bigint bigint smallint bigint bytea bytea float8 bytea"
            rows = [(*event, link) for event, link in zip(events, links, strict=True)]
            t.execute(*_many("INSERT INTO recurrank_events SELECT * FROM", kinds, rows))
            t.execute("UPDATE recurrank_head SET seq = %s, digest = %s", (events[-1].seq, links[-1][: chain.SIZE]))
        if new:
            made = [(*r[:3], int(r.status), r.clicks) for r in new]
            query, columns = _many("INSERT INTO recurrank_slates SELECT * FROM", "text bigint bigint smallint bytea", made)
            all_of_it = ", ".join(f"{name} = excluded.{name}" for name in ("served", "ranker", "status", "clicks"))
            t.execute(f"{query} ON CONFLICT (slate) DO UPDATE SET {all_of_it}", columns)
        if changed:
            kinds = "text smallint bytea"
            head = "UPDATE recurrank_slates s SET status = c.status, clicks = c.clicks FROM"
            query, values = _many(head, kinds, [(r.slate, int(r.status), r.clicks) for r in changed])
            t.execute(query + " AS c (slate, status, clicks) WHERE s.slate = c.slate", values)

    def scrub(self) -> None:
        """Rewrite the table of events. Waits for transactions that may still see old rows, since these would stay."""
        with self._slow.use(SCRUBBING) as connection:
            mark = int(connection.execute("SELECT txid_current()").fetchone()[0]) % (1 << 32)
            until = time.monotonic() + WAIT
            while (obstacle := _in_the_way(connection, mark)) is not None:
                if time.monotonic() >= until:
                    who, since = obstacle
                    began = "" if since is None else f" since {since:%Y-%m-%d %H:%M:%S%z}"
                    raise StoreError(f"{who}{began} still sees what was erased, or uses the events; end it and erase again")
                time.sleep(PAUSE)

    def size(self) -> int:
        query = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
        return int(self.all(f"{query} WHERE relname LIKE 'recurrank_%%' AND relkind = 'r'")[0][0])

    def lease(self) -> bool:
        with self._leaser.use(SILENCE) as connection:
            if self._leased is not connection:  # a new connection holds no lock yet
                self._leased = None
                with connection.cursor() as t:
                    t.execute("SELECT pg_try_advisory_lock(%s)", (LEARN,))
                    if t.fetchone()[0]:
                        self._leased = connection
            else:
                connection.execute("SELECT 1")  # raises if the connection, and with it the lease, is lost
        return self._leased is not None

    @contextmanager
    def maintaining(self, patience: float = 0.0) -> Iterator[bool]:
        with super().maintaining(patience) as mine:
            if not mine:
                yield False
                return
            with self._maintainer.use() as connection:
                until = time.monotonic() + patience
                while not (mine := connection.execute("SELECT pg_try_advisory_lock(%s)", (MAINTAIN,)).fetchone()[0]):
                    if time.monotonic() >= until:
                        break
                    time.sleep(LOOK)
                try:
                    yield mine
                finally:
                    if mine:
                        connection.execute("SELECT pg_advisory_unlock(%s)", (MAINTAIN,))

    def close(self) -> None:
        # PostgreSQL ends a session some time after its connection is closed; unlocking spares the next learner the wait.
        self._leaser.close(last=None if self._leased is None else "SELECT pg_advisory_unlock_all()")
        for line in (self._maintainer, self._reader, self._slow, self._writer):
            line.close()


class PostgresKeys:
    """API keys in the database."""

    def __init__(self, address: str) -> None:
        self._line = Reconnecting(address)
        with self._line.use() as connection:
            migrate(connection)

    def all(self) -> list[Key]:
        with self._line.use() as connection:
            return self._read(connection)

    def had_any(self) -> bool:
        with self._line.use() as connection:
            query = "SELECT EXISTS (SELECT 1 FROM recurrank_keys) OR EXISTS (SELECT 1 FROM recurrank_meta WHERE name = %s)"
            return bool(connection.execute(query, (NOTE,)).fetchone()[0])

    def close(self) -> None:
        self._line.drop()

    def _read(self, connection: Any) -> list[Key]:
        found = connection.execute("SELECT name, hash, roles, created FROM recurrank_keys ORDER BY created").fetchall()
        return [Key(name, hashed, tuple(roles.split(",")), created) for name, hashed, roles, created in found]

    def change(self, change: Change) -> None:
        with self._line.use() as connection, connection.transaction():
            connection.execute("LOCK TABLE recurrank_keys IN EXCLUSIVE MODE")  # others may still read
            keys = change(self._read(connection))
            connection.execute("DELETE FROM recurrank_keys")
            for key in keys:
                row = (key.name, key.hash, ",".join(key.roles), key.created)
                connection.execute("INSERT INTO recurrank_keys VALUES (%s, %s, %s, %s)", row)
            connection.execute("INSERT INTO recurrank_meta VALUES (%s, %s) ON CONFLICT DO NOTHING", (NOTE, b""))


_SEES = """
    SELECT 'process ' || pid, xact_start FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
    AND greatest(age(backend_xmin), age(backend_xid)) > age(%(mark)s::text::xid)
    UNION ALL SELECT 'replication slot ' || slot_name, NULL FROM pg_replication_slots
    WHERE age(xmin) > age(%(mark)s::text::xid)
    UNION ALL SELECT 'prepared transaction ' || gid, prepared FROM pg_prepared_xacts
    WHERE database = current_database() AND age(transaction) > age(%(mark)s::text::xid) LIMIT 1
"""
_USES = """
    SELECT 'process ' || pid, xact_start FROM pg_locks LEFT JOIN pg_stat_activity USING (pid)
    WHERE relation = 'recurrank_events'::regclass AND granted AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1
"""


def _in_the_way(connection: Any, mark: int) -> tuple[str, Any] | None:
    """Rewrite the table of events; None if done, otherwise who prevents it, and since when."""
    if (found := connection.execute(_SEES, {"mark": mark}).fetchone()) is not None:
        return found[0], found[1]
    connection.execute("SET statement_timeout = 0")
    connection.execute(f"SET lock_timeout = {round(TRY * 1000)}")
    try:
        connection.execute("VACUUM FULL recurrank_events")
    except LockNotAvailable:
        return connection.execute(_USES).fetchone() or ("another transaction", None)
    finally:
        connection.execute("RESET statement_timeout")
        connection.execute("RESET lock_timeout")
    return None


def _lock(t: Any) -> None:
    """Take the exclusive right to append, until the transaction ends."""
    t.execute("SELECT pg_advisory_xact_lock(%s)", (APPEND,))


def _many(head: str, kinds: str, rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[list[Any]]]:
    """One statement for many rows: one array per column."""
    columns = ", ".join(f"%s::{kind}[]" for kind in kinds.split())
    return f"{head} unnest({columns})", [list(column) for column in zip(*rows, strict=True)]


def check_version(connection: Any) -> None:
    """Raise StoreError for a database of another version."""
    done = 0
    if connection.execute("SELECT to_regclass('recurrank_migrations')").fetchone()[0]:
        done = connection.execute("SELECT coalesce(max(number), 0) FROM recurrank_migrations").fetchone()[0]
    if done != len(MIGRATIONS):
        mend = "start its server once" if done < len(MIGRATIONS) else "update recurrank"
        raise StoreError(f"the store is of another version ({done}, known here: {len(MIGRATIONS)}); {mend}")


def migrate(connection: Any) -> None:
    """Bring a database up to date, one transaction per step, one server at a time; a newer version is refused."""
    with connection.transaction(), connection.cursor() as t:
        _lock(t)
        t.execute("CREATE TABLE IF NOT EXISTS recurrank_migrations (number INTEGER PRIMARY KEY, at DOUBLE PRECISION NOT NULL)")
    for number, script in enumerate(MIGRATIONS, start=1):
        with connection.transaction(), connection.cursor() as t:
            _lock(t)
            t.execute("SELECT coalesce(max(number), 0) FROM recurrank_migrations")
            done = t.fetchone()[0]
            if done > len(MIGRATIONS):
                raise StoreError(f"the store is of a newer version ({done}, known here: {len(MIGRATIONS)}); update recurrank")
            if done < number:
                for statement in script.split(";"):
                    if statement.strip():
                        t.execute(statement)
                t.execute("INSERT INTO recurrank_migrations VALUES (%s, %s)", (number, time.time()))
