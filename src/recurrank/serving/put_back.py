"""Archived events put back into a log, in a SQLite file: afterwards it has them all, as if none had ever left it."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from typing import Any

from recurrank.serving import chain
from recurrank.serving.archive import Archive
from recurrank.serving.events import Kind
from recurrank.serving.store.base import Floor, Status
from recurrank.serving.store.sql import FLOOR, FLOOR_ITEMS

_INSERT = "INSERT OR REPLACE INTO slates VALUES (?, ?, ?, ?, ?)"


def last_before(moment: float, floor: Floor, where: str) -> int:
    """The last archived event at a time or before it; 0 where there is none."""
    return max((row[0] for row in _archived(where, floor, floor.seq) if row[6] <= moment), default=0)


def put_events_back(database: sqlite3.Connection, where: str, floor: Floor, until: int) -> int:
    """Put the events of the archive up to one back into the log, which has no floor then; how many.

    Slates' rows follow with :func:`write_rows`, when the log ends where it should.
    """
    last = min(until, floor.seq)
    before = database.total_changes
    database.executemany("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _archived(where, floor, last))
    count = database.total_changes - before
    there = database.execute("SELECT count(*) FROM events WHERE seq <= ?", (last,)).fetchone()[0]
    if there != last:
        raise ValueError(f"archive: {where}: {last - there:,} of the events up to {last} are missing")
    database.execute("DELETE FROM meta WHERE name = ? OR name LIKE ?", (FLOOR, f"{FLOOR_ITEMS}%"))
    return count


def _archived(where: str, floor: Floor, until: int) -> Iterator[tuple[Any, ...]]:
    """The archive's events up to one. ValueError where it is not the archive of this log, or has a gap."""
    archive = Archive(where)
    archive.check(floor.seq, floor.digest)
    return itertools.takewhile(lambda row: row[0] <= until, archive.events(until))


def write_rows(database: sqlite3.Connection) -> None:
    """Write the slates' rows of all rankers that are not deleted, as the whole log says them.

    An id that was used again after its first slate had left the log gets the row of the newer one.
    """
    living = {number for (number,) in database.execute("SELECT number FROM rankers WHERE NOT deleted")}
    events = "SELECT seq, ranker, kind, served, clicks, link FROM events WHERE served > 0 OR kind = ? ORDER BY seq"
    older = _older_rows(database)
    database.execute("DELETE FROM slates")
    opened: dict[int, tuple[str, int, bytes]] = {}  # slates that have not ended: id, ranker and clicks so far
    for seq, ranker, kind, served, clicks, link in database.execute(events, (int(Kind.SERVED),)):
        beside = (link or b"")[chain.SIZE :]
        if ranker not in living:
            continue
        if kind == Kind.SERVED:
            name = chain.slate_of(beside) or older.get(seq, ("", 0))[0]
            if not name:
                raise ValueError(f"at: the id of the slate of event {seq}, of an older version, is not known; give a later one")
            opened[seq] = (name, ranker, b"")
        elif kind == Kind.REPORTED:
            opened[served] = (*opened[served][:2], clicks)
        else:
            name, _, _ = opened.pop(served)
            ended = Status.EXPIRED if kind == Kind.DROPPED else Status.LEARNED
            status = beside[0] if beside else older.get(served, (name, int(ended)))[1]
            database.execute(_INSERT, (name, served, ranker, status, clicks))
    rows = ((name, seq, ranker, int(Status.OPEN), clicks) for seq, (name, ranker, clicks) in opened.items())
    database.executemany(_INSERT, rows)


def _older_rows(database: sqlite3.Connection) -> dict[int, tuple[str, int]]:
    """Ids and statuses by the events that served the slates, where some of these events do not say the id."""
    marks = database.execute("SELECT link FROM events WHERE kind = ?", (int(Kind.SERVED),))
    if all(chain.slate_of((link or b"")[chain.SIZE :]) is not None for (link,) in marks):
        return {}
    return {served: (slate, status) for slate, served, status in database.execute("SELECT slate, served, status FROM slates")}
