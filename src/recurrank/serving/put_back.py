"""Put archived events back into the log of a SQLite file: afterwards it has all events, as if none had ever left it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from recurrank.serving import chain
from recurrank.serving.archive import Archive
from recurrank.serving.archive_files import address_of
from recurrank.serving.events import Event, Kind
from recurrank.serving.known_archives import NOTE, unpack
from recurrank.serving.store.records import Floor, Status
from recurrank.serving.store.sql import FLOOR, FLOOR_ITEMS

_INSERT = "INSERT OR REPLACE INTO slates VALUES (?, ?, ?, ?, ?)"


def last_before(moment: float, floor: Floor, where: str) -> int:
    """The last archived event at or before a time; 0 if there is none."""
    archive = Archive(where)
    archive.check(floor.seq, floor.digest)
    return max((row[0] for row in archive.events(floor.seq) if row[6] <= moment), default=0)


def put_events_back(database: sqlite3.Connection, where: str, floor: Floor, until: int) -> int:
    """Put the archive's events up to ``until`` back into the log, and remove its floor; returns their number.

    :func:`write_rows` writes the rows of slates, once the log ends where it should.
    """
    last = min(until, floor.seq)
    before = database.total_changes
    note = database.execute("SELECT value FROM meta WHERE name = ?", (chain.REPLACED,)).fetchone()
    rows = (row for row in _followed(where, floor, chain.unpack_notes(note and note[0])) if row[0] <= last)
    database.executemany("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    count = database.total_changes - before
    present = database.execute("SELECT count(*) FROM events WHERE seq <= ?", (last,)).fetchone()[0]
    if present != last:
        raise ValueError(f"archive: {where}: {last - present:,} of the events up to {last} are missing")
    database.execute("DELETE FROM meta WHERE name = ? OR name LIKE ?", (FLOOR, f"{FLOOR_ITEMS}%"))
    note = database.execute("SELECT value FROM meta WHERE name = ?", (NOTE,)).fetchone()
    archives = list(dict.fromkeys([*unpack(note and note[0]), address_of(where)]))  # an erasure must still find it
    database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (NOTE, msgspec.msgpack.encode(archives)))
    return count


def _followed(where: str, floor: Floor, notes: dict[int, bytes]) -> Iterator[tuple[Any, ...]]:
    """The archive's events up to the floor. ValueError if the log does not follow from them."""
    archive, last, before = Archive(where), 0, chain.START
    archive.check(floor.seq, floor.digest)
    for *fields, link in archive.events(floor.seq):
        event = Event(*fields)
        if event.seq > floor.seq:
            break
        if event.seq != last + 1 or (link is not None and not chain.follows(before, event, link, notes)):
            raise ValueError(f"archive: {where}: event {event.seq} does not follow from event {last}")
        last, before = event.seq, before if link is None else link[: chain.SIZE]
        yield (*fields, link)
    if (last, before) != (floor.seq, floor.digest):
        raise ValueError(f"archive: {where} is not one of this log: what follows event {floor.seq} does not follow from it")


def write_rows(database: sqlite3.Connection) -> None:
    """Write the rows of slates of all rankers that are not deleted, as the whole log determines them.

    An id that was reused after its first slate had left the log gets the row of the newer slate.
    """
    living = {number for (number,) in database.execute("SELECT number FROM rankers WHERE NOT deleted")}
    events = "SELECT seq, ranker, kind, served, clicks, link FROM events WHERE served > 0 OR kind = ? ORDER BY seq"
    older = _older_rows(database)
    database.execute("DELETE FROM slates")
    opened: dict[int, tuple[str, int, bytes]] = {}  # open slates: id, ranker and clicks so far
    for seq, ranker, kind, served, clicks, link in database.execute(events, (int(Kind.SERVED),)):
        claim = (link or b"")[chain.SIZE :]
        if ranker not in living:
            continue
        if kind == Kind.SERVED:
            name = chain.slate_of(claim) or older.get(seq, ("", 0))[0]
            if not name:
                raise ValueError(f"at: the id of the slate of event {seq}, of an older version, is not known; give a later one")
            opened[seq] = (name, ranker, b"")
        elif kind == Kind.REPORTED:
            opened[served] = (*opened[served][:2], clicks)
        else:
            name, _, _ = opened.pop(served)
            ended = Status.EXPIRED if kind == Kind.DROPPED else Status.LEARNED
            status = claim[0] if claim else older.get(served, (name, int(ended)))[1]
            database.execute(_INSERT, (name, served, ranker, status, clicks))
    rows = ((name, seq, ranker, int(Status.OPEN), clicks) for seq, (name, ranker, clicks) in opened.items())
    database.executemany(_INSERT, rows)


def _older_rows(database: sqlite3.Connection) -> dict[int, tuple[str, int]]:
    """Ids and statuses of slates by the events that served them; empty if all of these events have the id."""
    marks = database.execute("SELECT link FROM events WHERE kind = ?", (int(Kind.SERVED),))
    if all(chain.slate_of((link or b"")[chain.SIZE :]) is not None for (link,) in marks):
        return {}
    return {served: (slate, status) for slate, served, status in database.execute("SELECT slate, served, status FROM slates")}
