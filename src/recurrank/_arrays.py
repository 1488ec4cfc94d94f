"""Array types, and checks that reject bad arrays with a message of one line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Counts = NDArray[np.int32]
Bools = NDArray[np.bool_]
Features = NDArray[np.floating[Any]]

LARGEST_COUNT = 10**15
_NUMBERS = (int, float, np.integer, np.floating)


def as_array(name: str, values: ArrayLike) -> Floats:
    """A float64 array of any shape; ValueError with the field's name for anything ragged or not numeric."""
    refuse_masked(name, values)
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: not an array of numbers, or rows of different lengths") from error


def as_number(name: str, value: object) -> float:
    """A number; the caller checks for NaN and infinities."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        raise ValueError(f"{name}: {value!r} is not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{name}: {value!r} is too large") from error


def refuse_masked(name: str, values: ArrayLike) -> None:
    """ValueError for an array with masked entries: NumPy would use the numbers under the mask."""
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        raise ValueError(f"{name}: some entries are masked; every number is needed")


def as_features(features: ArrayLike) -> Features:
    """A two-dimensional array of floats; float32 and float64 arrays (memory maps too) are not copied.

    Raises ValueError for anything ragged, empty, not numeric or not two-dimensional. The first pass over the
    numbers, not this function, checks that they are finite.
    """
    refuse_masked("features", features)
    try:
        array = features if isinstance(features, np.memmap) else np.asarray(features)
        if array.dtype == object and array.ndim == 1:  # a column of lists
            array = np.array(array.tolist())
    except ValueError as error:  # NumPy's term for rows of different lengths
        raise ValueError("features: rows have different lengths; every item needs the same number of features") from error
    if array.dtype == object:
        array = _numbers_of(array, features)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"features: shape is {array.shape}; give a matrix of numbers with one row per item and at least one column"
        )
    if array.dtype not in (np.float32, np.float64):
        if array.dtype.kind not in "iufb":
            raise ValueError(f"features: {array.dtype} is not a type of number; give floats")
        array = array.astype(np.float64)
    return array


def _numbers_of(array: NDArray[np.object_], given: Any) -> Floats:
    """Python objects as numbers; ValueError names the type, or the row and column, that is not numeric."""
    if array.ndim != 2:
        wanted = "give its toarray()" if hasattr(given, "toarray") else "give an array or a list with one row per item"
        raise ValueError(f"features: {type(given).__name__} is not a matrix of numbers; {wanted}")
    numbers = np.empty(array.shape)
    for column, name in enumerate(getattr(given, "columns", range(array.shape[1]))):
        for row, value in enumerate(array[:, column]):
            if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
                raise ValueError(f"features: row {row}, column {name!r}: {value!r} is not a number; give numbers only")
            numbers[row, column] = value
    return numbers


def as_probabilities(name: str, values: ArrayLike, *, shape: tuple[int, ...] | None = None) -> Floats:
    """A float64 array whose entries lie in [0, 1], of the given shape (by default one-dimensional and not empty)."""
    array = as_array(name, values)
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name}: shape is {array.shape}; it should be {shape}")
    if shape is None and (array.ndim != 1 or array.size == 0):
        raise ValueError(f"{name}: shape is {array.shape}; give a one-dimensional array with at least one number")
    bad = ~((array >= 0) & (array <= 1))  # NaN fails both comparisons
    if bad.any():
        where = np.unravel_index(int(np.argmax(bad)), array.shape)
        index = ", ".join(str(i) for i in where)
        raise ValueError(f"{name}[{index}]: {array[where]} lies outside [0, 1]")
    array.setflags(write=False)
    return array


def as_probability(name: str, value: float) -> float:
    """A number in [0, 1]."""
    number = as_number(name, value)
    if not 0 <= number <= 1:
        raise ValueError(f"{name}: {number} lies outside [0, 1]")
    return number


def as_count(name: str, value: object, *, least: int = 1) -> int:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer | float) or value - value != 0 or value != value // 1:
        raise ValueError(f"{name}: {value!r} is not a whole number; give an integer of at least {least}")
    number = int(value)
    if number < least:
        raise ValueError(f"{name}: {number} is too small; give an integer of at least {least}")
    if number > LARGEST_COUNT:
        raise ValueError(f"{name}: {number} is too large; give an integer of at most {LARGEST_COUNT}")
    return number
