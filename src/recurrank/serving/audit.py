"""Replay the log, compare it with the snapshots, and export it as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from recurrank.serving.events import CHANGES, Event, Kind, names_of, shown_in, unpack_chances, unpack_clicks, unpack_seen
from recurrank.serving.files import partial_of
from recurrank.serving.fold import Fold, digest_of, intact, new_fold, unpack_catalogue
from recurrank.serving.history import History, agrees, load_fold
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store.base import Store
from recurrank.serving.store.records import Pin, StoredRanker
from recurrank.serving.trial import trial_of

CHUNK = 10_000


class Unanchored(ValueError):
    """There is neither a snapshot nor an archive to start a replay from."""


class Finding(NamedTuple):
    """The result of replaying one ranker."""

    name: str
    events: int
    seq: int
    digest: str
    snapshots: int
    faults: list[str]


def replay(store: Store, stored: StoredRanker, archive: str | None = None) -> Finding:
    """Fold a ranker's log from its start, and compare the state with every snapshot on the way.

    The log starts in the archive, or, if old events were dropped, with the snapshot that was verified before they were.
    """
    history = History(store, archive)
    kept = {snapshot.seq: snapshot for snapshot in store.snapshots(stored.number)}
    faults, count, snapshots = [], 0, len(kept)
    for snapshot in kept.values():
        if not intact(stored.number, *snapshot):
            faults.append(f"the snapshot after event {snapshot.seq} is torn or altered; it will be passed over")
    try:
        fold = _start(store, stored, history)
    except Unanchored as error:
        return Finding(stored.name, 0, 0, "", snapshots, [*faults, str(error)])
    events = history.events(stored.number) if history.complete else _logged(store, stored.number, fold.seq)
    try:
        while part := list(itertools.islice(events, CHUNK)):
            count += len(part)
            ends = [i + 1 for i, event in enumerate(part) if event.seq in kept]
            for start, stop in itertools.pairwise([0, *ends, len(part)]):
                fold.apply(part[start:stop])
                expected = kept.get(fold.seq)
                if expected is not None and intact(stored.number, *expected) and not agrees(store, stored, fold, expected):
                    faults.append(f"the snapshot after event {fold.seq} is not what the log gives")
                    kept.pop(fold.seq)  # report it once
    except ValueError as error:
        faults.append(str(error))
    return Finding(stored.name, count, fold.seq, digest_of(fold.save()), snapshots, faults)


def _start(store: Store, stored: StoredRanker, history: History) -> Fold:
    """The fold with which a replay begins."""
    spec, catalogue = LoggedSpec.unpack(stored.config), unpack_catalogue(store.catalogue(stored.number))
    if history.complete:
        return new_fold(spec, catalogue)
    for ranker, seq, pin in store.pins():
        snapshot = store.snapshot(ranker, seq) if ranker == stored.number and pin == Pin.VERIFIED else None
        if snapshot is not None and intact(ranker, *snapshot):
            return load_fold(store, stored, spec, catalogue, snapshot)
    if any(event.kind == Kind.CREATED for event in _logged(store, stored.number, history.floor.seq)):
        return new_fold(spec, catalogue)  # created after the floor
    raise Unanchored(f"the events up to {history.floor.seq:,} were dropped, and the snapshot that was verified is damaged")


def _logged(store: Store, ranker: int, after: int) -> Iterator[Event]:
    """A ranker's events in the log, after the event ``after``."""
    while events := store.events(after, CHUNK, ranker):
        yield from events
        after = events[-1].seq


def export(store: Store, path: Path, archive: str | None = None) -> int:
    """Write the log, including archived events, as a Parquet file, atomically; returns the number of events."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(f"{path}: Parquet needs pyarrow; install recurrank[report]") from error
    rankers = {stored.number: stored for stored in store.rankers()}
    ids: dict[int, tuple[str, ...]] = {}
    for number in rankers:
        catalogue = unpack_catalogue(store.catalogue(number))
        ids[number] = tuple(catalogue.ids) if catalogue.ids else tuple(str(i) for i in range(len(catalogue)))
    schema = pa.schema(
        [
            ("seq", pa.int64()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("ranker", pa.string()),
            ("kind", pa.string()),
            ("served", pa.int64()),
            ("slate", pa.string()),
            ("subject", pa.string()),
            ("arm", pa.string()),
            ("items", pa.list_(pa.string())),
            ("clicks", pa.list_(pa.bool_())),
            ("seen", pa.list_(pa.bool_())),
            ("propensity", pa.list_(pa.float64())),
            ("joint", pa.float64()),
            ("conditional", pa.list_(pa.float64())),
        ]
    )
    partial, count = partial_of(path), 0
    try:
        with pq.ParquetWriter(partial, schema) as writer:
            rows: list[dict[str, Any]] = []
            for event, slate in History(store, archive).told():
                rows.append(_row(event, slate, rankers.get(event.ranker), ids))
                if len(rows) == CHUNK:
                    writer.write_table(pa.Table.from_pylist(rows, schema))
                    count, rows = count + len(rows), []
            writer.write_table(pa.Table.from_pylist(rows, schema))
            count += len(rows)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _row(event: Event, slate: str | None, stored: StoredRanker | None, ids: dict[int, tuple[str, ...]]) -> dict[str, Any]:
    """An event as a row; those of a deleted ranker have no names any more, only numbers."""
    row: dict[str, Any] = {
        "seq": event.seq,
        "at": int(event.at * 1e6),
        "ranker": stored.name if stored else f"deleted {event.ranker}",
        "kind": Kind(event.kind).name.lower(),
        "served": event.served or None,
        "slate": slate,
        "subject": None,
        "arm": None,
        "items": None,
        "clicks": None,
        "seen": None,
        "propensity": None,
        "joint": None,
        "conditional": None,
    }
    if stored and event.payload and event.kind not in CHANGES:
        row["propensity"], row["joint"], row["conditional"] = unpack_chances(event.payload, stored.positions)
        row["items"] = names_of(event, stored.positions, ids[stored.number])
        row["subject"], row["arm"] = _trial(event.payload)
    if stored and event.kind in (Kind.LEARNED, Kind.REPORTED):
        shown = shown_in(event.payload, stored.positions)
        row["clicks"] = unpack_clicks(event.clicks, stored.positions)[:shown].tolist()
        row["seen"] = unpack_seen(event.clicks, stored.positions, shown)
    return row


def _trial(payload: bytes) -> tuple[str | None, str | None]:
    """The subject of a slate, and its arm in an experiment."""
    trial = trial_of(payload)
    return trial.subject, trial.arm or None
