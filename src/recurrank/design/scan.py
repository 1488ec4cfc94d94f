"""Reading a catalogue chunk by chunk: leverages, scales and products that never hold the whole of it.

A *chunk* is about a megabyte of float64, so that it is still in the processor's cache when the product with a
small matrix comes to read it. Features stay as they are stored (float32 or float64, in memory or mapped from a
file); all arithmetic is in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Features, Floats

CHUNK_NUMBERS = 1 << 17


class Rows:
    """The rows of a feature matrix, or of a choice of them, read chunk by chunk.

    Args:
        features: the whole catalogue, a row an item.
        index: which rows, in which order; by default all of them.

    >>> rows = Rows(np.eye(3), index=np.array([2, 0]))
    >>> [chunk.tolist() for _, chunk in rows.chunks()]
    [[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]

    """

    def __init__(self, features: Features, index: NDArray[np.integer[Any]] | None = None) -> None:
        self.features = features
        self.index = index

    def __len__(self) -> int:
        return len(self.features) if self.index is None else len(self.index)

    @property
    def dim(self) -> int:
        return int(self.features.shape[1])

    def chunks(self) -> Iterator[tuple[slice, Floats]]:
        """Each chunk as float64, with the slice of this view that it covers."""
        step = max(64, CHUNK_NUMBERS // self.dim)
        for start in range(0, len(self), step):
            part = slice(start, min(start + step, len(self)))
            source = self.features[part] if self.index is None else self.features[self.index[part]]
            yield part, np.asarray(source, dtype=np.float64)

    def part(self, which: NDArray[np.integer[Any]]) -> Rows:
        """The chosen rows of this view, as a view."""
        return Rows(self.features, which if self.index is None else self.index[which])

    def take(self, which: NDArray[np.integer[Any]]) -> Floats:
        """The chosen rows of this view, as float64."""
        index = which if self.index is None else self.index[which]
        return np.asarray(self.features[index], dtype=np.float64)


def column_scales(rows: Rows) -> Floats:
    """The largest absolute value of each column; ValueError names the first row that is not finite."""
    largest = np.zeros(rows.dim)
    for part, chunk in rows.chunks():
        here = np.maximum(chunk.max(axis=0), -chunk.min(axis=0))
        if not np.isfinite(here).all():
            row, column = np.argwhere(~np.isfinite(chunk))[0]
            value = chunk[row, column]
            raise ValueError(f"features[{part.start + row}, {column}]: {value} is not finite; give numbers for every feature")
        np.maximum(largest, here, out=largest)
    return largest


def products(rows: Rows, vector: Floats) -> Floats:
    """``<x, vector>`` of every row x, each row summed in the same order: equal rows get equal products."""
    out = np.empty(len(rows))
    for part, chunk in rows.chunks():
        np.einsum("ij,j->i", chunk, vector, out=out[part])  # not a BLAS product, whose order depends on threads and place
    return out


def leverages(rows: Rows, whitening: Floats) -> Floats:
    """``|x W|^2`` of every row x: its leverage ``x' Q^+ x`` when ``W W' = Q^+``."""
    out = np.empty(len(rows))
    for part, chunk in rows.chunks():
        image = chunk @ whitening
        np.einsum("ij,ij->i", image, image, out=out[part])
    return out
