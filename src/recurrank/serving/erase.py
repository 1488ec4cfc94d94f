"""Erase a subject from the log, its archives and exports; what was learned stays, and the chain remains valid.

The chain is computed from slates without their subjects (``trial.erased``). Older versions chained the subject itself: before
such an event is replaced, the store notes its replacement (``chain.replaced``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from recurrank.serving import chain
from recurrank.serving.archive import Archive
from recurrank.serving.archive_files import address_of
from recurrank.serving.events import Event, Kind
from recurrank.serving.files import move_durably, partial_of, unfinished
from recurrank.serving.known_archives import forget, known
from recurrank.serving.store.base import Store
from recurrank.serving.trial import erased, forgotten, has_trial, trial_of

PATIENCE = 600.0
"""Seconds to wait for a step of retention, or for another erasure."""
CHUNK, TOGETHER = 10_000, 256
"""Events read at a time, and events changed in one transaction."""
EXPORTED = frozenset(
    ["application", "query_id", "timestamp", "user_query", "query_response_hit_ids", "action_name", "object_id", "ordinal"]
)
"""Fields of the JSON lines that ``logs/formats/ubi.py`` writes: none holds a subject."""


class Erased(NamedTuple):
    """Number of slates whose subject was erased: in the log, in all archives, and in each; rows or lines of each export."""

    log: int
    archive: int
    exports: dict[str, int]
    archives: dict[str, int]


def erase(
    store: Store, subject: str, archive: str | None = None, exports: Sequence[Path] = (), gone: Sequence[str] = ()
) -> Erased:
    """Erase a subject; returns how often it was found. Idempotent: if it is killed, run it again.

    Exports are files that ``recurrank log export`` wrote: Parquet, or JSON lines (UBI). All archives that the log has had are
    searched, except those in ``gone``, which no longer exist. Raises ValueError, and erases nothing, if one is not found, or
    if an export cannot be read: all of them are read first.
    """
    if not subject:
        raise ValueError("subject: it is empty; give the one that was sent with rank requests")
    for path in exports:
        if path.exists() or not any(file.is_file() for file in unfinished(path)):
            _check_export(path)
    with store.maintaining(PATIENCE) as alone:
        if not alone:
            raise ValueError("store: retention or another erasure has been at work for minutes; try again later")
        lost = [address_of(address) for address in gone]
        archives, erasing = _archives(store, archive, lost), _Erasing(store, subject)
        archived = {each.address: each.replace(erasing.without) for each in archives}
        exported = {str(path): _erase_export(path, subject) for path in exports}
        logged = erasing.log()
        forget(store, lost)
    return Erased(logged, sum(archived.values()), exported, archived)


def _archives(store: Store, given: str | None, gone: list[str]) -> list[Archive]:
    """The log's archive, and its former ones. ValueError if one is missing or does not belong to the log."""
    floor, before = store.floor(), known(store)
    for address in gone:
        if address not in before:
            raise ValueError(f"gone: {address} is not an archive of this log; it has had {', '.join(before) or 'none'}")
    last = None if floor.archive is None else address_of(floor.archive)
    current = last if given is None else address_of(given)
    archives, moved = [], False
    if current is not None and (current == last or current not in before):  # not a former one
        archive = Archive(current)
        archive.check(floor.seq, floor.digest)
        archive.check_there()
        archives, moved = [archive], current != last
    for former in before:
        archive = Archive(former)
        if former in (*gone, *(other.address for other in archives)) or (moved and former == last and not archive.there):
            continue
        if not archive.there:
            raise ValueError(
                f"archive: {former} may have events of this log, and there is no archive there; make it available, or add "
                f"--gone {former} if it was moved or deleted"
            )
        archives.append(archive)
    return archives


class _Erasing:
    """Erases one subject from events."""

    def __init__(self, store: Store, subject: str) -> None:
        self._store, self._subject = store, subject
        self._notes = chain.unpack_notes(store.noted_as(chain.REPLACED))

    def without(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """An event as it is stored, without the subject."""
        if row[2] != Kind.SERVED or not has_trial(row[5]) or trial_of(row[5]).subject != self._subject:
            return row
        payload = forgotten(row[5])
        if payload != erased(row[5]) and row[-1] is not None:
            self._notes[row[0]] = chain.replaced(Event._make((*row[:5], payload, row[6])), row[-1])
            self._store.note(chain.REPLACED, msgspec.msgpack.encode(self._notes))
        return (*row[:5], payload, *row[6:])

    def log(self) -> int:
        count = after = 0
        while rows := self._store.raw(after, CHUNK):
            changed = [new for old in rows if (new := self.without(old)) is not old]
            for start in range(0, len(changed), TOGETHER):
                part = {row[0]: row for row in changed[start : start + TOGETHER]}
                self._store.replace_slates({seq: row[5] for seq, row in part.items()}, self._sealed(part))
            count, after = count + len(changed), rows[-1][0]
        self._store.scrub()
        return count

    def _sealed(self, changed: dict[int, tuple[Any, ...]]) -> Any:
        """The floor with a new seal, if that covers changed events; None if it stays the same."""
        floor = self._store.floor()
        opened = floor.open_events() if floor.seq >= min(changed) else []
        rows = [changed.get(row[0], row) for seq in opened for row in self._store.raw(seq - 1, 1) if row[0] == seq]
        before = chain.seal(row for seq in opened for row in self._store.raw(seq - 1, 1) if row[0] == seq)
        seal = chain.seal(rows)
        return msgspec.structs.replace(floor, seal=seal) if opened and before == floor.seal != seal else None


def _check_export(path: Path) -> None:
    """Raise ValueError for a file that is not an export, or cannot be read to its end."""
    if path.is_file() and path.suffix == ".parquet":
        _check_table(path)
        return
    try:
        with path.open("rb") as file:
            line = file.readline()
            first = json.loads(line.decode()) if line else {}
    except (OSError, ValueError):
        first = None
    if not isinstance(first, dict):
        raise ValueError(f"{path}: not an export; give Parquet files or JSON lines that `recurrank log export` wrote")
    for _ in _records(path):
        pass


def _check_table(path: Path) -> None:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches():
                pass
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: it cannot be read as Parquet ({error}); export it again, then repeat the erasure") from error


def _records(path: Path) -> Iterator[tuple[bytes, Any]]:
    """The lines of an export with what they hold: None for empty ones. ValueError names the line that is not JSON."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                record = json.loads(line.decode()) if line.strip() else None
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: not JSON ({error}); mend it, then repeat the erasure") from error
            yield line, record


def _erase_export(path: Path, subject: str) -> int:
    """Rewrite an export without the subject, atomically; returns the number of rows or lines that had it.

    Removes the leftovers of a killed export.
    """
    for left in unfinished(path):
        if left.is_file():
            left.unlink()
    if not path.exists():
        return 0
    partial = partial_of(path)
    try:
        count = (_erase_table if path.suffix == ".parquet" else _erase_lines)(path, subject, partial)
        if count:
            move_durably(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _erase_table(path: Path, subject: str, partial: Path) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    if "subject" not in table.column_names:
        return 0
    column = table.column("subject")
    named = pc.fill_null(pc.equal(column, subject), False)
    count = pc.sum(named).as_py() or 0
    if count:
        index = table.column_names.index("subject")
        without = pc.if_else(named, pa.scalar(None, column.type), column)
        pq.write_table(table.set_column(index, "subject", without), partial)
    return int(count)


def _erase_lines(path: Path, subject: str, partial: Path) -> int:
    """Clear the subject in any field that others added: UBI has ``client_id`` and ``user_id``, our export writes neither."""
    count = 0
    with partial.open("wb") as target:
        for line, record in _records(path):
            without = _cleared(record, subject)
            count += without != record
            target.write(line if without == record else json.dumps(without, ensure_ascii=False).encode() + b"\n")
    return count


def _cleared(value: Any, subject: str) -> Any:
    """The value with null for the subject, except in fields that our export writes: an item may have the subject's name."""
    if isinstance(value, dict):
        return {key: part if key in EXPORTED else _cleared(part, subject) for key, part in value.items() if key != subject}
    if isinstance(value, list):
        return [_cleared(part, subject) for part in value]
    return None if value == subject else value
