"""What a pass over the rows of a catalogue looks for, and what it finds: the rows of largest leverage, and those off a span."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Features, Floats, Ints

TILE = 64
"""Products with a matrix are computed for multiples of this many rows: BLAS sums the last of an odd number in another order."""


class Lens(NamedTuple):
    """How a pass looks at rows: in a basis, under one Q."""

    whitening: Floats  # (d, r): |x W|^2 is the leverage of x
    complement: Floats  # (d, d - r): what the basis does not reach
    scales: Floats  # (d,) taken out before lengths are compared
    slack: float  # how far off the span, relative to a row's length, is rounding only

    def look(self, stored: Features) -> tuple[Floats, Floats | None]:
        """The leverage of each row, and its squared relative distance from the span (None: no row can be off the span)."""
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

    indices: Ints  # the largest first, equal ones by index
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
        self._indices: list[Ints] = []
        self._values: list[Floats] = []
        self._held = 0

    def add(self, start: int, values: Floats, above: float = -np.inf) -> None:
        """Numbers for the indices from ``start`` on; only those above a limit count."""
        here = np.flatnonzero((values >= self._least) & (values > above))
        if len(here) == 0:
            return
        kept = values[here]
        with self._lock:
            self._indices.append(here + start)
            self._values.append(kept)
            self._held += len(here)
            if self._held > 2 * self.most + self.spare:
                indices, values = self.found()
                self._indices, self._values, self._held = [indices], [values], len(indices)
                self._least = float(values[-1])

    def found(self) -> tuple[Ints, Floats]:
        """Indices and numbers, the largest first, equal ones by index."""
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
    """Merge what several passes found: the same as one pass over all of their rows."""
    joined = [np.concatenate(column) for column in zip(*(part[:3] + part[4:] for part in parts), strict=True)]
    indices, lever, rows, outside, off, outside_rows = joined
    order = np.lexsort((indices, -lever))
    rest = max([part.rest for part in parts] + lever[order[most : most + 1]].tolist())
    best = order[:most]
    furthest = np.lexsort((outside, -off))[: 4 * rows.shape[1]]
    return Found(indices[best], lever[best], rows[best], rest, outside[furthest], off[furthest], outside_rows[furthest])


class _Scratch(threading.local):
    """Memory for a chunk and its image, one per thread: made once, since memory that was never touched is slow."""

    def __init__(self) -> None:
        self.memory = np.empty(0)

    def pair(self, count: int, width: int, image: int) -> tuple[Floats, Floats]:
        first, needed = count * width, count * (width + image)
        if len(self.memory) < needed:
            self.memory = np.empty(needed)
        return self.memory[:first].reshape(count, width), self.memory[first:needed].reshape(count, image)


_scratch = _Scratch()
