"""Back up a SQLite store while its server runs: a consistent copy of the database, and the keys."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

from recurrank.serving import chain
from recurrank.serving.events import Event
from recurrank.serving.files import SCHEME, check_free, keys_of, move_durably, partial_of, path_of, remove_partial
from recurrank.serving.store import StoreError
from recurrank.serving.store.sqlite import version_of


class Backup(NamedTuple):
    """The file that was written, its number of events, and whether it has keys."""

    path: Path
    events: int
    keys: bool


def backup(address: str, to: Path) -> Backup:
    """Copy a store into the file ``to``, whole or not at all, and check the copy.

    SQLite's online backup includes the write-ahead log, which a plain copy of the database file would miss.
    """
    if address.startswith(("postgresql://", "postgres://")):
        raise ValueError("store: PostgreSQL has its own ways to copy a database; use pg_dump, which has the keys too")
    if not address.startswith(SCHEME):
        raise ValueError(f"store: {address!r} is not a file; give sqlite:///recurrank.db")
    path = path_of(address)
    if not path.is_file():
        raise ValueError(f"store: there is no file {path}; give the server's --store")
    if not to.absolute().parent.is_dir():
        raise ValueError(f"{to}: its folder does not exist; make it first")
    check_free(to, path, "give another name, or delete it first")
    partial = partial_of(to)
    remove_partial(to)
    try:
        events = _copy(path, partial)
        if keys_of(path).is_file():
            shutil.copy(keys_of(path), keys_of(partial))
            move_durably(keys_of(partial), keys_of(to))
        move_durably(partial, to)
    except sqlite3.Error as error:
        raise ValueError(f"store: {path} cannot be copied: {error}") from error
    finally:
        remove_partial(to)
    return Backup(to, events, keys_of(to).is_file())


def _copy(path: Path, partial: Path) -> int:
    """Copy and check the database; returns its last event.

    Uses one read transaction, which blocks no writer: a copy in parts would start again whenever the server writes in between.
    """
    with (
        contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as source,
        contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE")  # one file
        return check_copy(target, path)


def check_copy(database: sqlite3.Connection, path: Path) -> int:
    """Check the copy of a store; returns its last event. ValueError, naming ``path``, if it is damaged or too new."""
    wrong = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if wrong != "ok":
        raise ValueError(f"store: {path} is damaged ({wrong}); see `recurrank log verify`")
    return _check_head(database, path)


def _check_head(database: sqlite3.Connection, path: Path) -> int:
    """Check that the last event is the one that the head of the log names, with the same digest."""
    if not database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'head'").fetchone()[0]:
        raise ValueError(f"store: {path} is of an older version; start its server once, then copy it")
    try:
        version_of(database)
    except StoreError as error:  # this version cannot check it: the tables may differ
        raise ValueError(f"{path}: {error}") from error
    seq, digest, first = database.execute("SELECT seq, digest, first FROM head").fetchone()
    last = database.execute("SELECT * FROM events ORDER BY seq DESC LIMIT 2").fetchall()
    if (last[0][0] if last else 0) != seq:
        raise ValueError(f"store: {path}: its last events are missing; see `recurrank log verify`")
    if last and seq >= first:
        before = last[1][-1][: chain.SIZE] if len(last) > 1 and seq > first else chain.START
        *fields, link = last[0]
        note = database.execute("SELECT value FROM meta WHERE name = ?", (chain.REPLACED,)).fetchone()
        if link[: chain.SIZE] != digest or not chain.follows(
            before, Event(*fields), link, chain.unpack_notes(note and note[0])
        ):
            raise ValueError(f"store: {path}: its last event was altered; see `recurrank log verify`")
    return int(seq)
