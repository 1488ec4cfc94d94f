"""The log, read by itself: is it sound, does it give the state that the snapshots have, and as a table for others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from recurrank.serving.events import CHANGES, Event, Kind, names_of, shown_in, unpack_chances, unpack_clicks
from recurrank.serving.fold import digest_of, intact, new_fold, unpack_catalogue
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store.base import Store, StoredRanker

CHUNK = 10_000


class Finding(NamedTuple):
    """What was found about one ranker."""

    name: str
    events: int
    seq: int
    digest: str
    snapshots: int
    faults: list[str]


def all_events(store: Store, ranker: int | None = None) -> Iterator[Event]:
    """The whole log, or a ranker's part of it, in order."""
    after = 0
    while events := store.events(after, CHUNK, ranker):
        yield from events
        after = events[-1].seq


def replay(store: Store, stored: StoredRanker) -> Finding:
    """Fold a ranker's log from its start, and compare with every snapshot on the way."""
    fold = new_fold(LoggedSpec.unpack(stored.config), unpack_catalogue(store.catalogue(stored.number)))
    kept = {snapshot.seq: snapshot for snapshot in store.snapshots(stored.number)}
    faults, count, snapshots = [], 0, len(kept)
    for snapshot in kept.values():
        if not intact(stored.number, *snapshot):
            faults.append(f"the snapshot after event {snapshot.seq} is torn or altered; it will be passed over")
    after = 0
    while events := store.events(after, CHUNK, stored.number):
        after, count = events[-1].seq, count + len(events)
        ends = [place + 1 for place, event in enumerate(events) if event.seq in kept]
        for start, stop in itertools.pairwise([0, *ends, len(events)]):
            try:
                fold.apply(events[start:stop])
            except ValueError as error:
                return Finding(stored.name, count, fold.seq, digest_of(fold.save()), snapshots, [*faults, str(error)])
            there = kept.get(fold.seq)
            if there is not None and intact(stored.number, *there) and fold.save() != there.state:
                faults.append(f"the snapshot after event {fold.seq} is not what the log gives")
                kept.pop(fold.seq)  # said once
    return Finding(stored.name, count, fold.seq, digest_of(fold.save()), snapshots, faults)


def export(store: Store, path: Path) -> int:
    """Write the log as a Parquet file, whole or not at all; how many events."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(f"{path}: Parquet needs pyarrow; install recurrank[report]") from error
    rankers = {stored.number: stored for stored in store.rankers()}
    ids: dict[int, tuple[str, ...]] = {}
    for number in rankers:
        catalogue = unpack_catalogue(store.catalogue(number))
        ids[number] = tuple(catalogue.ids) if catalogue.ids else tuple(str(place) for place in range(len(catalogue)))
    schema = pa.schema(
        [
            ("seq", pa.int64()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("ranker", pa.string()),
            ("kind", pa.string()),
            ("served", pa.int64()),
            ("items", pa.list_(pa.string())),
            ("clicks", pa.list_(pa.bool_())),
            ("propensity", pa.list_(pa.float64())),
            ("joint", pa.float64()),
            ("conditional", pa.list_(pa.float64())),
        ]
    )
    partial, count = path.with_name(path.name + ".partial"), 0
    try:
        with pq.ParquetWriter(partial, schema) as writer:
            rows: list[dict[str, Any]] = []
            for event in all_events(store):
                rows.append(_row(event, rankers.get(event.ranker), ids))
                if len(rows) == CHUNK:
                    writer.write_table(pa.Table.from_pylist(rows, schema))
                    count, rows = count + len(rows), []
            writer.write_table(pa.Table.from_pylist(rows, schema))
            count += len(rows)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _row(event: Event, stored: StoredRanker | None, ids: dict[int, tuple[str, ...]]) -> dict[str, Any]:
    """An event of a ranker that was deleted has no names left, only numbers."""
    row: dict[str, Any] = {
        "seq": event.seq,
        "at": int(event.at * 1e6),
        "ranker": stored.name if stored else f"deleted {event.ranker}",
        "kind": Kind(event.kind).name.lower(),
        "served": event.served or None,
        "items": None,
        "clicks": None,
        "propensity": None,
        "joint": None,
        "conditional": None,
    }
    if stored and event.payload and event.kind not in CHANGES:
        row["propensity"], row["joint"], row["conditional"] = unpack_chances(event.payload, stored.positions)
        row["items"] = names_of(event, stored.positions, ids[stored.number])
    if stored and event.kind in (Kind.LEARNED, Kind.REPORTED):
        row["clicks"] = unpack_clicks(event.clicks, stored.positions)[: shown_in(event.payload, stored.positions)].tolist()
    return row
