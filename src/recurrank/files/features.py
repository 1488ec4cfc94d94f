"""Feature matrices from files: .npy (mapped, not read), raw float32, and .parquet that fits into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from recurrank._arrays import Features, as_count, as_features
from recurrank.files.parquet import Dataset


def read_features(path: Path) -> Features:
    """The feature matrix in a .npy or .parquet file; ValueError says in one line what is wrong with it.

    A .npy file is mapped into memory, so that its size does not matter. A .parquet file is read: it has either one list
    column, any other columns being names and the like, or numeric and boolean columns, one a feature; text is never a
    feature, nor is a column ``id``.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give a .npy or .parquet file with one row per item")
    if path.suffix == ".npy":
        return as_features(map_npy(path))
    if path.suffix == ".parquet":
        dataset = Dataset(path)
        out = np.empty((dataset.rows, dataset.dim))
        for group in dataset.groups:
            for part in dataset.read(group, ids=False, kind=np.float64):
                out[part.start : part.start + len(part.features)] = part.features
        return out
    raise ValueError(f"{path}: ends in {path.suffix or 'nothing'}; give a .npy or .parquet file")


def map_npy(path: Path) -> np.ndarray[Any, Any]:
    """The array in a .npy file, mapped into memory."""
    try:
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: not a .npy file of numbers, or a truncated one ({error})") from error
    return array


def map_raw(path: Path, dim: object) -> Features:
    """The float32 numbers in a file that holds nothing else, ``dim`` a row, mapped into memory."""
    size, row = path.stat().st_size, 4 * as_count("dim", dim)
    if size == 0 or size % row:
        raise ValueError(f"{path}: {size:,} bytes are no number of rows of {dim} float32 ({row} bytes); is dim right?")
    return np.memmap(path, np.float32, "r", shape=(size // row, row // 4))
