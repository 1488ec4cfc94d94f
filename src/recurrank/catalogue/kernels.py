"""Compiled passes over rows and ids as they are stored.

Imported where they are called, because numba takes 100 MB, and designs do not need it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Features, Floats, Ints
from recurrank._compiled import sweep


def enlarge(stored: Features, largest: Floats) -> bool:
    """Raise the largest absolute value of each column to that of these rows; False if a number is not finite."""
    bad = np.zeros(len(largest))
    _enlarge(stored, largest, bad)
    return bool(np.isfinite(bad).all())


@sweep
def _enlarge(stored: Features, largest: Floats, bad: Floats) -> None:
    for i in range(stored.shape[0]):
        for j in range(stored.shape[1]):
            value = np.float64(stored[i, j])
            bad[j] += value * 0.0  # NaN once a value is not finite
            largest[j] = max(largest[j], abs(value))


@sweep
def dot(stored: Features, vector: Floats, scale: float, out: Floats) -> None:
    """Products with a vector, rounded to multiples of 1 / scale unless that is 0.

    Eight sums per row, added up in a fixed order, so that eight products are computed at once.
    """
    dim = stored.shape[1]
    whole = dim - dim % 8
    for i in range(stored.shape[0]):
        row = stored[i]
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for j in range(0, whole, 8):
            s0 += row[j] * vector[j]
            s1 += row[j + 1] * vector[j + 1]
            s2 += row[j + 2] * vector[j + 2]
            s3 += row[j + 3] * vector[j + 3]
            s4 += row[j + 4] * vector[j + 4]
            s5 += row[j + 5] * vector[j + 5]
            s6 += row[j + 6] * vector[j + 6]
            s7 += row[j + 7] * vector[j + 7]
        for j in range(whole, dim):
            s0 += row[j] * vector[j]
        total = ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))
        out[i] = np.rint(total * scale) / scale if scale > 0 else total


@sweep
def turn(columns: Features, rows: Features) -> None:
    """Write columns as rows."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[i, j] = columns[j, i]


@sweep
def hash_text(text: NDArray[np.uint8], ends: Ints, out: NDArray[np.uint64]) -> None:
    """The hash of each name, FNV-1a with 64 bits; name i ends at ``ends[i + 1]``."""
    for i in range(len(out)):
        value = np.uint64(14695981039346656037)
        for j in range(ends[i], ends[i + 1]):
            value = (value ^ np.uint64(text[j])) * np.uint64(1099511628211)
        out[i] = value
