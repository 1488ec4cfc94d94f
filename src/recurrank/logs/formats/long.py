"""Long tables, CSV or Parquet: one row per shown item.

The columns are ``session, query, item, position, click`` and perhaps ``timestamp`` and ``propensity``. Rows of a page are
adjacent, in any order; a page is identified by ``session``, or by ``timestamp`` if there is no session, and by its query.
Positions are whole numbers without gaps, from 0 or from 1, the same for all pages of a file: from 0 if there is a position 0
among the rows that are read first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank.logs import pages
from recurrank.logs.pages import Bad, Batch, arrow

NAMES = {
    "page": ("session", "session_id", "page", "timestamp", "time"),
    "query": ("query", "query_id", "context"),
    "items": ("item", "item_id", "doc", "doc_id", "url"),
    "position": ("position", "rank"),
    "clicks": ("click", "clicked", "clicks"),
    "time": ("timestamp", "time"),
    "propensity": ("propensity", "propensity_score", "pscore"),
}
ROWS = 1 << 20
"""Rows that are read at a time."""


def recognises(names: list[str]) -> bool:
    """Whether a file with these columns has one row per shown item."""
    columns = columns_of(names)
    return all(name in columns for name in ("page", "items", "position", "clicks")) and "impressions" not in names


def columns_of(names: list[str]) -> dict[str, str]:
    """The file's name of each of our columns."""
    return pages.columns_of(names, NAMES)


def batches(path: Path | str, tables: Iterator[Any], heading: int) -> Iterator[Batch]:
    """Batches of pages from tables of rows; ``heading`` is the number of lines above the first row."""
    pa = arrow()
    names: dict[str, str] = {}
    whole, number, base = None, heading + 1, None
    for table in itertools.chain(tables, [None]):
        if whole is not None:
            begins = _begins(whole)
            last = len(whole) if table is None else int(begins[-1])  # the last page may continue in the next table
            if last:
                complete = whole.slice(0, last)
                if base is None:
                    base = 0 if (_numbers(complete, "position") == 0).any() else 1
                yield _pages(names, complete, begins, number, base)
            whole, number = whole.slice(last), number + last
        if table is not None:
            names = columns_of(table.schema.names)
            table = pa.table([table[name] for name in names.values()], list(names))
            whole = table if whole is None else pa.concat_tables([whole, table])


def _codes(column: Any) -> Ints:
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    codes: Ints = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _begins(table: Any) -> Ints:
    """The first row of each page."""
    new: Bools = np.zeros(len(table), np.bool_)
    new[0] = True
    for name in ("page", "query"):
        if name in table.schema.names:
            codes = _codes(table[name])
            new[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(new)


def _scattered(table: Any, begins: Ints) -> Bools:
    """By page, whether rows of the same page are elsewhere, too."""
    keys = [_codes(table[name])[begins] for name in ("page", "query") if name in table.schema.names]
    _, inverse, count = np.unique(np.array(keys), axis=1, return_inverse=True, return_counts=True)
    scattered: Bools = count[inverse.reshape(-1)] > 1
    return scattered


def _numbers(table: Any, name: str) -> Floats:
    """A column as numbers, NaN where it has none."""
    return pages.as_numbers(table[name].combine_chunks())


def _empty(column: Any) -> Bools:
    """Which rows of a column are null or empty text."""
    pa = arrow()
    empty: Bools = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type):
        empty = empty | (pa.compute.utf8_length(column).fill_null(0).to_numpy(zero_copy_only=False) == 0)
    return empty


def _pages(names: dict[str, str], table: Any, begins: Ints, number: int, base: int) -> Batch:
    """Pages from complete rows of them, with positions from ``base``; a page with a bad row is bad."""
    pa = arrow()
    rows = len(table)
    begins = begins[begins < rows]
    page = np.zeros(rows, np.int64)
    page[begins[1:]] = 1
    page = np.cumsum(page)
    position = _numbers(table, "position")
    order = np.lexsort((position, page))
    rank = np.arange(rows) - begins[page]
    sorted_position = position[order]
    gap = sorted_position != base + rank
    twice = np.r_[False, (sorted_position[1:] == sorted_position[:-1]) & (rank[1:] > 0)]
    sort = f"{names['page']}, {names['position']}"
    bad: dict[int, Bad] = {}
    for column, wrong, what in (
        ("position", ~(sorted_position >= 0) | (sorted_position % 1 != 0), "is not a whole number of at least 0"),
        (
            "position",
            gap & _scattered(table, begins)[page],
            f"is on a page whose rows are not adjacent; sort the file by {sort}",
        ),
        ("position", twice, "stands twice on its page"),
        (
            "position",
            gap & (rank == 0),
            f"is the first on its page, {names['page']} {{}}; pages of this file begin at position {base}",
        ),
        ("position", gap, "leaves a gap above it; a page has all positions from its first to its last"),
        ("clicks", ~np.isin(_numbers(table, "clicks"), (0.0, 1.0))[order], "is neither 0 nor 1"),
        ("items", _empty(table["items"].combine_chunks())[order], "is missing; every row needs it"),
    ):
        for index in np.flatnonzero(wrong):
            row = int(order[index])
            shown, told = table[column][row].as_py(), what.format(table["page"][row].as_py())
            bad.setdefault(int(page[row]), Bad(f"row {number + row}, column {names[column]!r}: {shown!r} {told}"))
    offsets = pa.array(np.r_[begins, rows].astype(np.int32))
    taken = pa.array(order)
    columns = {"items": pa.ListArray.from_arrays(offsets, table["items"].combine_chunks().take(taken))}
    clicks = np.nan_to_num(_numbers(table, "clicks"))[order] == 1
    columns["clicks"] = pa.ListArray.from_arrays(offsets, pa.array(clicks))
    if "propensity" in names:
        chances = _numbers(table, "propensity")[order]
        none = np.r_[np.logical_and.reduceat(np.isnan(chances), begins), False]  # pages without any
        columns["propensity"] = pa.ListArray.from_arrays(
            pa.array(np.r_[begins, rows].astype(np.int32), mask=none), pa.array(chances, from_pandas=True)
        )
    for name in ("query", "time"):
        if name in names:
            columns[name] = table[name].combine_chunks().take(pa.array(begins))
    ends = np.r_[begins[1:], rows]
    return Batch(pa.record_batch(columns), number + begins, number + ends - 1, bad, names)
