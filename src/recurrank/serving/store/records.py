"""What a store takes and gives: operations, what became of them, rows, snapshots, and how far back the log reaches."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import msgspec

from recurrank.serving import chain
from recurrank.serving.events import Kind


class StoreError(Exception):
    """The store cannot be read or written now: nothing was acknowledged, and it may work later."""


class Locked(StoreError):
    """Another transaction is under way, and the caller cannot wait for it."""


class Status(IntEnum):
    """Of a slate, in its row. The numbers are on disk."""

    OPEN = 0
    LEARNED = 1  # by a final report
    EXPIRED = 2  # its window closed: learned from what there was, or dropped


class Serve(NamedTuple):
    """Serve a slate under this id, unless the id is taken; ``stock`` is the last change of items, rules or mode it knows of."""

    slate: str
    ranker: int
    payload: bytes
    stock: int = 0


class Report(NamedTuple):
    """Clicks on a slate; and the positions that were on the screen, where that is known.

    Where ``ranker`` is given, slates of other rankers are unknown to whoever reports.
    """

    slate: str
    clicks: tuple[int, ...]
    final: bool
    seen: tuple[int, ...] | None = None
    ranker: int | None = None


class Expire(NamedTuple):
    """The windows of the slates served by these events have closed; ``learn`` is whether silence counts as no click."""

    served: tuple[int, ...]
    learn: bool


class Change(NamedTuple):
    """Change a ranker's items, rules or mode, if the last such change is that of the event ``after``."""

    ranker: int
    kind: Kind
    payload: bytes
    after: int


Operation = Serve | Report | Expire | Change


class Served(NamedTuple):
    """The slate under the id: the one asked for, or the one that was there; None when the id is another ranker's.

    ``stale``: nothing was served, since items, rules or the mode have changed since the slate was drawn.
    """

    payload: bytes | None
    stale: bool = False


class Changed(NamedTuple):
    """The event of a change; 0 where another one came first, or where there is no such ranker."""

    seq: int
    gone: bool = False


class Row(NamedTuple):
    """A slate's row, and where it is asked for the first four bytes of the slate."""

    slate: str
    served: int
    ranker: int
    status: int
    clicks: bytes
    head: bytes = b""


class Living(NamedTuple):
    """A ranker that is not deleted: K, and the event of the last change of its items, rules or mode."""

    positions: int
    stock: int


class StoredRanker(NamedTuple):
    """A ranker as it was asked for. ``digest`` tells whether a repeated request is the same."""

    number: int
    name: str
    config: bytes
    digest: str
    positions: int


class RankerRow(NamedTuple):
    """A ranker's row as it is, deleted ones included, for whoever checks it."""

    number: int
    name: str
    config: bytes
    digest: str
    positions: int
    deleted: int
    stock: int


class Head(NamedTuple):
    """The end of the chain: the last event, its digest, and the first event that is chained."""

    seq: int
    digest: bytes
    first: int


class Snapshot(NamedTuple):
    """A ranker's state after the event ``seq``. The digest is checked by its reader."""

    seq: int
    digest: str
    state: bytes


class Pin(IntEnum):
    """Of a snapshot, why it is not forgotten when newer ones come. The numbers are on disk."""

    NONE = 0
    CANDIDATE = 1  # it is being compared with a replay of the log
    VERIFIED = 2  # it equals a replay of the log: events before it may go


class Kept(NamedTuple):
    """Where a snapshot is: its ranker, its event, and its pin."""

    ranker: int
    seq: int
    pin: int


class Floor(msgspec.Struct, frozen=True):
    """How far back the log reaches: the events up to ``seq`` are in the archive, or were dropped.

    A few of them stay in the log: those that created or deleted a ranker, and those that served a slate that was open then or
    whose window has not passed.

    Attributes:
        seq: the last event that the log need not have; 0 where it has all.
        digest: of that event in the chain.
        open: the events up to it that served a slate that was open then, 8 bytes each.
        seal: of those events, so that they can be checked without the archive (:func:`~recurrank.serving.chain.seal`).
        archive: where the events went; None where they were dropped.
        changes: rankers, and the last event up to it that changed their items, rules or mode.

    """

    seq: int = 0
    digest: bytes = chain.START
    open: bytes = b""
    seal: bytes = bytes(chain.SIZE)
    archive: str | None = None
    changes: dict[int, int] = {}

    def open_events(self) -> list[int]:
        """The events of :attr:`open`."""
        return [int.from_bytes(self.open[i : i + 8], "little") for i in range(0, len(self.open), 8)]


class Line(NamedTuple):
    """An event before the floor, without its payload, for whoever removes it."""

    seq: int
    ranker: int
    kind: int
    at: float
    link: bytes | None
