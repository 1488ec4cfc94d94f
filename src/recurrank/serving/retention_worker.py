"""A process that prepares the removal of old events: it reads the store, and writes nothing but the archive.

1. *Verify.* For every ranker the log is folded from its last verified snapshot up to a newer one, which has to have the same
   bytes. Only events that such a snapshot covers may go.
2. *Archive.* These events, as far as they are old enough, are added to the archive as one step.

It is a process of its own, at a low priority, so that neither takes Python's lock from the requests. The server
(``retention.py``) hands it an :class:`Order` and removes nothing before it has answered.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec

from recurrank.plugins import load_inherited
from recurrank.serving import chain
from recurrank.serving.archive import Archive, day_of
from recurrank.serving.events import CHANGES, Kind
from recurrank.serving.fold import Fold, intact, unpack_catalogue
from recurrank.serving.history import CHUNK, first_fold, load_fold
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store import Store, StoreError, open_store
from recurrank.serving.store.base import Floor, Pin, StoredRanker

TOGETHER = 64
"""Rankers that are folded in one pass over the log."""

LARGEST = 5_000_000
"""Events in one step."""


class Order(msgspec.Struct, frozen=True):
    """Archive events up to ``until``; drop them where there is no archive."""

    store: str
    archive: str | None
    until: int


class Prepared(msgspec.Struct, frozen=True):
    """The new floor, and which snapshots were verified; or why nothing may go."""

    floor: Floor | None = None
    verified: dict[int, int] = {}
    fault: str | None = None


def prepare(store: Store, order: Order) -> Prepared:
    """Verify snapshots and archive what they cover. ValueError for what may not go, with the reason."""
    floor = store.floor()
    verified = _verified(store, floor)
    target = order.until
    archive = Archive(order.archive) if order.archive else None
    if archive is not None:
        target = _agreed(store, archive, floor, target)
    step = _Step(store, floor, verified, target)
    if archive is not None and archive.manifest().last == floor.seq:
        archive.add(floor.digest, step.events())
    else:
        for _ in step.events():
            pass
        if archive is not None and step.last != target:
            raise ValueError(f"archive: its events up to {target} are not covered by verified snapshots yet")
    if step.last == floor.seq:
        return Prepared(verified=verified)
    opened = sorted(step.open)
    packed = b"".join(seq.to_bytes(8, "little") for seq in opened)
    seal = chain.seal(step.open[seq] for seq in opened)
    return Prepared(Floor(step.last, step.digest, packed, seal, order.archive, step.changes), verified)


def _verified(store: Store, floor: Floor) -> dict[int, int]:
    """Rankers, and the event up to which each has a snapshot that equals a replay."""
    rankers = {stored.number: stored for stored in store.rankers()}
    start = {one.ranker: one.seq for one in store.pins() if one.pin == Pin.VERIFIED and one.ranker in rankers}
    goal = {one.ranker: one.seq for one in store.pins() if one.pin == Pin.CANDIDATE and one.ranker in rankers}
    waiting = sorted(goal, key=lambda ranker: start.get(ranker, 0))
    for first in range(0, len(waiting), TOGETHER):
        part = {ranker: goal[ranker] for ranker in waiting[first : first + TOGETHER]}
        _replay(store, floor, [rankers[ranker] for ranker in part], start, part)
        start |= part
    return start


def _replay(store: Store, floor: Floor, rankers: list[StoredRanker], start: dict[int, int], goal: dict[int, int]) -> None:
    """Fold the log for these rankers, from one snapshot to another; ValueError where the bytes differ."""
    folds = {stored.number: _begun(store, stored, start.get(stored.number)) for stored in rankers}
    after, last = max(floor.seq, min(fold.seq for fold in folds.values())), max(goal.values())
    while after < last and (events := store.events(after, CHUNK)):
        by_ranker: dict[int, list[Any]] = {}
        for event in events:
            if event.ranker in folds and event.seq <= goal[event.ranker]:
                by_ranker.setdefault(event.ranker, []).append(event)
        for ranker, part in by_ranker.items():
            folds[ranker].apply(part)
        after = events[-1].seq
    for stored in rankers:
        snapshot = store.snapshot(stored.number, goal[stored.number])
        if snapshot is None:
            raise ValueError(f"ranker {stored.name!r}: its snapshot after event {goal[stored.number]} is gone")
        if not intact(stored.number, *snapshot) or folds[stored.number].save() != snapshot.state:
            raise ValueError(f"ranker {stored.name!r}: the snapshot after event {snapshot.seq} is not what the log gives")


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
    """The event up to which to archive. ValueError where the archive is not one of this log.

    Where a step was added and the floor not raised, because a process was killed in between, it is that step's last event.
    """
    manifest = archive.manifest()
    if manifest.last < floor.seq:
        raise ValueError(f"archive: {archive.address} ends with event {manifest.last}, the log begins after {floor.seq}")
    for step in manifest.steps:
        if step.last == floor.seq and step.digest != floor.digest.hex():
            raise ValueError(f"archive: {archive.address} is not one of this log")
        if step.last > floor.seq:
            there = store.raw(step.last - 1, 1)
            link = there[0][-1] if there and there[0][0] == step.last else None
            if step.first != floor.seq + 1 or (link or chain.START)[: chain.SIZE].hex() != step.digest:
                raise ValueError(
                    f"archive: {archive.address} has events {step.first} to {step.last}, which this log does not have; "
                    "give another archive"
                )
            return step.last
    return target


class _Step:
    """The events that go together: covered by snapshots, of one day, and old enough."""

    def __init__(self, store: Store, floor: Floor, verified: dict[int, int], until: int) -> None:
        self._store, self._until = store, until
        self._living = {stored.number for stored in store.rankers()}
        self._verified = verified
        self.last, self.digest, self.changes = floor.seq, floor.digest, dict(floor.changes)
        before = set(floor.open_events())
        self.open: dict[int, tuple[Any, ...]] = {}  # slates that are open after the last event: the events that served them
        after = 0
        while before and (found := store.raw(after, CHUNK)) and after < floor.seq:
            self.open |= {row[0]: row for row in found if row[0] in before}
            after = found[-1][0]

    def events(self) -> Iterator[tuple[Any, ...]]:
        day: str | None = None
        first = after = self.last
        while after < self._until and (found := self._store.raw(after, CHUNK)):
            for row in found:
                seq, ranker, at = row[0], row[1], row[6]
                day = day or day_of(at)
                covered = ranker not in self._living or seq <= self._verified.get(ranker, 0)
                if seq > self._until or not covered or day_of(at) > day or seq - first > LARGEST:
                    return
                self._follow(row)
                yield row
            after = found[-1][0]

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


def answer(order: Order) -> Prepared:
    """What becomes of an order."""
    try:
        with closing(open_store(order.store, read_only=True)) as store:
            return prepare(store, order)
    except (ValueError, OSError, StoreError) as error:
        return Prepared(fault=" ".join(str(error).split()))


def main() -> None:
    """Read an order from standard input, answer on standard output; end when whoever gave the order does."""
    os.nice(10)
    load_inherited()
    given = sys.stdin.buffer
    order = msgspec.msgpack.decode(given.read(int.from_bytes(given.read(8), "little")), type=Order)
    threading.Thread(target=_end_with, args=(given.fileno(),), daemon=True).start()
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer(order)))
    sys.stdout.buffer.flush()
    os._exit(0)  # the other thread waits for input still


def _end_with(pipe: int) -> None:
    """End at once when the other side of a pipe is closed: two workers must not write to one archive."""
    while os.read(pipe, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
