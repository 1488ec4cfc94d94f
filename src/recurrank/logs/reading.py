"""Reading logs from files of any known format, by :func:`read`."""

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
"""First bytes of a compressed file."""
AHEAD = 2
"""Batches that are checked while the next one is read."""


def read(log: Any, *, skip_bad: bool = False) -> Log:
    """A log from a file or a table; a log is returned as it is.

    Args:
        log: Parquet with one row per page and columns of lists; CSV or Parquet with one row per shown item, or with counts
            of impressions and clicks; OpenSearch UBI or Metarank JSON lines; a data frame or an Arrow table with such
            columns; or :class:`Sessions` or :class:`Counts`.
        skip_bad: skip bad pages, instead of raising a ValueError that names the first.

    """
    if isinstance(log, Sessions | Counts):
        return log

    def bad_line(error: Bad) -> None:
        if not skip_bad:
            raise ValueError(str(error))

    if isinstance(log, str | Path):
        source: Path | str = Path(log)
        if not Path(log).is_file():
            raise ValueError(f"{log}: no such file; give a log of pages and clicks")
        kind = kind_of(Path(log))
        if kind == "counts":
            return counts.read(source, _table(Path(log)))
        given = batches(Path(log), kind, bad_line)
    else:
        source, table = "log", _as_table(log)
        kind = _kind("log", table.schema.names, {field.name: field.type for field in table.schema})
        if kind == "counts":
            return counts.read(source, table)
        if kind == "events":
            raise ValueError("log: the export of a service is read from its file; give the path")
        lists_of = kind == "lists"
        given = lists.batches(table.to_batches(), table.schema.names) if lists_of else long.batches("log", iter([table]), 0)
    pa = arrow()
    checked = _ahead(lambda batch: sound(source, batch, skip_bad)[0], given)
    tables = [pa.Table.from_batches([pages]) for pages in checked if len(pages)]
    if not tables:
        raise ValueError(f"{source}: no pages in it")
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowInvalid:
        table = pa.concat_tables(tables, promote_options="permissive")
    return sessions_of(table)


def _as_table(log: Any) -> Any:
    """A data frame (of pandas, Polars, ...) or an Arrow table as an Arrow table with the usual types of text and lists."""
    pa = arrow()
    if not hasattr(log, "__arrow_c_stream__") and not hasattr(log, "__dataframe__"):
        raise ValueError(f"log: {type(log).__name__} is not a log; give a file, a data frame, an Arrow table or rr.Sessions")
    try:
        table = pa.table(log)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise ValueError(f"log: {' '.join(str(error).split())[:200]}") from error
    for index, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        text = pa.types.is_large_string(kind) or str(kind) == "string_view"
        table = table.set_column(index, field.name, table[index].cast(pa.string() if text else kind))
    return table


def _ahead(check: Callable[[Batch], Any], given: Iterator[Batch]) -> Iterator[Any]:
    """The result of ``check`` for each batch, in order, computed while the next batches are read."""
    with ThreadPoolExecutor(AHEAD) as pool:
        waiting: deque[Any] = deque()
        for batch in given:
            waiting.append(pool.submit(check, batch))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def pages_only(log: Log, what: str) -> Sessions:
    """The log if it has pages; ValueError for counts."""
    if isinstance(log, Counts):
        raise ValueError(f"{what}: the log has counts by position and no pages; give a log of pages")
    return log


def kind_of(path: Path) -> str:
    """The format of a file: lists, long, counts, events (our service's export), ubi or metarank."""
    if not _is_parquet(path):
        with path.open("rb") as file:
            if file.read(1) == b"{" or path.suffix in (".jsonl", ".ndjson", ".json"):
                kind = joined.kind_of_lines(path)
                if kind is None:
                    raise ValueError(f"{path}: neither OpenSearch UBI nor Metarank; these have one JSON object per line")
                return kind
    return _kind(path, *_columns(path))


def _kind(source: Path | str, names: list[str], types: dict[str, Any]) -> str:
    if {"seq", "kind", "served", "items", "clicks"} <= set(names):
        return "events"
    if lists.recognises(names, types):
        return "lists"
    if counts.recognises(names):
        return "counts"
    if long.recognises(names):
        return "long"
    raise ValueError(
        f"{source}: columns {', '.join(map(str, names[:12]))}; a log has query, items and clicks (lists), or session, item, "
        "position and click, or item, position, impressions and clicks"
    )


def batches(path: Path, kind: str, bad: Callable[[Bad], None]) -> Iterator[Batch]:
    """Unchecked batches of pages from a file; lines that belong to no page go to ``bad``."""
    match kind:
        case "lists":
            return lists.in_file(path)
        case "long":
            return long.batches(path, _tables(path, bad), heading=0 if _is_parquet(path) else 1)
        case "events":
            return joined.events(path)
        case "ubi" | "metarank":
            return joined.batches([path], kind, bad)
    raise ValueError(f"format: {kind!r} is unknown; choose lists, long, ubi, metarank or events")


def sound(path: Path | str, batch: Batch, skip_bad: bool) -> tuple[Any, list[Bad]]:
    """The valid pages of a batch, and the errors of the others; ValueError for the first error unless ``skip_bad``."""
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
    """The names of the columns, and for Parquet their types."""
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
    except UnicodeDecodeError as error:
        raise ValueError(_not_utf8(path)) from error
    except (pa.ArrowInvalid, StopIteration, csv.Error) as error:
        raise ValueError(f"{path}: neither Parquet nor CSV with a heading ({error or 'empty'})") from error


def _delimiter(path: Path) -> str:
    """The delimiter of a CSV file: the one most frequent in its heading."""
    with path.open(encoding="utf-8-sig") as file:
        heading = file.readline()
    return max(",;\t", key=heading.count)


def _not_utf8(path: Path) -> str:
    with path.open("rb") as file:
        kind = "UTF-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "ISO-8859-1"
    return f"{path}: not UTF-8 (perhaps {kind}); convert it, for example with iconv -f {kind} -t UTF-8"


def _refusal(path: Path, error: Exception) -> ValueError:
    """Arrow's error about a file, in one line."""
    message = " ".join(str(error).split())
    return ValueError(_not_utf8(path) if "UTF8" in message else f"{path}: {message}")


def _uneven(path: Path, cells: int) -> Iterator[int]:
    """The numbers of the rows that have another number of cells."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = (row for row in csv.reader(file, delimiter=_delimiter(path)) if row)
        yield from (number for number, row in enumerate(rows, 1) if len(row) != cells)


def _table(path: Path) -> Any:
    pa = arrow()
    try:
        if _is_parquet(path):
            return pa.parquet.read_table(path)
        return pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=_delimiter(path)))
    except pa.ArrowInvalid as error:
        raise _refusal(path, error) from error


def _tables(path: Path, bad: Callable[[Bad], None]) -> Iterator[Any]:
    """A long table in pieces; CSV cells are read as text, so that errors can name the row of an invalid number."""
    pa = arrow()
    try:
        if _is_parquet(path):
            file = pa.parquet.ParquetFile(path)
            wanted = list(dict.fromkeys(long.columns_of(file.schema_arrow.names).values()))
            for batch in file.iter_batches(long.ROWS, columns=wanted):
                yield pa.Table.from_batches([batch])
            return

        errors: list[Bad] = []  # an exception in the handler would be swallowed

        def ragged(row: Any) -> str:
            cells = f"{row.actual_columns} cells, but the heading has {row.expected_columns}"
            errors.append(Bad(f"{path}: row {next(uneven, 'unknown')}: {cells}: {row.text[:60]!r}"))
            return "skip"

        names, _ = _columns(path)
        uneven = _uneven(path, len(names))
        with pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(block_size=1 << 24),
            parse_options=pa.csv.ParseOptions(delimiter=_delimiter(path), invalid_row_handler=ragged, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(column_types={name: pa.string() for name in names}),
        ) as reader:
            for batch in reader:
                while errors:
                    bad(errors.pop(0))
                yield pa.Table.from_batches([batch])
            for error in errors:
                bad(error)
    except pa.ArrowInvalid as error:
        raise _refusal(path, error) from error
