"""Connections to PostgreSQL that fail if the database is silent for too long, and reconnect at the next use."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from recurrank.serving.store.records import StoreError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as error:
    raise ValueError("store: PostgreSQL needs psycopg; install recurrank[postgres]") from error

LockNotAvailable = psycopg.errors.LockNotAvailable
"""Raised if a lock was not free in time."""

SILENCE, LONG_SILENCE = 2.0, 10.0
"""Seconds without a byte from the database after which a call fails: for calls that requests or the lease wait for, and for
all others. A suspended server still answers keepalives, so that only a clock on this side can detect it."""

PARAMETERS = {
    "connect_timeout": 2,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
"""Default parameters of libpq, which the address may override: a network that drops packets is noticed in seconds."""

OPTIONS = {
    "idle_in_transaction_session_timeout": 5000,
    "lock_timeout": 1800,
    "statement_timeout": 15_000,
    "tcp_keepalives_idle": 5,
    "tcp_keepalives_interval": 2,
    "tcp_keepalives_count": 3,
}
"""Options of every session: a server that hangs in a transaction, or vanishes with its lease, does not block others long."""


class Watched(psycopg.Connection[Any]):
    """A connection that closes itself, and fails the call, if the database is silent for too long."""

    patience = SILENCE

    def wait(self, gen: Any, *arguments: Any, **keywords: Any) -> Any:
        return super().wait(self._watched(gen), *arguments, **keywords)

    def _watched(self, gen: Any) -> Generator[Any, Any, Any]:
        """Wraps the generator of a call. psycopg sends it the readiness of the socket at least every tenth of a second."""
        until = time.monotonic() + self.patience
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    until = time.monotonic() + self.patience
                elif time.monotonic() > until:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer within {self.patience:g} seconds")
                wanted = gen.send(ready)
        except StopIteration as stop:
            return stop.value


class Reconnecting:
    """A connection that opens on demand, and again after a failure."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: Any = None
        self.lock = threading.Lock()

    @contextmanager
    def use(self, patience: float = LONG_SILENCE) -> Iterator[Any]:
        """The connection; a call fails after ``patience`` seconds of silence."""
        with self.lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = _connect(self._address)
                self._connection.patience = patience
                yield self._connection
            except psycopg.Error as error:
                self.drop()
                raise StoreError(f"PostgreSQL cannot be used: {type(error).__name__}") from error

    def close(self, last: str | None = None) -> None:
        """Close the connection, after a last statement; one in use by a hanging call stays open until the process ends."""
        if self.lock.acquire(timeout=0.5):
            if last is not None and self._connection is not None:
                self._connection.patience = 0.5
                with suppress(Exception):
                    self._connection.execute(last)
            self.drop()
            self.lock.release()

    def drop(self) -> None:
        with suppress(Exception):
            if self._connection is not None:
                self._connection.close()
        self._connection = None


def _connect(address: str) -> Any:
    given: dict[str, Any] = dict(conninfo_to_dict(address))
    options = " ".join([*(f"-c {name}={value}" for name, value in OPTIONS.items()), str(given.get("options") or "")])
    return Watched.connect(make_conninfo(**{**PARAMETERS, **given, "options": options}), autocommit=True)
