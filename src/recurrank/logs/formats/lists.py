"""Parquet with one row per page and columns of lists: our own, and those of search engines and researchers.

The columns are those of ``pages.py``, or the other names in use: ``query_id``, ``doc_ids``, ``timestamp``. A file without a
column for the query has one query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from recurrank.logs.pages import Batch, arrow, columns_of

ROWS = 65_536
"""Pages that are read at a time."""


def recognises(names: list[str], types: dict[str, Any]) -> bool:
    """Whether a Parquet file with these columns has pages as lists."""
    pa = arrow()
    named = columns_of(names)
    return all(name in named and _is_list(pa, types.get(named[name])) for name in ("items", "clicks")) and "kind" not in names


def _is_list(pa: Any, kind: Any) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return kind is not None and any(test(kind) for test in tests)


def batches(given: Iterable[Any], names: list[str]) -> Iterator[Batch]:
    """Batches of pages from Arrow's batches, which have at least these columns."""
    pa = arrow()
    name_of = columns_of(names)
    row = 1
    for batch in given:
        columns = [_plain(pa, batch.column(batch.schema.names.index(name))) for name in name_of.values()]
        numbers = np.arange(row, row + len(batch))
        yield Batch(pa.RecordBatch.from_arrays(columns, list(name_of)), numbers, numbers, {}, name_of)
        row += len(batch)


def in_file(path: Path) -> Iterator[Batch]:
    """Batches of pages of a Parquet file."""
    file = arrow().parquet.ParquetFile(path)
    names = file.schema_arrow.names
    return batches(file.iter_batches(ROWS, columns=list(columns_of(names).values())), names)


def _plain(pa: Any, column: Any) -> Any:
    """Lists and text of the usual types, for any types in the file."""
    if _is_list(pa, column.type):
        kind = column.type.value_type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return column.cast(pa.list_(pa.string() if pa.types.is_large_string(kind) else kind))
    return column.cast(pa.string()) if pa.types.is_large_string(column.type) else column
