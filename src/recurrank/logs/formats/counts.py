"""Aggregated counts: ``query, url, position, impressions, clicks``, one row per combination; positions from 0.

They are sufficient for the position-based model, and cannot be turned into pages. A row may have more clicks than
impressions, from repeated clicks on one impression.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from recurrank.logs.pages import arrow
from recurrank.logs.sessions import Counts

ITEM = ("item", "url", "doc", "item_id", "doc_id")
QUERY = ("query", "query_id", "context")


def recognises(names: list[str]) -> bool:
    """Whether a file with these columns has counts."""
    return "impressions" in names and "clicks" in names and "position" in names


def read(path: Path | str, table: Any) -> Counts:
    """Counts from a table; ValueError names the row and the column of an invalid count."""
    pa = arrow()
    names = table.schema.names
    item = next((name for name in ITEM if name in names), None)
    query = next((name for name in QUERY if name in names), None)
    if item is None:
        raise ValueError(f"{path}: no column for the item; call it one of {', '.join(ITEM)}")
    numbers = {name: _whole(path, table, name) for name in ("position", "impressions", "clicks")}
    items = table[item].combine_chunks().dictionary_encode()
    queries = table[query].combine_chunks().dictionary_encode() if query else None
    return Counts(
        queries.indices.to_numpy().astype(np.int32) if queries is not None else np.zeros(len(table), np.int32),
        items.indices.to_numpy().astype(np.int32),
        numbers["position"].astype(np.int32),
        numbers["impressions"],
        numbers["clicks"],
        queries.dictionary.cast(pa.string()).to_pylist() if queries is not None else [""],
        items.dictionary.cast(pa.string()).to_pylist(),
    )


def _whole(path: Path | str, table: Any, name: str) -> Any:
    pa = arrow()
    column = table[name].combine_chunks()
    try:
        values = column.cast(pa.int64()).fill_null(-1).to_numpy()
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: column {name!r}: not whole numbers ({error})") from error
    bad = np.flatnonzero(values < 0)
    if len(bad):
        raise ValueError(f"{path}: row {bad[0] + 2}, column {name!r}: missing or negative; give a whole number of at least 0")
    return values
