"""Reading a catalogue chunk by chunk: leverages, scales and products without loading all of it into memory.

Features stay as they are stored (float32 or float64, in memory or mapped from a file); all arithmetic is in float64.
Chunks are distributed over the processors. Results are the same to the last bit for any number of processors and any
chunk boundaries: the order in which a row's products are summed depends only on the row, and the best of all rows are the
best of the chunks' best, ties by their index.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from recurrank._arrays import Features, Floats
from recurrank.catalogue.scan import TILE, Best, Found, Lens

CHUNK_NUMBERS = 1 << 18
"""Numbers in a chunk: 2 MB of float64, so that Python's cost per chunk is small compared with the arithmetic."""
SMALLEST_SCALE = 1e-280
"""Columns whose scale is below this count as zero: float64 cannot represent the reciprocal."""
COPIED = 1 << 28
"""Bytes of features up to which an array is copied if somebody may still write to it."""


class Rows:
    """The rows of a feature matrix, or of a choice of them, read chunk by chunk.

    Args:
        features: the whole catalogue, one row per item.
        index: which rows, in which order; by default all of them.
        scales: the largest absolute value of each column, if it is known already.
        precise: whether features have the precision of float64; by default that of their type.

    Reading a memory map whose file has become shorter would kill the process; every read checks that first, and raises
    ValueError.

    >>> rows = Rows(np.eye(3), index=np.array([2, 0]))
    >>> [chunk.tolist() for _, chunk in rows.chunks()]
    [[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]

    """

    def __init__(
        self, features: Features, index: NDArray[np.integer[Any]] | None = None, scales: Floats | None = None,
        precise: bool | None = None,
    ) -> None:  # fmt: skip
        self.features = features
        self.precise = is_precise(features) if precise is None else precise
        self.index = index
        self._scales = scales
        self._file = MappedFile.of(features)

    def __len__(self) -> int:
        return len(self.features) if self.index is None else len(self.index)

    @property
    def dim(self) -> int:
        return int(self.features.shape[1])

    def parts(self) -> list[slice]:
        """The slices that chunks cover."""
        step = max(TILE, CHUNK_NUMBERS // self.dim // TILE * TILE)
        return [slice(start, min(start + step, len(self))) for start in range(0, len(self), step)]

    def stored(self, part: slice) -> Features:
        """The rows of a part as they are stored."""
        self._look()
        return np.asarray(self.features[part] if self.index is None else self.features.take(self.index[part], axis=0))

    def chunks(self) -> Iterator[tuple[slice, Floats]]:
        """Each chunk as float64, with the slice of this view that it covers."""
        for part in self.parts():
            yield part, np.asarray(self.stored(part), dtype=np.float64)

    def part(self, which: NDArray[np.integer[Any]]) -> Rows:
        """The chosen rows of this view, as a view."""
        return Rows(self.features, which if self.index is None else self.index[which], precise=self.precise)

    def take(self, which: NDArray[np.integer[Any]]) -> Floats:
        """The chosen rows of this view, as float64."""
        self._look()
        return np.asarray(self.features[which if self.index is None else self.index[which]], dtype=np.float64)

    def begin(self, which: NDArray[np.integer[Any]]) -> tuple[Floats, Floats]:
        """Column scales and the chosen rows: what a design starts from."""
        return self.scales(), self.take(which)

    def scales(self) -> Floats:
        """The largest absolute value of each column."""
        if self._scales is None:
            self._scales = column_scales(self)
        return self._scales

    def scan(self, lens: Lens, most: int) -> Found:
        """The result of a pass with this lens over all rows."""
        best, outside = Best(most + 1), Best(4 * self.dim)

        def work(part: slice) -> None:
            lever, off = lens.look(self.stored(part))
            best.add(part.start, lever)
            if off is not None:
                outside.add(part.start, off, above=lens.slack**2)

        over_parts(self, work)
        indices, lever = best.found()
        missed, off = outside.found()
        rest = float(lever[most]) if len(lever) > most else 0.0
        indices, lever = indices[:most], lever[:most]
        return Found(indices, lever, self.take(indices), rest, missed, off, self.take(missed))

    def _look(self) -> None:
        if self._file is not None:
            self._file.look()


def is_precise(features: Features) -> bool:
    """Whether features are stored with the precision of float64."""
    return features.dtype != np.float32


def column_scales(rows: Rows) -> Floats:
    """The largest absolute value of each column; ValueError names the first row that is not finite."""
    largest: list[Floats] = []
    bad: list[tuple[int, int, float]] = []

    def work(part: slice) -> None:
        stored = rows.stored(part)
        scales = np.maximum(stored.max(axis=0), -stored.min(axis=0)).astype(np.float64)
        if not np.isfinite(scales).all():
            row, column = np.argwhere(~np.isfinite(stored))[0]
            bad.append((part.start + int(row), int(column), float(stored[row, column])))
        largest.append(scales)

    over_parts(rows, work)
    if bad:
        row, column, value = min(bad)
        raise ValueError(f"features[{row}, {column}]: {value} is not finite; give numbers for every feature")
    return np.max(largest, axis=0) if largest else np.zeros(rows.dim)


def without_zeros(scales: Floats) -> Floats:
    """The scales, with 1 for a column of zeros; ValueError if all columns are zero."""
    scales = np.where(scales < SMALLEST_SCALE, 0.0, scales)
    if not scales.any():
        raise ValueError("features: every feature of every item is zero; give at least one that is not")
    return np.where(scales == 0, 1.0, scales)


def products(rows: Rows, vector: Floats, decimals: int | None = None, best: Best | None = None) -> Floats:
    """``<x, vector>`` of every row x, rounded to ``decimals`` if given; ``best`` gets them. Equal rows have equal products."""
    from recurrank.catalogue.kernels import dot

    out = np.empty(len(rows))
    scale = 0.0 if decimals is None else 10.0**decimals
    vector = np.ascontiguousarray(vector, dtype=np.float64)

    def work(part: slice) -> None:
        dot(np.ascontiguousarray(rows.stored(part)), vector, scale, out[part])
        if best is not None:
            best.add(part.start, out[part])

    over_parts(rows, work)
    return out


def leverages(rows: Rows, whitening: Floats) -> Floats:
    """``|x W|^2`` of every row x: its leverage ``x' Q^+ x`` when ``W W' = Q^+``."""
    out = np.empty(len(rows))
    lens = Lens(whitening, np.empty((rows.dim, 0)), np.ones(rows.dim), np.inf)

    def work(part: slice) -> None:
        out[part] = lens.look(rows.stored(part))[0]

    over_parts(rows, work)
    return out


def over_parts(rows: Rows, work: Callable[[slice], None]) -> None:
    """Call ``work`` for every part, on all processors."""
    parts = rows.parts()
    with one_thread():
        if len(parts) < 2:
            for part in parts:
                work(part)
        else:
            with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
                for _ in pool.map(work, parts):
                    pass


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS from starting threads: our own process the chunks, and for small matrices its threads cost more than they gain.

    (While another process was busy, a QR factorisation of 2 ms took 200 with threads.)
    """
    with _controller().limit(limits=1):
        yield


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def kept(features: Features) -> Features:
    """The features, copied if somebody may still write to them, for example to reuse a buffer for other items.

    Read-only memory maps, read-only arrays and arrays above ``COPIED`` bytes are not copied. The copy is writeable, since numba
    would compile everything again for a read-only one.
    """
    return features.copy() if lent(features) and features.nbytes <= COPIED else features


def lent(features: Features) -> bool:
    """Whether the features are in memory that this process may still write to, also through another object."""
    return not _read_only(features)


def _read_only(owner: Any) -> bool:
    """Whether an object's memory is read-only, and that of everything that it is a view of; False where that is not known.

    A read-only view may be of writeable memory: pandas gives such views of its frames.
    """
    if isinstance(owner, np.ndarray):
        return not owner.flags.writeable and (owner.flags.owndata or _read_only(owner.base))
    if isinstance(owner, memoryview):
        return owner.readonly and _read_only(owner.obj)
    return isinstance(owner, bytes) or (isinstance(owner, mmap.mmap) and memoryview(owner).readonly)


class MappedFile(NamedTuple):
    """The file that an array is mapped from."""

    mapped: mmap.mmap
    needed: int  # the size that it must have, in bytes
    name: str

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> MappedFile | None:
        """None for an array that is in memory."""
        name, start = "features", 0
        base: Any = array
        while base is not None and not isinstance(base, mmap.mmap):
            if isinstance(base, np.memmap) and base.filename is not None:
                name, start = str(base.filename), base.offset - base.offset % mmap.ALLOCATIONGRANULARITY
            base = getattr(base, "base", None)
        return None if base is None else cls(base, start + len(base), name)

    def look(self) -> None:
        """Raise ValueError if the file has become shorter: reading beyond its end would kill the process."""
        size = self.mapped.size()
        if size < self.needed:
            raise ValueError(
                f"{self.name}: {size:,} bytes are left of the {self.needed:,} when it was opened; restore the file"
            )
