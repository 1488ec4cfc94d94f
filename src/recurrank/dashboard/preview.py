"""A file of items, looked at before a ranker is made of it: which columns are what, and the first rows."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from recurrank.serving.csvfile import HEAD, read_csv
from recurrank.serving.http.problems import Refused
from recurrank.serving.http.upload import CSV, NPY, PARQUET, Bounds, read_items

NAMES, FEATURE, UNUSED = "names the items", "feature", "not used"
WIDE = 12
"""Columns that are shown."""


def preview(kind: str, body: bytes, query: dict[str, str], bounds: Bounds) -> dict[str, Any]:
    """What is in the file; ValueError says what is wrong with it."""
    if kind not in (CSV, PARQUET, NPY):
        raise Refused(415, f"file: {kind[:60]!r} is not taken; choose a .csv, .parquet or .npy file")
    if not body:
        raise ValueError("file: empty; give one row per item")
    columns, rows, size = _csv(body, bounds) if kind == CSV else _table(kind, body, bounds)
    named = next((column["name"] for column in columns if column["role"] == NAMES), None)
    return {
        "items": size[0],
        "dim": size[1],
        "named": named,
        "ignored": [column["name"] for column in columns if column["role"] == UNUSED],
        "columns": columns[:WIDE],
        "rows": [[_short(cell) for cell in row[:WIDE]] for row in rows],
    }


def _csv(body: bytes, bounds: Bounds) -> tuple[list[dict[str, str]], list[list[Any]], tuple[int, int]]:
    read = read_csv(body, bounds.check)
    catalogue = read.catalogue()
    used = set(read.used)
    roles = [NAMES if at == read.named else FEATURE if at in used else UNUSED for at in range(len(read.columns))]
    columns = [{"name": name, "role": role} for name, role in zip(read.columns, roles, strict=True)]
    return columns, [list(row) for row in read.head], (len(catalogue), catalogue.dim)


def _table(kind: str, body: bytes, bounds: Bounds) -> tuple[list[dict[str, str]], list[list[Any]], tuple[int, int]]:
    catalogue = read_items(kind, body, bounds)
    size = (len(catalogue), catalogue.dim)
    if kind == NPY:
        columns = [{"name": str(at), "role": FEATURE} for at in range(catalogue.dim)]
        return columns, [[float(x) for x in row] for row in np.asarray(catalogue.features[:HEAD])], size
    import pyarrow as pa
    import pyarrow.parquet as pq

    head = next(pq.ParquetFile(io.BytesIO(body)).iter_batches(batch_size=HEAD))
    lists = any(_is_list(pa, field.type) for field in head.schema)
    columns = [{"name": field.name, "role": _role(pa, field, lists)} for field in head.schema]
    return columns, [list(row.values()) for row in head.to_pylist()], size


def _role(pa: Any, field: Any, lists: bool) -> str:
    if field.name == "id":
        return NAMES
    kind = field.type
    if lists:
        return FEATURE if _is_list(pa, kind) else UNUSED
    number = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return FEATURE if number else UNUSED


def _is_list(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _short(cell: Any) -> str:
    if isinstance(cell, list):
        return ", ".join(_short(one) for one in cell[:4]) + (", …" if len(cell) > 4 else "")
    text = f"{cell:.4g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= 120 else text[:119] + "…"
