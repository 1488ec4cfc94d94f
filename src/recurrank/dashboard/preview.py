"""Preview a file of items before a ranker is created from it: the roles of its columns, and the first rows."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from recurrank.catalogue import Catalogue
from recurrank.catalogue.columns import Role
from recurrank.catalogue.csv import HEAD, read_csv
from recurrank.catalogue.parquet import parquet_layout
from recurrank.serving.http.problems import Refused
from recurrank.serving.http.upload import CSV, NPY, PARQUET, Bounds, read_items

WIDE = 12
"""Most columns that are shown."""


def preview(kind: str, body: bytes, query: dict[str, str], bounds: Bounds) -> dict[str, Any]:
    """A summary of the file; ValueError for an invalid one."""
    if kind not in (CSV, PARQUET, NPY):
        raise Refused(415, f"file: {kind[:60]!r} is not taken; choose a .csv, .parquet or .npy file")
    if not body:
        raise ValueError("file: empty; give one row per item")
    columns, rows, size = _csv(body, bounds) if kind == CSV else _table(kind, body, bounds)
    named = next((column["name"] for column in columns if column["role"] == Role.NAMES), None)
    return {
        "items": size[0],
        "dim": size[1],
        "named": named,
        "ignored": [column["name"] for column in columns if column["role"] == Role.UNUSED],
        "columns": columns[:WIDE],
        "rows": [[_short(cell) for cell in row[:WIDE]] for row in rows],
    }


def _csv(body: bytes, bounds: Bounds) -> tuple[list[dict[str, str]], list[list[Any]], tuple[int, int]]:
    read = read_csv(body, bounds.check)
    catalogue = Catalogue(read.features, read.ids)
    columns = [{"name": name, "role": read.layout.role(name)} for name in read.columns]
    return columns, [list(row) for row in read.head], (len(catalogue), catalogue.dim)


def _table(kind: str, body: bytes, bounds: Bounds) -> tuple[list[dict[str, str]], list[list[Any]], tuple[int, int]]:
    catalogue = read_items(kind, body, bounds)
    size = (len(catalogue), catalogue.dim)
    if kind == NPY:
        columns = [{"name": str(column), "role": Role.FEATURE.value} for column in range(catalogue.dim)]
        return columns, [[float(x) for x in row] for row in np.asarray(catalogue.features[:HEAD])], size
    import pyarrow.parquet as pq

    head = next(pq.ParquetFile(io.BytesIO(body)).iter_batches(batch_size=HEAD))
    layout = parquet_layout("file", head.schema)
    columns = [{"name": name, "role": layout.role(name)} for name in head.schema.names]
    return columns, [list(row.values()) for row in head.to_pylist()], size


def _short(cell: Any) -> str:
    if isinstance(cell, list):
        return ", ".join(_short(part) for part in cell[:4]) + (", …" if len(cell) > 4 else "")
    text = f"{cell:.4g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= 120 else text[:119] + "…"
