"""Which archives a log has had: the store notes each before it gets an event, so that an erasure finds them all.

There is more than one if the archive was moved, if older events have been dropped since, or if a new one was begun after a
restore.
"""

from __future__ import annotations

import msgspec

from recurrank.serving import chain
from recurrank.serving.archive import Archive, Step
from recurrank.serving.archive_files import address_of
from recurrank.serving.store.base import Store
from recurrank.serving.store.records import Floor

NOTE = "archives"
"""Name of the store's note that lists them."""


def known(store: Store) -> list[str]:
    """Addresses of all archives that may have events of a log."""
    addresses, current = unpack(store.noted_as(NOTE)), store.floor().archive
    return addresses if current is None or address_of(current) in addresses else [*addresses, address_of(current)]


def unpack(noted: bytes | None) -> list[str]:
    """The addresses in the note."""
    return [] if noted is None else msgspec.msgpack.decode(noted, type=list[str])


def remember(store: Store, archive: str) -> None:
    """Note an archive, and the log's current one."""
    _note(store, dict.fromkeys([*known(store), address_of(archive)]))


def forget(store: Store, archives: list[str]) -> None:
    """Remove archives that no longer exist from the note."""
    _note(store, [archive for archive in known(store) if archive not in archives])


def _note(store: Store, archives: dict[str, None] | list[str]) -> None:
    packed = msgspec.msgpack.encode(list(archives))
    if store.noted_as(NOTE) != packed:
        store.note(NOTE, packed)


class Diverged(ValueError):
    """An archive has events that the log does not have, for example after the log was restored to an earlier state."""


def next_step(store: Store, archive: Archive, floor: Floor) -> Step | None:
    """The archive's step after the floor, left by a process killed before it raised that; ValueError for another log's.

    A log that was restored may have the events of some steps after the floor, and not those of later ones.
    """
    steps, last = [step for step in archive.check(floor.seq, floor.digest).steps if step.last > floor.seq], floor.seq
    for step in steps:
        rows = store.raw(step.last - 1, 1)
        link = rows[0][-1] if rows and rows[0][0] == step.last else None
        if step.first != last + 1 or (link or chain.START)[: chain.SIZE].hex() != step.digest:
            raise Diverged(
                f"archive: {archive.address} has events {step.first} to {step.last}, which this log does not have; give "
                "a new, empty one: what this log needs of the old one is copied into it"
            )
        last = step.last
    return steps[0] if steps else None


def predecessor(store: Store, archive: Archive, floor: Floor) -> Archive | None:
    """The archive that a new one must start with: the log's current one, if that has diverged from the log."""
    if floor.seq == 0 or floor.archive is None or archive.manifest().steps:
        return None
    old = Archive(floor.archive)
    if old.address == archive.address:
        return None
    try:
        next_step(store, old, floor)
    except Diverged:
        return old
    raise ValueError(f"archive: {archive.address} is empty, and this log's archive is {old.address}; give that one, or move it")


def check_dropping(floor: Floor, archive: str | None, drop: bool) -> None:
    """Raise ValueError if events would be dropped although older ones went to an archive, unless ``drop`` asks for it."""
    if floor.archive is not None and archive is None and not drop:
        raise ValueError(
            f"archive: events of this log went to {floor.archive}; give --archive, or --drop to drop those that follow for good"
        )
