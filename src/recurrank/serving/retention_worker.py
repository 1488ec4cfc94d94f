"""A process that prepares the removal of old events: it reads the store, and writes only to the archive.

1. *Verify.* For every ranker, fold the log from its last verified snapshot up to a newer one, which must have the same bytes.
   Only events that such a snapshot covers may be removed.
2. *Archive.* Add these events, as far as they are old enough, to the archive as one step.
3. *Survey.* List the events below the floor that may be removed.

It is a separate process, with a low priority, so that it does not compete with requests for Python's lock: in the server, each
row that is read might have to wait for it. The server (``retention.py``) sends one :class:`Order` or :class:`Survey` after the
other, and removes nothing before the answer.
"""

from __future__ import annotations

import gc
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any

import msgspec

from recurrank.plugins import load_inherited
from recurrank.serving import chain
from recurrank.serving.archive import Archive, day_of
from recurrank.serving.checkpoint import split
from recurrank.serving.events import CHANGES, Kind
from recurrank.serving.fold import Fold, intact, unpack_catalogue
from recurrank.serving.history import CHUNK, agrees, first_fold, load_fold
from recurrank.serving.known_archives import next_step, predecessor
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store import Store, StoreError, open_store
from recurrank.serving.store.records import Floor, Line, Pin, StoredRanker

TOGETHER = 64
"""Most rankers that are folded in one pass over the log."""

LARGEST = 5_000_000
"""Most events in one step."""


SURVEYED, BATCH = 50_000, 256
"""Events read in one survey, and events removed in one transaction."""


class Order(msgspec.Struct, frozen=True, tag=True):
    """Archive events up to ``until``; drop them if there is no archive.

    The first event whose time is between those of ``young`` stays, and all events after it, wherever ``until`` is: clocks may
    have been wrong when events were written. Times that are later still, in the future, say nothing.
    """

    store: str
    archive: str | None
    until: int
    young: tuple[float, float] | None = None


class Prepared(msgspec.Struct, frozen=True):
    """The new floor and the verified snapshots; or why nothing may be removed.

    ``waits_for`` is the ranker whose next event is not covered by a verified snapshot, if that is why there is no new floor.
    """

    floor: Floor | None = None
    verified: dict[int, int] = {}
    waits_for: int | None = None
    fault: str | None = None


class Survey(msgspec.Struct, frozen=True, tag=True):
    """List the events after ``after`` that may be removed at the time ``now``."""

    store: str
    after: int
    now: float


class Batch(msgspec.Struct, frozen=True):
    """Events to remove in one transaction, and rows of slates, by their ids and the events that served them."""

    events: list[int]
    slates: list[tuple[str, int]]


class Gone(msgspec.Struct, frozen=True):
    """Events up to ``last`` that may be removed; ``nameless`` says that the events of some slates lack their ids."""

    last: int = 0
    batches: list[Batch] = []
    nameless: bool = False
    fault: str | None = None


def prepare(store: Store, order: Order) -> Prepared:
    """Verify snapshots and archive the events they cover. ValueError, with the reason, if nothing may be removed."""
    floor = store.floor()
    verified = _verified(store, floor)
    target = order.until
    archive = Archive(order.archive) if order.archive else None
    if archive is not None:
        target = _agreed(store, archive, floor, target)
    step = _Step(store, floor, verified, target, order.young if target == order.until else None)
    if archive is not None and archive.manifest().last == floor.seq:
        archive.add(floor.digest, step.events())
    else:
        for _ in step.events():
            pass
        if archive is not None and step.last != target:
            raise ValueError(f"archive: its events up to {target} are not covered by verified snapshots yet")
    if step.last == floor.seq:
        return Prepared(verified=verified, waits_for=step.waits_for)
    opened = sorted(step.open)
    packed = b"".join(seq.to_bytes(8, "little") for seq in opened)
    seal = chain.seal(step.open[seq] for seq in opened)
    address = None if archive is None else archive.address
    return Prepared(Floor(step.last, step.digest, packed, seal, address, step.changes), verified)


def _verified(store: Store, floor: Floor) -> dict[int, int]:
    """By ranker, the event of its newest snapshot that equals a replay."""
    rankers = {stored.number: stored for stored in store.rankers()}
    start = {kept.ranker: kept.seq for kept in store.pins() if kept.pin == Pin.VERIFIED and kept.ranker in rankers}
    goal = {kept.ranker: kept.seq for kept in store.pins() if kept.pin == Pin.CANDIDATE and kept.ranker in rankers}
    waiting = sorted(goal, key=lambda ranker: start.get(ranker, 0))
    for first in range(0, len(waiting), TOGETHER):
        part = {ranker: goal[ranker] for ranker in waiting[first : first + TOGETHER]}
        _replay(store, floor, [rankers[ranker] for ranker in part], start, part)
        start |= part
    return start


def _replay(store: Store, floor: Floor, rankers: list[StoredRanker], start: dict[int, int], goal: dict[int, int]) -> None:
    """Fold the log for these rankers, from one snapshot to another; ValueError if the bytes differ."""
    folds = {stored.number: _begun(store, stored, start.get(stored.number)) for stored in rankers}
    together, alone = split({number: max(floor.seq, fold.seq) for number, fold in folds.items()})
    for ranker in alone:
        _fold(store, {ranker: folds[ranker]}, goal, max(floor.seq, folds[ranker].seq), ranker)
    _fold(store, folds, goal, together)
    for stored in rankers:
        snapshot = store.snapshot(stored.number, goal[stored.number])
        if snapshot is None:
            raise ValueError(f"ranker {stored.name!r}: its snapshot after event {goal[stored.number]} is gone")
        if not intact(stored.number, *snapshot) or not agrees(store, stored, folds[stored.number], snapshot):
            raise ValueError(f"ranker {stored.name!r}: the snapshot after event {snapshot.seq} is not what the log gives")


def _fold(store: Store, folds: dict[int, Fold], goal: dict[int, int], after: int, alone: int | None = None) -> None:
    """Fold the events of these rankers, each up to its goal; those already folded are skipped."""
    last = max(goal[ranker] for ranker in folds)
    while after < last and (events := store.events(after, CHUNK, alone)):
        by_ranker: dict[int, list[Any]] = {}
        for event in events:
            if event.ranker in folds and event.seq <= goal[event.ranker]:
                by_ranker.setdefault(event.ranker, []).append(event)
        for ranker, part in by_ranker.items():
            folds[ranker].apply(part)
        after = events[-1].seq


def _begun(store: Store, stored: StoredRanker, seq: int | None) -> Fold:
    """The fold of a ranker at its last verified snapshot, or at its start."""
    spec, catalogue = LoggedSpec.unpack(stored.config), unpack_catalogue(store.catalogue(stored.number))
    snapshot = None if seq is None else store.snapshot(stored.number, seq)
    if snapshot is not None and intact(stored.number, *snapshot):
        try:
            return load_fold(store, stored, spec, catalogue, snapshot)
        except ValueError:  # of another format
            pass
    return first_fold(store, stored, spec, catalogue)


def _agreed(store: Store, archive: Archive, floor: Floor, target: int) -> int:
    """The event up to which to archive. ValueError if the archive does not belong to this log.

    If a process was killed after it added a step and before it raised the floor, it is the last event of that step.
    """
    old = predecessor(store, archive, floor)
    if old is not None:
        archive.begin(old, floor.seq, floor.digest)
    step = next_step(store, archive, floor)
    return target if step is None else step.last


class _Step:
    """The events of one step: covered by snapshots, of one day, and old enough."""

    def __init__(
        self, store: Store, floor: Floor, verified: dict[int, int], until: int, young: tuple[float, float] | None
    ) -> None:
        self._store, self._until = store, until
        self._young_from, self._now = young or (float("inf"), float("inf"))
        self._living = {stored.number for stored in store.rankers()}
        self._verified = verified
        self.last, self.digest, self.changes = floor.seq, floor.digest, dict(floor.changes)
        self.waits_for: int | None = None
        self.open: dict[int, tuple[Any, ...]] = {}  # by seq, the events that served slates that are open after the last event
        for seq in floor.open_events():
            self.open |= {row[0]: row for row in store.raw(seq - 1, 1) if row[0] == seq}

    def events(self) -> Iterator[tuple[Any, ...]]:
        day: str | None = None
        first = after = self.last
        while after < self._until and (rows := self._store.raw(after, CHUNK)):
            for row in rows:
                seq, ranker, at = row[0], row[1], row[6]
                if self._young_from <= at <= self._now:
                    return
                day = day or day_of(at)
                covered = ranker not in self._living or seq <= self._verified.get(ranker, 0)
                self.waits_for = None if covered else ranker
                if seq > self._until or not covered or day_of(at) > day or seq - first > LARGEST:
                    return
                self._follow(row)
                yield row
            after = rows[-1][0]

    def _follow(self, row: tuple[Any, ...]) -> None:
        seq, ranker, kind, served = row[:4]
        if kind == Kind.SERVED:
            self.open[seq] = row
        elif kind in (Kind.LEARNED, Kind.DROPPED):
            self.open.pop(served, None)
        elif kind in CHANGES:
            self.changes[ranker] = seq
        elif kind == Kind.DELETED:
            self.open = {seq: row for seq, row in self.open.items() if row[1] != ranker}
        self.last = seq
        if row[-1] is not None:
            self.digest = row[-1][: chain.SIZE]


def surveyed(store: Store, after: int, now: float) -> Gone:
    """Survey the events after ``after`` at the time ``now``."""
    floor = store.floor()
    windows = {stored.number: LoggedSpec.unpack(stored.config).window_seconds for stored in store.rankers()}
    lines, opened = store.lines(after, floor.seq, SURVEYED), set(floor.open_events())
    gone = [line for line in lines if not stays(line, opened, windows, now)]
    batches, nameless = [], False
    for first in range(0, len(gone), BATCH):
        part = gone[first : first + BATCH]
        slates = [(chain.slate_of((line.link or b"")[chain.SIZE :]), line.seq) for line in part if line.kind == Kind.SERVED]
        named = [(name, seq) for name, seq in slates if name is not None]
        nameless |= len(named) < len(slates)
        batches.append(Batch([line.seq for line in part], named))
    return Gone(lines[-1].seq if len(lines) == SURVEYED else floor.seq, batches, nameless)


def stays(line: Line, opened: set[int], windows: dict[int, float], now: float) -> bool:
    """Whether an event below the floor stays in the log.

    Events that created or deleted a ranker stay: they are few. The event that served a slate stays if the slate was open at the
    floor, since it ends above; and while the slate's window is open, so that its id is known if the request is repeated.
    """
    if line.kind == Kind.SERVED:
        return line.seq in opened or (line.ranker in windows and line.at + windows[line.ranker] > now)
    return line.kind in (Kind.CREATED, Kind.DELETED)


def answer(asked: Order | Survey) -> Prepared | Gone:
    """Carry out an order or a survey; errors become the fault of the answer."""
    try:
        with closing(open_store(asked.store, read_only=True)) as store:
            return prepare(store, asked) if isinstance(asked, Order) else surveyed(store, asked.after, asked.now)
    except (ValueError, OSError, StoreError) as error:
        fault = " ".join(str(error).split())
        return Prepared(fault=fault) if isinstance(asked, Order) else Gone(fault=fault)


def main(politeness: int) -> None:
    """Read orders from standard input, answer on standard output; end when the server does.

    Output of plugins goes to standard error: on standard output it would be taken for an answer.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.nice(politeness)
    gc.disable()  # collections walk over all rows read, which takes a third of the time
    load_inherited()
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    while True:
        answered = answer(msgspec.msgpack.decode(orders.get(), type=Order | Survey))
        write_message(answers, answered)
        del answered
        gc.collect()


def _listen(orders: queue.SimpleQueue[bytes]) -> None:
    """Queue orders; exit at once when the server is gone: two workers must not write to one archive."""
    while message := read_message(sys.stdin.buffer):
        orders.put(message)
    os._exit(1)


def write_message(pipe: IO[bytes], message: Order | Survey | Prepared | Gone) -> None:
    """Write a message, preceded by its length."""
    packed = msgspec.msgpack.encode(message)
    pipe.write(len(packed).to_bytes(8, "little") + packed)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> bytes:
    """The next message; empty at the end."""
    length = int.from_bytes(pipe.read(8), "little")
    message = pipe.read(length)
    return message if len(message) == length else b""


if __name__ == "__main__":
    main(int(sys.argv[1]))
