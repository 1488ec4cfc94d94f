"""Which rows of large tables have changed, so that a copy in the memory of an earlier one takes over only those.

A state with tables of many rows, of which a round changes a few, has a field ``changes``. What writes to row r of one of them
calls ``touch(changes, r)``, which costs one store. Rows are counted in blocks of ``ROWS``, and time in copies: ``when`` has the
time of each block's last change. A copy takes over these times, and remembers its source and the time; from then on both
go on at the next time. So a block of the two can differ only if one of them has changed it since:

    source.when[b] > SINCE   or   copy.when[b] > SINCE.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Ints
from recurrank._compiled import hot

SHIFT = 5
ROWS = 1 << SHIFT
FEW = 8
"""Blocks are copied one by one if at most one in FEW differs."""
NOW, COUNT, OWN, SOURCE, SINCE = 0, 1, 2, 3, 4

Table = np.ndarray[Any, Any]


class Changes(NamedTuple):
    """What has changed when, in tables with the same number of rows (a table of K x L numbers can have K L rows)."""

    when: Ints  # (blocks,) the time of the last change; 0: none yet
    about: Ints  # (5,) the time; how many rows; the number of this state; that of the state that it was copied from, and when


def no_changes(rows: int) -> Changes:
    """The changes of new tables."""
    return Changes(np.zeros(-(-rows // ROWS), np.int64), _about(1, rows))


@hot
def touch(changes: Changes, row: int) -> None:
    """Note that a row of the tables is changed."""
    changes.when[row >> SHIFT] = changes.about[NOW]


def copied_changes(changes: Changes, into: Changes | None = None) -> Changes:
    """The changes of a copy of the tables made now, in the memory of ``into`` if that has room."""
    now = int(changes.about[NOW])
    changes.about[NOW] = now + 1
    about = _about(now + 1, changes.about[COUNT], changes.about[OWN], now)
    if into is None or into.when.shape != changes.when.shape:
        return Changes(changes.when.copy(), about)
    into.when[:], into.about[:] = changes.when, about
    return into


def renew(room: Table, old: Changes, table: Table, changes: Changes) -> None:
    """Make ``room``, a table of the same shape with the changes ``old``, equal to ``table``."""
    rows, since = int(changes.about[COUNT]), old.about[SINCE]
    whole, width = rows // ROWS, ROWS * (table.size // rows)  # whole blocks, and how many numbers each has
    is_copy = old.about[SOURCE] == changes.about[OWN]
    blocks = np.flatnonzero((changes.when > since) | (old.when > since)) if is_copy else np.arange(whole)
    if FEW * len(blocks) > whole:
        np.copyto(room, table)
        return
    blocks, end = blocks[blocks < whole], whole * width
    source, target = table.reshape(-1), room.reshape(-1)
    target[:end].reshape(whole, width)[blocks] = source[:end].reshape(whole, width)[blocks]
    target[end:] = source[end:]


def _about(now: int, rows: int, source: int = 0, since: int = 0) -> Ints:
    return np.array([now, rows, secrets.randbits(62) + 1, source, since], np.int64)
