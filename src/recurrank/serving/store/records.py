"""Records of a store: operations, their outcomes, rows, snapshots, and the floor of the log."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import msgspec

from recurrank.serving import chain
from recurrank.serving.events import Kind


class StoreError(Exception):
    """The store cannot be read or written now; nothing was acknowledged, and a retry may succeed."""


class Locked(StoreError):
    """Another transaction is running, and the caller cannot wait for it."""


class Status(IntEnum):
    """Status of a slate, in its row. The numbers are on disk."""

    OPEN = 0
    LEARNED = 1  # by a final report
    EXPIRED = 2  # its window closed: learned from the clicks so far, or dropped


class Serve(NamedTuple):
    """Serve a slate under this id, unless the id is taken; ``stock`` is the last change of items, rules or mode it includes."""

    slate: str
    ranker: int
    payload: bytes
    stock: int = 0


class Report(NamedTuple):
    """Clicks on a slate, and the positions that were on the screen, if known.

    If ``ranker`` is given, slates of other rankers count as unknown.
    """

    slate: str
    clicks: tuple[int, ...]
    final: bool
    seen: tuple[int, ...] | None = None
    ranker: int | None = None


class Expire(NamedTuple):
    """Close the windows of the slates served by these events; ``learn`` says that no report counts as no click."""

    served: tuple[int, ...]
    learn: bool


class Change(NamedTuple):
    """Change a ranker's items, rules or mode, if the last such change was the event ``after``."""

    ranker: int
    kind: Kind
    payload: bytes
    after: int


Operation = Serve | Report | Expire | Change


class Served(NamedTuple):
    """The slate under the id: the new one, or an existing one; None if the id belongs to another ranker.

    ``stale``: nothing was served, since items, rules or mode have changed after the slate was drawn.
    """

    payload: bytes | None
    stale: bool = False


class Changed(NamedTuple):
    """The event of a change; 0 if another change came first, or if there is no such ranker (``gone``)."""

    seq: int
    gone: bool = False


class Row(NamedTuple):
    """A slate's row and, if asked for, the first four bytes of the slate (``head``)."""

    slate: str
    served: int
    ranker: int
    status: int
    clicks: bytes
    head: bytes = b""


class Living(NamedTuple):
    """A ranker that is not deleted: its positions, and the last event that changed its items, rules or mode."""

    positions: int
    stock: int


class StoredRanker(NamedTuple):
    """A ranker as it was created. ``digest`` recognises a repeated request."""

    number: int
    name: str
    config: bytes
    digest: str
    positions: int


class RankerRow(NamedTuple):
    """A ranker's row as it is stored, also of a deleted ranker, for verification."""

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
    """A ranker's state after the event ``seq``. Readers check the digest."""

    seq: int
    digest: str
    state: bytes


class Pin(IntEnum):
    """Why a snapshot is kept when newer ones come. The numbers are on disk."""

    NONE = 0
    CANDIDATE = 1  # to be compared with a replay of the log
    VERIFIED = 2  # it equals a replay of the log: events before it may go


class Kept(NamedTuple):
    """A stored snapshot: its ranker, its event, and its pin."""

    ranker: int
    seq: int
    pin: int


class Floor(msgspec.Struct, frozen=True):
    """How far back the log reaches: the events up to ``seq`` are in the archive, or were dropped.

    A few of them stay in the log: those that created or deleted a ranker, and those that served a slate that was open then, or
    whose window is still open.

    Attributes:
        seq: the last event that may be missing in the log; 0 if none is.
        digest: the digest of that event in the chain.
        open: the events up to it that served a slate that was open then, 8 bytes each.
        seal: a digest of those events, to check them without the archive (:func:`~recurrank.serving.chain.seal`).
        archive: the address where the events went; None if they were dropped.
        changes: by ranker, the last event up to it that changed items, rules or mode.

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
    """An event without its payload, for retention."""

    seq: int
    ranker: int
    kind: int
    at: float
    link: bytes | None
