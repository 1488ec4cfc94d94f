"""Logs read from files of any format that is known; :func:`read` is the way in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from recurrank.logs.formats import counts, lists, long
from recurrank.logs.pages import Bad, Batch, arrow, complaints, sessions_of
from recurrank.logs.sessions import Counts, Sessions

Log = Sessions | Counts


def read(log: Log | str | Path, *, skip_bad: bool = False) -> Log:
    """A log from a file, or as it is when it is one already.

    Args:
        log: Parquet with one row per page and columns of lists; CSV or Parquet with one row per item shown, or with counts
            of impressions and clicks; OpenSearch UBI or Metarank JSON lines; or :class:`Sessions` or :class:`Counts`.
        skip_bad: leave out pages that are not sound, instead of a ValueError that names the first.

    """
    if isinstance(log, Sessions | Counts):
        return log
    path = Path(log)
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give a log of pages and clicks")
    kind = kind_of(path)
    if kind == "counts":
        return counts.read(path, _table(path))
    pa = arrow()
    tables = [pa.Table.from_batches([sound(path, batch, skip_bad)[0]]) for batch in batches(path, kind)]
    tables = [table for table in tables if len(table)]
    if not tables:
        raise ValueError(f"{path}: no pages in it")
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowInvalid:
        table = pa.concat_tables(tables, promote_options="permissive")
    return sessions_of(table)


def pages_only(log: Log, what: str) -> Sessions:
    """Sessions, or the reason why counts are not enough."""
    if isinstance(log, Counts):
        raise ValueError(f"{what}: the log has counts by position and no pages; give a log of pages")
    return log


def kind_of(path: Path) -> str:
    """Which format a file has: lists, long, counts, events, ubi or metarank."""
    names, types = _columns(path)
    if lists.recognises(names, types):
        return "lists"
    if counts.recognises(names):
        return "counts"
    if long.recognises(names):
        return "long"
    raise ValueError(
        f"{path}: columns {', '.join(names[:12])}; a log has query, items and clicks (lists), or session, item, position and "
        f"click, or item, position, impressions and clicks"
    )


def batches(path: Path, kind: str) -> Iterator[Batch]:
    """Batches of pages from a file, unchecked."""
    if kind == "lists":
        return lists.batches(path)
    if kind == "long":
        return long.batches(path, _tables(path), heading=0 if path.suffix == ".parquet" else 1)
    raise ValueError(f"{path}: {kind} has no pages")


def sound(path: Path, batch: Batch, skip_bad: bool) -> tuple[Any, list[Bad]]:
    """The sound pages of a batch, and what is wrong with the others; ValueError for the first of them unless ``skip_bad``."""
    pa = arrow()
    bad = complaints(batch)
    if not bad:
        return batch.pages, []
    if not skip_bad:
        raise ValueError(f"{path}: {bad[min(bad)]}")
    kept = np.ones(len(batch.pages), np.bool_)
    kept[list(bad)] = False
    return batch.pages.filter(pa.array(kept)), [bad[row] for row in sorted(bad)]


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _columns(path: Path) -> tuple[list[str], dict[str, Any]]:
    pa = arrow()
    try:
        if _is_parquet(path):
            schema = pa.parquet.read_schema(path)
        else:
            with pa.csv.open_csv(path) as reader:
                schema = reader.schema
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: neither Parquet nor CSV with a heading ({error})") from error
    return schema.names, {field.name: field.type for field in schema}


def _table(path: Path) -> Any:
    pa = arrow()
    try:
        return pa.parquet.read_table(path) if _is_parquet(path) else pa.csv.read_csv(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error


def _tables(path: Path) -> Iterator[Any]:
    pa = arrow()
    try:
        if _is_parquet(path):
            file = pa.parquet.ParquetFile(path)
            wanted = list(dict.fromkeys(long.columns_of(file.schema_arrow.names).values()))
            for batch in file.iter_batches(long.ROWS, columns=wanted):
                yield pa.Table.from_batches([batch])
        else:
            with pa.csv.open_csv(path, read_options=pa.csv.ReadOptions(block_size=1 << 24)) as reader:
                for batch in reader:
                    yield pa.Table.from_batches([batch])
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error
