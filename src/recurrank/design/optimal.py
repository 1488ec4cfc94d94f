"""G-optimal design by Frank-Wolfe with away steps on an active set.

The problem (the paper's equation (gopt); Kiefer and Wolfowitz 1960): find weights pi on the rows x of X with

    max_x  x' Q(pi)^+ x  =  r,      Q(pi) = sum_x pi(x) x x',      r = rank X,

which is also the D-optimal design (it maximises log det Q). The method is Wolfe's and Atwood's (Todd 2016,
*Minimum-Volume Ellipsoids*, chapter 3): move weight towards the row of largest leverage, or away from the
supporting row of smallest leverage, whichever is further from r, by the exact best step.

| paper        | code                                                            |
|--------------|-----------------------------------------------------------------|
| x, X         | a row, ``rows``; ``points`` are active rows in the basis below  |
| pi           | ``weights``                                                     |
| Q(pi)^+      | ``inverse``, in the basis                                       |
| x' Q^+ x     | leverage, ``lever``                                             |
| d            | r, the rank of the rows (deviations.md, "rank for dimension")   |

It is fast because it rarely reads the catalogue. A few hundred *active* rows take part in the iterations; rows that violate
the tolerance come from a *pool* of about ten thousand, in memory; and the whole catalogue is read only to fill the pool with
the rows of largest leverage. The first pass finds column scales, and a sample as the first pool. Each further pass finds the
largest leverage of all, which often ends the search, and the rows that exceed the tolerance, for the next pool. Two facts
save passes and rows:

- leverages cannot grow by more than the factor rho = lambda_max(Q_scan Q_now^-1), so x' Q_now^+ x <= rho x' Q_scan^+ x:
  if rho times the largest leverage outside the pool stays below the largest inside, the latter is the exact maximum;
- Harman and Pronzato (2007): a row whose leverage is below a bound, which depends only on the largest leverage,
  supports no optimal design, so it does not belong in the pool.

A catalogue is anything with ``begin`` and ``scan`` (``Source``): an array or a file (``rows.Rows``), or the partitions of a
cluster (``cluster.py``). The value that is returned is the exact maximum over all rows.

All computations use a basis made of r of the rows themselves (``basis.py``), so that neither the scale of the
features nor a row far from all others costs accuracy.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, Ints, as_features, as_number
from recurrank.catalogue.rows import Rows, one_thread, without_zeros
from recurrank.catalogue.scan import Found, Lens
from recurrank.design.basis import START_ROWS, Pivot, by_length, lens, pivots, start
from recurrank.design.pool import Pool

POOL_NUMBERS = 1 << 20
"""Numbers in the pool: 8 MB of float64."""
SMALLEST_TOLERANCE = 1e-6
"""Smallest tolerance that float64 can reach."""
SMALLEST_SIZE = 1e-15
"""Smallest size of rows relative to the largest: float64 cannot represent both below it."""


class Design(NamedTuple):
    """Which items to explore: ``weights`` on the rows ``support`` of a feature matrix.

    ``value`` is the exact largest leverage of any row under these weights (at least ``rank``); ``scans`` is the
    number of times that the whole matrix was read to find it.
    """

    support: Ints
    weights: Floats
    value: float
    rank: int
    scans: int


def g_optimal(features: ArrayLike, tolerance: float = 0.05) -> Design:
    """A design on the rows of ``features`` whose largest leverage is at most ``rank * (1 + tolerance)``.

    The support has at most ``rank * (rank + 1) / 2`` rows and the weights sum to 1. The result is
    deterministic: it depends only on the features and the tolerance. Features may be a memory map; they are read in chunks.

    Raises ValueError for features that are ragged, empty, not finite or all zero.

    >>> design = g_optimal([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> design.support.tolist(), design.weights.tolist(), round(design.value, 6)
    ([0, 1], [0.5, 0.5], 2.0)
    """
    return optimal_design(Rows(as_features(features)), as_tolerance(tolerance))


def as_tolerance(tolerance: float) -> float:
    """The tolerance, checked: float64 must be able to reach it."""
    if not SMALLEST_TOLERANCE <= as_number("tolerance", tolerance) < np.inf:
        raise ValueError(f"tolerance: {tolerance} is not a number of at least {SMALLEST_TOLERANCE}; give for example 0.05")
    return float(tolerance)


class Source(Protocol):
    """A catalogue that a design can be computed on."""

    def __len__(self) -> int: ...

    @property
    def dim(self) -> int:
        """Features per row."""

    @property
    def precise(self) -> bool:
        """Whether features have the precision of float64."""

    def begin(self, which: Ints) -> tuple[Floats, Floats]:
        """The largest absolute value of each column, and the chosen rows."""

    def scan(self, lens: Lens, most: int) -> Found:
        """The result of a pass over all rows."""


@one_thread()
def optimal_design(source: Source, tolerance: float, pivot: Pivot = pivots) -> Design:
    """:func:`g_optimal` for a view of a catalogue's rows, or for a cluster; the support has indices of its rows."""
    most = max(START_ROWS, POOL_NUMBERS // source.dim)
    sample = start(len(source), most)
    scales, rows = source.begin(sample)
    scales = without_zeros(scales)
    if not rows.any():  # most rows are zero: begin with the longest
        sample, _, rows, *_ = source.scan(by_length(scales), most)
    _check_sizes(rows / scales)
    pool = Pool(sample, rows, scales, source.precise, pivot)
    if len(sample) == len(source):  # all of it is in memory
        pool.balance(tolerance)
        value, scans = pool.known, 1
    else:
        value, scans = _certify(source, pool, tolerance, most)
    if pool.thin():
        value = pool.known
    held = np.flatnonzero(pool.weights)
    held = held[np.argsort(pool.indices[held])]
    return Design(pool.indices[held].astype(np.int64), pool.weights[held], value, pool.rank, scans)


def _check_sizes(rows: Floats) -> None:
    """ValueError if fewer rows than features are so large that float64 cannot tell all others from zero."""
    sizes = np.sort(np.abs(rows).max(axis=1))
    sizes = sizes[sizes > 0][-rows.shape[1] :]
    if len(sizes) and sizes[0] < SMALLEST_SIZE:
        raise ValueError(
            f"features: some items are {1 / float(sizes[0]):.0e} times as large as others; give items of one scale"
        )


def _certify(source: Source, pool: Pool, tolerance: float, most: int) -> tuple[float, int]:
    """Pass over the catalogue until no row exceeds the tolerance; return the largest leverage and the number of passes."""
    better = tolerance / 2  # tighter than asked for, so that the next pass may be the last
    pool.balance(better)
    bound, scans = np.inf, 0
    while bound > pool.known:
        found = source.scan(lens(pool.basis, pool.inverse), most)
        scans += 1
        support, missed = pool.support(), len(found.outside) > 0
        value = float(found.lever[0])
        rest = pool.admit(found)
        if not missed and value <= pool.rank * (1 + tolerance):
            pool.known = value
            break
        pool.balance(better)
        # x' Q_now^+ x <= rho x' Q_scan^+ x, with Q_scan that of the pass
        bound = np.inf if missed else rest * pool.growth(*support)
    return pool.known, scans
