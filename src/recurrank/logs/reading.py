"""Logs read from files of any format that is known; :func:`read` is the way in."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from recurrank.logs.formats import counts, joined, lists, long
from recurrank.logs.pages import Bad, Batch, arrow, coded, complaints, sessions_of
from recurrank.logs.sessions import Counts, Sessions

Log = Sessions | Counts

GZIP = b"\x1f\x8b"
"""How a compressed file begins."""
AHEAD = 2
"""Batches that are checked while the next one is read."""


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

    def bad_line(error: Bad) -> None:
        if not skip_bad:
            raise ValueError(str(error))

    checked = _ahead(lambda batch: sound(path, batch, skip_bad)[0], batches(path, kind, bad_line))
    tables = [pa.Table.from_batches([pages]) for pages in checked if len(pages)]
    if not tables:
        raise ValueError(f"{path}: no pages in it")
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowInvalid:
        table = pa.concat_tables(tables, promote_options="permissive")
    return sessions_of(table)


def _ahead(check: Callable[[Batch], Any], given: Iterator[Batch]) -> Iterator[Any]:
    """What ``check`` makes of each batch, in order, while the next ones are read."""
    with ThreadPoolExecutor(AHEAD) as pool:
        waiting: deque[Any] = deque()
        for batch in given:
            waiting.append(pool.submit(check, batch))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def pages_only(log: Log, what: str) -> Sessions:
    """Sessions, or the reason why counts are not enough."""
    if isinstance(log, Counts):
        raise ValueError(f"{what}: the log has counts by position and no pages; give a log of pages")
    return log


def kind_of(path: Path) -> str:
    """Which format a file has: lists, long, counts, events (our service's export), ubi or metarank."""
    if not _is_parquet(path):
        with path.open("rb") as file:
            if file.read(1) == b"{" or path.suffix in (".jsonl", ".ndjson", ".json"):
                kind = joined.kind_of_lines(path)
                if kind is None:
                    raise ValueError(f"{path}: neither OpenSearch UBI nor Metarank; these have one JSON object per line")
                return kind
    names, types = _columns(path)
    if {"seq", "kind", "served", "items", "clicks"} <= set(names):
        return "events"
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


def batches(path: Path, kind: str, bad: Callable[[Bad], None]) -> Iterator[Batch]:
    """Batches of pages from a file, unchecked; lines that are not part of any page go to ``bad``."""
    match kind:
        case "lists":
            return lists.batches(path)
        case "long":
            return long.batches(path, _tables(path, bad), heading=0 if _is_parquet(path) else 1)
        case "events":
            return joined.events(path)
        case "ubi" | "metarank":
            return joined.batches([path], kind, bad)
    raise ValueError(f"format: {kind!r} is unknown; choose lists, long, ubi, metarank or events")


def sound(path: Path, batch: Batch, skip_bad: bool) -> tuple[Any, list[Bad]]:
    """The sound pages of a batch, and what is wrong with the others; ValueError for the first of them unless ``skip_bad``."""
    pa = arrow()
    batch = coded(batch)
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
    """Names of the columns, and of Parquet their types."""
    pa = arrow()
    try:
        if _is_parquet(path):
            schema = pa.parquet.read_schema(path)
            return schema.names, {field.name: field.type for field in schema}
        with path.open("rb") as file:
            if file.read(2) == GZIP:
                raise ValueError(f"{path}: compressed with gzip; decompress it first")
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(file, delimiter=_delimiter(path))), {}
    except (pa.ArrowInvalid, StopIteration, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: neither Parquet nor CSV with a heading ({error or 'empty'})") from error


def _delimiter(path: Path) -> str:
    """What separates the cells of a CSV file: what its heading has most of."""
    with path.open(encoding="utf-8-sig") as file:
        heading = file.readline()
    return max(",;\t", key=heading.count)


def _table(path: Path) -> Any:
    pa = arrow()
    try:
        if _is_parquet(path):
            return pa.parquet.read_table(path)
        return pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=_delimiter(path)))
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error


def _tables(path: Path, bad: Callable[[Bad], None]) -> Iterator[Any]:
    """A long table in pieces; cells of CSV are texts, so that one that is not a number is found with its row."""
    pa = arrow()
    try:
        if _is_parquet(path):
            file = pa.parquet.ParquetFile(path)
            wanted = list(dict.fromkeys(long.columns_of(file.schema_arrow.names).values()))
            for batch in file.iter_batches(long.ROWS, columns=wanted):
                yield pa.Table.from_batches([batch])
            return

        found: list[Bad] = []  # an exception in the handler would be swallowed

        def ragged(row: Any) -> str:
            cells = f"{row.actual_columns} cells, but the heading has {row.expected_columns}"
            found.append(Bad(f"{path}: row {row.number or 'unknown'}: {cells}: {row.text[:60]!r}"))
            return "skip"

        names, _ = _columns(path)
        with pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(block_size=1 << 24),
            parse_options=pa.csv.ParseOptions(delimiter=_delimiter(path), invalid_row_handler=ragged, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(column_types={name: pa.string() for name in names}),
        ) as reader:
            for batch in reader:
                while found:
                    bad(found.pop(0))
                yield pa.Table.from_batches([batch])
            for error in found:
                bad(error)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error
