"""Feature matrices from files: .npy (mapped, not read) and .parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from recurrank._arrays import Features, as_array, as_features


def read_features(path: Path, leave_out: tuple[str, ...] = ()) -> Features:
    """The feature matrix in a .npy or .parquet file; ValueError says in one line what is wrong with it.

    A .npy file is mapped into memory, so that its size does not matter. A .parquet file has either one list column, any
    other columns being names and the like, or numeric and boolean columns, one a feature; text is never a feature, nor are
    the columns ``leave_out``.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give a .npy or .parquet file with a row an item")
    if path.suffix == ".npy":
        return as_features(_npy(path))
    if path.suffix == ".parquet":
        return as_features(_parquet(path, leave_out))
    raise ValueError(f"{path}: ends in {path.suffix or 'nothing'}; give a .npy or .parquet file")


def _npy(path: Path) -> np.ndarray[Any, Any]:
    try:
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: not a .npy file of numbers, or a truncated one ({error})") from error
    return array


def _parquet(path: Path, leave_out: tuple[str, ...]) -> np.ndarray[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(f"{path}: Parquet needs pyarrow; install recurrank[parquet]") from error
    try:
        table = pq.read_table(path)
        table = table.drop_columns([name for name in leave_out if name in table.column_names])
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a Parquet file, or a truncated one ({error})") from error
    lists = [name for name, kind in zip(table.column_names, table.schema.types, strict=True) if _is_list(pa, kind)]
    if len(lists) > 1:
        raise ValueError(f"{path}: several list columns ({', '.join(lists)}); keep the one with the features")
    if lists:
        rows = table.column(lists[0]).to_pylist()
        if any(row is None for row in rows):
            raise ValueError(f"{path}: column {lists[0]!r} has empty rows; every item needs its features")
        return as_array(f"{path}: column {lists[0]!r}", rows)
    numeric = [name for name, kind in zip(table.column_names, table.schema.types, strict=True) if _is_number(pa, kind)]
    if not numeric:
        raise ValueError(f"{path}: no list column and no numeric columns; give one of either")
    return np.column_stack([table.column(name).to_numpy() for name in numeric]).astype(np.float64)


def _is_list(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))
