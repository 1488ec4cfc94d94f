"""Erasing a subject: it leaves log, archive and exports; what was learned stays, and the chain can still be followed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recurrank.serving.archive import Archive
from recurrank.serving.events import Kind
from recurrank.serving.store.base import Store
from recurrank.serving.trial import erased, has_trial, trial_of

CHUNK, TOGETHER = 10_000, 256
"""Events read at a time, and changed in one transaction."""


class Erased(NamedTuple):
    """Slates whose subject was erased: in the log and the archive; rows of each export."""

    log: int
    archive: int
    exports: dict[str, int]


def erase(store: Store, subject: str, archive: str | None = None, exports: Sequence[Path] = ()) -> Erased:
    """Erase a subject; how often it was found. Idempotent: killed in between, do it again."""
    if not subject:
        raise ValueError("subject: it is empty; give the one that was sent with rank requests")
    for path in exports:
        if not path.is_file() or path.suffix != ".parquet":
            raise ValueError(f"{path}: not an export; give .parquet files that `recurrank log export` wrote")
    where = archive or store.floor().archive
    archived = Archive(where).replace(lambda row: _without(row, subject)) if where else 0
    logged = _erase_log(store, subject)
    return Erased(logged, archived, {str(path): _erase_export(path, subject) for path in exports})


def _names(row: tuple[Any, ...], subject: str) -> bool:
    return row[2] == Kind.SERVED and has_trial(row[5]) and trial_of(row[5]).subject == subject


def _without(row: tuple[Any, ...], subject: str) -> tuple[Any, ...]:
    return (*row[:5], erased(row[5]), *row[6:]) if _names(row, subject) else row


def _erase_log(store: Store, subject: str) -> int:
    count = after = 0
    while found := store.raw(after, CHUNK):
        payloads = {row[0]: erased(row[5]) for row in found if _names(row, subject)}
        for start in range(0, len(payloads), TOGETHER):
            store.replace_slates(dict(list(payloads.items())[start : start + TOGETHER]))
        count, after = count + len(payloads), found[-1][0]
    store.scrub()
    return count


def _erase_export(path: Path, subject: str) -> int:
    """Rewrite an export without the subject, whole or not at all."""
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
        place = table.column_names.index("subject")
        without = pc.if_else(named, pa.scalar(None, column.type), column)
        partial = path.with_name(path.name + ".partial")
        pq.write_table(table.set_column(place, "subject", without), partial)
        os.replace(partial, path)
    return int(count)
