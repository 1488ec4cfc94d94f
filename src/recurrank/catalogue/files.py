"""Feature matrices from files: .npy (mapped, not read), raw float32, and CSV or Parquet that fits into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from recurrank._arrays import Features, as_count, as_features
from recurrank.catalogue.csv import read_csv_file
from recurrank.catalogue.parquet import Dataset


def read_features(path: Path) -> Features:
    """The feature matrix in a .npy, .csv or .parquet file; ValueError says in one line what is wrong with it.

    A .npy file is mapped into memory, so that its size does not matter; other files are read. ``columns.py`` chooses
    their feature columns.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give a .npy, .csv or .parquet file with one row per item")
    if path.suffix == ".npy":
        return as_features(map_npy(path))
    if path.suffix == ".csv":
        return read_csv_file(path).features
    if path.suffix == ".parquet":
        return Dataset(path).load(ids=False)[0]
    raise ValueError(f"{path}: ends in {path.suffix or 'nothing'}; give a .npy, .csv or .parquet file")


def map_npy(path: Path) -> np.ndarray[Any, Any]:
    """The array in a .npy file, mapped into memory."""
    try:
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: not a .npy file of numbers, or a truncated one ({error})") from error
    return array


def map_raw(path: Path, dim: object) -> Features:
    """The float32 numbers in a file without a header, ``dim`` per row, mapped into memory."""
    size, row = path.stat().st_size, 4 * as_count("dim", dim)
    if size == 0 or size % row:
        raise ValueError(f"{path}: {size:,} bytes are not a whole number of rows of {dim} float32 ({row} bytes); is dim right?")
    return np.memmap(path, np.float32, "r", shape=(size // row, row // 4))
