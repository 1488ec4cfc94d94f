"""Restore a store from a backup, as of the backup or an earlier event: the log is cut there, and the other rows follow it.

If that event, or one that served a slate that was open then, has left the log, the archive's events are put back first
(``put_back.py``).
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from recurrank.serving import chain
from recurrank.serving.backup import check_copy
from recurrank.serving.checkpoint import NAME as CHECKPOINT
from recurrank.serving.events import CHANGES, Kind
from recurrank.serving.files import (
    SCHEME,
    check_free,
    give_to_owner,
    keys_of,
    linked,
    move_durably,
    partial_of,
    path_of,
    remove_partial,
)
from recurrank.serving.put_back import last_before, put_events_back, write_rows
from recurrank.serving.store.records import Floor, Status, StoreError
from recurrank.serving.store.sql import FLOOR
from recurrank.serving.store.sqlite import migrate


class Restored(NamedTuple):
    """The restored store: its path, its last event, the number of later events left out, whether it has keys, and the number
    of events from the archive.
    """

    path: Path
    events: int
    left_out: int
    keys: bool
    from_archive: int = 0


def restore(source: Path, address: str, at: str | None = None, archive: str | None = None) -> Restored:
    """Create a store from the backup ``source``, atomically; ``at`` is the last event to be restored, or a time.

    ``archive`` is the address of the log's archive, by default the one that the store names. Raises ValueError, and creates
    nothing, if that is impossible.
    """
    source = linked(source)
    path = _target(source, address)
    partial, put_back = partial_of(path), 0
    remove_partial(path)
    try:
        shutil.copy(source, partial)
        with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as database:
            check_copy(database, source)
            migrate(database)
            last = database.execute("SELECT seq FROM head").fetchone()[0]
            floor = _floor(database)
            archive = archive or floor.archive
            until = last if at is None else _event(database, at, last, floor, archive)
            if until < last:
                database.execute("BEGIN IMMEDIATE")
                put_back = _cut(database, until, floor, archive)
                database.execute("COMMIT")
        give_to_owner(partial, path.absolute().parent)
        if keys_of(source).is_file():
            shutil.copy(keys_of(source), keys_of(partial))
            give_to_owner(keys_of(partial), path.absolute().parent)
            move_durably(keys_of(partial), keys_of(path))
        move_durably(partial, path)
    except (sqlite3.Error, StoreError) as error:
        raise ValueError(f"{source}: it cannot be restored: {error}") from error
    finally:
        remove_partial(path)
    return Restored(path, until, last - until, keys_of(path).is_file(), put_back)


def _target(source: Path, address: str) -> Path:
    """The file to create; ValueError if that is impossible."""
    if address.startswith(("postgresql://", "postgres://")):
        raise ValueError("store: PostgreSQL has its own ways to restore a database; use pg_restore, see the handbook")
    if not address.startswith(SCHEME):
        raise ValueError(f"store: {address!r} is not a file; give sqlite:///recurrank.db")
    path = path_of(address)
    if not source.is_file():
        raise ValueError(f"{source}: there is no such file; give what `recurrank backup` wrote")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: its folder does not exist; make it first")
    check_free(path, source, "stop its server and move it away first")
    return path


def _floor(database: sqlite3.Connection) -> Floor:
    stored = database.execute("SELECT value FROM meta WHERE name = ?", (FLOOR,)).fetchone()
    return msgspec.msgpack.decode(stored[0], type=Floor) if stored else Floor()


def _event(database: sqlite3.Connection, at: str, last: int, floor: Floor, archive: str | None) -> int:
    """The last event to be restored."""
    if re.fullmatch(r"[0-9]{1,18}", at):
        if not 0 < int(at) <= last:
            raise ValueError(f"at: there is no event {at}; the backup has those up to {last}")
        return int(at)
    try:
        moment = datetime.fromisoformat(at)
    except ValueError as error:
        raise ValueError(f"at: {at!r} is neither an event's number nor a time such as 2026-11-18T06:00:00") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    found = database.execute("SELECT max(seq) FROM events WHERE at <= ?", (moment.timestamp(),)).fetchone()[0] or 0
    if found <= floor.seq and archive is not None:
        found = last_before(moment.timestamp(), floor, archive)
    if not found:
        raise ValueError(f"at: there is no event before {at}")
    return int(found)


def _cut(database: sqlite3.Connection, until: int, floor: Floor, archive: str | None) -> int:
    """Remove all events after ``until`` and their effects; returns the number of events that the archive gave."""
    if archive is None and until <= floor.seq:
        raise ValueError(
            f"at: the log of this backup begins after event {floor.seq}, older ones were dropped; give a later one"
        )
    gone = "SELECT name FROM rankers WHERE number IN (SELECT ranker FROM events WHERE seq > ? AND kind = ?)"
    for (name,) in database.execute(gone, (until, int(Kind.DELETED))):
        raise ValueError(f"at: ranker {name!r} was deleted after event {until}, its items with it; give an older backup")
    put_back = None
    if archive is not None and (until <= floor.seq or min(_ended_later(database, until), default=until) <= floor.seq):
        put_back, floor = put_events_back(database, archive, floor, until), Floor()
    else:
        _check_snapshots(database, floor, until)
        _reopen(database, floor, until)
    for (number,) in database.execute(
        "SELECT ranker FROM events WHERE seq > ? AND kind = ?", (until, int(Kind.CREATED))
    ).fetchall():
        for table, column in (("rankers", "number"), ("catalogues", "ranker"), ("snapshots", "ranker")):
            database.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
    database.execute("DELETE FROM snapshots WHERE seq > ?", (until,))
    database.execute("DELETE FROM slates WHERE served > ?", (until,))
    database.execute("DELETE FROM events WHERE seq > ?", (until,))
    kinds = ", ".join(str(int(kind)) for kind in CHANGES)
    for (number,) in database.execute("SELECT number FROM rankers WHERE stock > ?", (until,)).fetchall():
        last = f"SELECT coalesce(max(seq), 0) FROM events WHERE kind IN ({kinds}) AND ranker = ?"
        changed = database.execute(last, (number,)).fetchone()[0] or floor.changes.get(number, 0)
        database.execute("UPDATE rankers SET stock = ? WHERE number = ?", (changed, number))
        database.execute("DELETE FROM meta WHERE name = ?", (f"items/{number}",))  # the log still has the changes
    database.execute("DELETE FROM meta WHERE name = ?", (CHECKPOINT,))
    link = database.execute("SELECT link FROM events WHERE seq = ?", (until,)).fetchone()[0]
    database.execute(
        "UPDATE head SET seq = ?, digest = ?, first = min(first, ?)", (until, (link or chain.START)[: chain.SIZE], until + 1)
    )
    if put_back is not None:
        write_rows(database)
    return put_back or 0


def _check_snapshots(database: sqlite3.Connection, floor: Floor, until: int) -> None:
    """If old events were dropped, check that every ranker has a snapshot that is old enough."""
    if floor.seq == 0 or floor.archive is not None:
        return
    query = "SELECT name FROM rankers WHERE NOT deleted AND number NOT IN (SELECT ranker FROM snapshots WHERE seq <= ?)"
    made = "SELECT ranker FROM events WHERE kind = 1 AND seq > ?"
    for (name,) in database.execute(f"{query} AND number NOT IN ({made})", (until, floor.seq)):
        raise ValueError(
            f"at: ranker {name!r} has no snapshot before event {until}, and its events were dropped; give a later one"
        )


_LATER = "SELECT DISTINCT served FROM events WHERE seq > ? AND served > 0 AND served <= ?"


def _ended_later(database: sqlite3.Connection, until: int) -> list[int]:
    """Slates that were served up to ``until``, and reported on or ended after it."""
    return [served for (served,) in database.execute(_LATER, (until, until))]


def _reopen(database: sqlite3.Connection, floor: Floor, until: int) -> None:
    """Reset the rows of slates that were reported on or ended after ``until``."""
    later = _ended_later(database, until)
    if later and min(later) <= floor.seq:
        raise ValueError(
            f"at: slates that were served before event {floor.seq}, where the log begins, were open then; give a later event"
        )
    query = "SELECT served, clicks FROM events WHERE kind = ? AND seq <= ? ORDER BY seq"
    clicks = dict(database.execute(query, (int(Kind.REPORTED), until)))
    names = {}
    for seq, link in database.execute(f"SELECT seq, link FROM events WHERE seq IN ({_LATER})", (until, until)):
        names[seq] = chain.slate_of((link or b"")[chain.SIZE :])
    if None in names.values():  # written by an older version
        names |= {served: slate for slate, served in database.execute("SELECT slate, served FROM slates")}
    for served in later:
        row = (int(Status.OPEN), clicks.get(served, b""), names[served])
        database.execute("UPDATE slates SET status = ?, clicks = ? WHERE slate = ?", row)
