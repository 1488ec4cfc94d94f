"""Reading a catalogue chunk by chunk: leverages, scales and products that never hold the whole of it.

Features stay as they are stored (float32 or float64, in memory or mapped from a file); all arithmetic is in float64.
Chunks are shared out among the processors. What comes out is the same to the last bit whatever their number and
wherever the chunks begin: a row's products are summed in an order that depends on nothing but the row, and the best of
all rows are the best of the chunks' best, equal ones by their index.
"""

from __future__ import annotations

import functools
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from recurrank._arrays import Features, Floats, Ints

CHUNK_NUMBERS = 1 << 18
"""Of a chunk: 2 MB of float64, so that what Python does for each costs little beside the arithmetic."""
TILE = 64
"""Products with a matrix are made for multiples of so many rows: BLAS sums the last of an odd number in another order."""


class Rows:
    """The rows of a feature matrix, or of a choice of them, read chunk by chunk.

    Args:
        features: the whole catalogue, one row per item.
        index: which rows, in which order; by default all of them.
        scales: the largest absolute value of each column, where it is known already.

    Reading a memory map whose file has become shorter would end the process; every read looks first, and raises
    ValueError.

    >>> rows = Rows(np.eye(3), index=np.array([2, 0]))
    >>> [chunk.tolist() for _, chunk in rows.chunks()]
    [[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]

    """

    def __init__(self, features: Features, index: NDArray[np.integer[Any]] | None = None, scales: Floats | None = None) -> None:
        self.features = features
        self.index = index
        self._scales = scales
        self._file = MappedFile.of(features)

    def __len__(self) -> int:
        return len(self.features) if self.index is None else len(self.index)

    @property
    def dim(self) -> int:
        return int(self.features.shape[1])

    @property
    def precise(self) -> bool:
        """Whether features have the digits of float64."""
        return self.features.dtype != np.float32

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
        return Rows(self.features, which if self.index is None else self.index[which])

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
        """What the lens shows of all rows: see :class:`Found`."""
        best, outside = Best(most + 1), Best(4 * self.dim)

        def work(part: slice) -> None:
            lever, off = lens.look(self.stored(part))
            best.add(part.start, lever)
            if off is not None:
                outside.add(part.start, off, above=lens.slack**2)

        over_parts(self, work)
        places, lever = best.found()
        missed, off = outside.found()
        rest = float(lever[most]) if len(lever) > most else 0.0
        places, lever = places[:most], lever[:most]
        return Found(places, lever, self.take(places), rest, missed, off, self.take(missed))

    def _look(self) -> None:
        if self._file is not None:
            self._file.look()


class Lens(NamedTuple):
    """How a pass looks at rows: in a basis, under one Q."""

    whitening: Floats  # (d, r): |x W|^2 is the leverage of x
    complement: Floats  # (d, d - r): what the basis does not reach
    scales: Floats  # (d,) taken out before lengths are compared
    slack: float  # how far off the span, relative to a row's length, is rounding only

    def look(self, stored: Features) -> tuple[Floats, Floats | None]:
        """Of each row its leverage, and how far it is off the span: that share of its length, squared (None: none can be)."""
        count, dim = stored.shape
        rank = self.whitening.shape[1]
        padded = -(-count // TILE) * TILE
        matrix = self.whitening if rank == dim else np.hstack([self.whitening, self.complement])
        chunk, image = _scratch.pair(padded, dim, matrix.shape[1])
        chunk[:count] = stored
        chunk[count:] = 0.0
        np.matmul(chunk, matrix, out=image)
        inner, rest = image[:count, :rank], image[:count, rank:]
        lever = np.einsum("ij,ij->i", inner, inner)
        if rank == dim:
            return lever, None
        chunk /= self.scales
        length = np.einsum("ij,ij->i", chunk[:count], chunk[:count])
        off = np.einsum("ij,ij->i", rest, rest)
        return lever, np.divide(off, length, out=np.zeros(count), where=length > 0)


class Found(NamedTuple):
    """What a pass found: the rows of largest leverage, a bound for all others, and the rows furthest off the span."""

    places: Ints  # the largest first, equal ones by index
    lever: Floats
    rows: Floats
    rest: float  # no row that is not here has a larger leverage
    outside: Ints  # the furthest first
    off: Floats  # how far: see Lens.look
    outside_rows: Floats


class Best:
    """The indices of the largest of many numbers, which come in any order from several threads."""

    def __init__(self, most: int, spare: int = 1000) -> None:
        self.most, self.spare = most, spare
        self._least = -np.inf  # of the best so far, once there are enough
        self._lock = threading.Lock()
        self._places: list[Ints] = []
        self._values: list[Floats] = []
        self._held = 0

    def add(self, start: int, values: Floats, above: float = -np.inf) -> None:
        """Numbers for the indices from ``start`` on; only those above a limit count."""
        here = np.flatnonzero((values >= self._least) & (values > above))
        if len(here) == 0:
            return
        kept = values[here]
        with self._lock:
            self._places.append(here + start)
            self._values.append(kept)
            self._held += len(here)
            if self._held > 2 * self.most + self.spare:
                places, values = self.found()
                self._places, self._values, self._held = [places], [values], len(places)
                self._least = float(values[-1])

    def found(self) -> tuple[Ints, Floats]:
        """Indices and numbers, the largest first, equal ones by index."""
        if not self._places:
            return np.empty(0, np.int64), np.empty(0)
        places, values = np.concatenate(self._places), np.concatenate(self._values)
        if len(values) > self.most:
            least = np.partition(values, len(values) - self.most)[len(values) - self.most]
            held = values >= least
            places, values = places[held], values[held]
        order = np.lexsort((places, -values))[: self.most]
        return places[order], values[order]


def merged(parts: list[Found], most: int) -> Found:
    """What the rows of several passes have together: as one pass over all of them would have found it."""
    joined = [np.concatenate(column) for column in zip(*(part[:3] + part[4:] for part in parts), strict=True)]
    places, lever, rows, outside, off, outside_rows = joined
    order = np.lexsort((places, -lever))
    rest = max([part.rest for part in parts] + lever[order[most : most + 1]].tolist())
    best = order[:most]
    furthest = np.lexsort((outside, -off))[: 4 * rows.shape[1]]
    return Found(places[best], lever[best], rows[best], rest, outside[furthest], off[furthest], outside_rows[furthest])


def column_scales(rows: Rows) -> Floats:
    """The largest absolute value of each column; ValueError names the first row that is not finite."""
    largest: list[Floats] = []
    bad: list[tuple[int, int, float]] = []

    def work(part: slice) -> None:
        stored = rows.stored(part)
        here = np.maximum(stored.max(axis=0), -stored.min(axis=0)).astype(np.float64)
        if not np.isfinite(here).all():
            row, column = np.argwhere(~np.isfinite(stored))[0]
            bad.append((part.start + int(row), int(column), float(stored[row, column])))
        largest.append(here)

    over_parts(rows, work)
    if bad:
        row, column, value = min(bad)
        raise ValueError(f"features[{row}, {column}]: {value} is not finite; give numbers for every feature")
    return np.max(largest, axis=0) if largest else np.zeros(rows.dim)


def products(rows: Rows, vector: Floats, decimals: int | None = None, best: Best | None = None) -> Floats:
    """``<x, vector>`` of every row x, rounded if so wished; ``best`` gets them too. Equal rows have equal products."""
    from recurrank.design.kernels import dot  # here, since numba takes 100 MB, and designs do without

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
    """Do the work for every part, on all processors."""
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
    """Keep BLAS from starting threads: ours share out the chunks, and for small matrices its threads cost more than they do.

    (Beside another busy process, a QR factorisation of 2 ms took 200 with threads.)
    """
    with _controller().limit(limits=1):
        yield


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _Scratch(threading.local):
    """Room for a chunk and its image, a thread: made once, since memory that was never touched is slow."""

    def __init__(self) -> None:
        self.room = np.empty(0)

    def pair(self, count: int, width: int, image: int) -> tuple[Floats, Floats]:
        first, needed = count * width, count * (width + image)
        if len(self.room) < needed:
            self.room = np.empty(needed)
        return self.room[:first].reshape(count, width), self.room[first:needed].reshape(count, image)


_scratch = _Scratch()


class MappedFile(NamedTuple):
    """The file that an array is mapped from."""

    mapped: mmap.mmap
    needed: int  # how long it has to be
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
        """Reading what is no longer there would end the process; raise ValueError instead."""
        size = self.mapped.size()
        if size < self.needed:
            raise ValueError(
                f"{self.name}: {size:,} bytes are left of the {self.needed:,} when it was opened; restore the file"
            )
