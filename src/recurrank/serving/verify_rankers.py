"""The part of ``recurrank log verify`` about rankers: rows, settings, catalogues and snapshots."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from recurrank.serving import chain
from recurrank.serving.fold import intact, unpack_catalogue
from recurrank.serving.store.base import Store
from recurrank.serving.store.records import RankerRow, StoreError

MOST = 100
"""Faults reported at most."""


class Faults(list[str]):
    """Faults found; at most ``MOST`` are collected."""

    def __call__(self, what: str) -> None:
        if len(self) < MOST:
            self.append(what)
        elif len(self) == MOST:
            self.append("... and more")


class Lives(NamedTuple):
    """What the log says about rankers: the claims of their CREATED events, which were deleted, and when they last changed."""

    created: dict[int, bytes]
    deleted: set[int]
    changed: dict[int, int]


def read_or_tell(faults: Faults, what: str, read: Callable[[], list[Any]]) -> list[Any]:
    """Read from the store; a failure to read becomes a fault."""
    try:
        return read()
    except (StoreError, ValueError, TypeError) as error:
        faults(f"{what} cannot be read: {error}")
        return []


def check_rankers(store: Store, rows: dict[int, RankerRow], lives: Lives, faults: Faults) -> None:
    """Check rows, settings, catalogues and snapshots."""
    for number in sorted({*lives.created, *rows}):
        row = rows.get(number)
        if row is None:
            faults(f"ranker {number}: its row is missing")
            continue
        if number not in lives.created:
            faults(f"ranker {row.name!r}: no event created it")
        if bool(row.deleted) != (number in lives.deleted) or row.deleted not in (0, 1):
            faults(f"ranker {row.name!r}: its row does not say whether it was deleted as the log does")
        if row.stock != lives.changed.get(number, 0):
            faults(f"ranker {row.name!r}: its row does not say when its items, rules or mode were last changed as the log does")
        claim = lives.created.get(number, b"")
        if claim and chain.ranker_mark(number, row.name, row.digest, row.positions) != claim[: chain.SIZE]:
            faults(f"ranker {row.name!r}: its row was altered")
        if not row.deleted:
            read_or_tell(faults, f"ranker {row.name!r}", functools.partial(_check_catalogue, store, row, claim, faults))
        elif row.config != b"":
            faults(f"ranker {row.name!r}: it was deleted, its settings were not")
    living = {number for number, row in rows.items() if not row.deleted}
    parts = read_or_tell(faults, "catalogues", store.catalogue_parts)
    for what, found in (("catalogue", parts), ("snapshot", read_or_tell(faults, "snapshots", store.snapshot_places))):
        for stray in sorted({ranker for ranker, _ in found} - living, key=str):
            faults(f"there is a {what} of ranker {stray}, which is not there")
    for number in living:
        numbers = [part for ranker, part in parts if ranker == number]
        if numbers != list(range(len(numbers))) or not numbers:
            faults(f"ranker {rows[number].name!r}: parts of its catalogue are missing")


def _check_catalogue(store: Store, row: Any, claim: bytes, faults: Faults) -> list[Any]:
    packed = store.catalogue(row.number)
    if claim:
        if chain.catalogue_mark(row.config, [packed]) != claim[chain.SIZE :]:
            faults(f"ranker {row.name!r}: its settings or its catalogue were altered")
    elif hashlib.sha256(row.config + unpack_catalogue(packed).fingerprint.encode()).hexdigest() != row.digest:
        faults(f"ranker {row.name!r}: its settings or its catalogue were altered")
    for snapshot in store.snapshots(row.number):
        if not intact(row.number, *snapshot):
            faults(f"ranker {row.name!r}: the snapshot after event {snapshot.seq} is torn or altered; it will be passed over")
    return []
