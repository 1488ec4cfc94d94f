"""Passes over the rows of a catalogue that find the rows of largest leverage, and those outside a span."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Features, Floats, Ints

TILE = 64
"""Products with a matrix are computed for multiples of this number of rows: BLAS sums leftover rows in another order."""


class Lens(NamedTuple):
    """What a pass computes of each row: its leverage under one Q, and its distance from a basis."""

    whitening: Floats  # (d, r): |x W|^2 is the leverage of x
    complement: Floats  # (d, d - r): a basis of the directions outside the span
    scales: Floats  # (d,) divided out before lengths are compared
    slack: float  # distances from the span, relative to a row's length, up to this are rounding

    def look(self, stored: Features) -> tuple[Floats, Floats | None]:
        """The leverage of each row, and its squared relative distance from the span (None if no row can be outside it)."""
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
    """The result of a pass: the rows of largest leverage, a bound for all others, and the rows furthest from the span."""

    indices: Ints  # the largest first, ties by index
    lever: Floats
    rows: Floats
    rest: float  # no other row has a larger leverage
    outside: Ints  # the furthest first
    off: Floats  # squared relative distances: see Lens.look
    outside_rows: Floats


class Best:
    """The indices of the largest of many numbers, which several threads add in any order."""

    def __init__(self, most: int, spare: int = 1000) -> None:
        self.most, self.spare = most, spare
        self._least = -np.inf  # the smallest of the best so far, once there are enough
        self._lock = threading.Lock()
        self._indices: list[Ints] = []
        self._values: list[Floats] = []
        self._held = 0

    def add(self, start: int, values: Floats, above: float = -np.inf) -> None:
        """Add numbers with the indices from ``start`` on; only those above a limit count."""
        index = np.flatnonzero((values >= self._least) & (values > above))
        if len(index) == 0:
            return
        kept = values[index]
        with self._lock:
            self._indices.append(index + start)
            self._values.append(kept)
            self._held += len(index)
            if self._held > 2 * self.most + self.spare:
                indices, values = self.found()
                self._indices, self._values, self._held = [indices], [values], len(indices)
                self._least = float(values[-1])

    def found(self) -> tuple[Ints, Floats]:
        """Indices and numbers, the largest first, ties by index."""
        if not self._indices:
            return np.empty(0, np.int64), np.empty(0)
        indices, values = np.concatenate(self._indices), np.concatenate(self._values)
        if len(values) > self.most:
            least = np.partition(values, len(values) - self.most)[len(values) - self.most]
            held = values >= least
            indices, values = indices[held], values[held]
        order = np.lexsort((indices, -values))[: self.most]
        return indices[order], values[order]


def merged(parts: list[Found], most: int) -> Found:
    """Merge the results of several passes: the same as one pass over all of their rows."""
    joined = [np.concatenate(column) for column in zip(*(part[:3] + part[4:] for part in parts), strict=True)]
    indices, lever, rows, outside, off, outside_rows = joined
    order = np.lexsort((indices, -lever))
    rest = max([part.rest for part in parts] + lever[order[most : most + 1]].tolist())
    best = order[:most]
    furthest = np.lexsort((outside, -off))[: 4 * rows.shape[1]]
    return Found(indices[best], lever[best], rows[best], rest, outside[furthest], off[furthest], outside_rows[furthest])


class _Scratch(threading.local):
    """Memory for a chunk and its image, reused by each thread, since fresh memory is slow."""

    def __init__(self) -> None:
        self.memory = np.empty(0)

    def pair(self, count: int, width: int, image: int) -> tuple[Floats, Floats]:
        first, needed = count * width, count * (width + image)
        if len(self.memory) < needed:
            self.memory = np.empty(needed)
        return self.memory[:first].reshape(count, width), self.memory[first:needed].reshape(count, image)


_scratch = _Scratch()
