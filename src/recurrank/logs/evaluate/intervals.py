"""Intervals for a mean, or a ratio of means, over pages.

*bootstrap*: pages are resampled with replacement, or groups of pages if there are many, which hardly changes the spread of a
mean. The interval covers the percentiles' and the normal interval. *bernstein*: the empirical Bernstein bound (Maurer, Pontil
2009, theorem 4), which holds for any number of pages, and is wide.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.stats import norm

from recurrank._arrays import Floats
from recurrank.seeds import stream

GROUPS, DRAWS = 500, 1_000
"""Groups of pages, and the number of bootstrap samples."""
COVERAGE = 0.95
"""Coverage of an interval."""


def bootstrap(numerator: Floats, denominator: Floats | None, seed: int = 0) -> tuple[float, float, float]:
    """The standard error and the interval of mean(numerator), or of mean(numerator) / mean(denominator).

    ``numerator`` and ``denominator`` may have a column per position; then the estimate is the sum of ratios by position.
    """
    sums = _grouped(numerator)
    others = _grouped(np.ones(len(numerator)) if denominator is None else denominator)
    counts = _drawn(len(sums), seed)
    drawn = (counts @ sums) / np.maximum(counts @ others, 1e-300)
    values = drawn.sum(axis=1)
    estimate = float((sums.sum(axis=0) / np.maximum(others.sum(axis=0), 1e-300)).sum())
    error = float(values.std(ddof=1))
    low, high = np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    normal = norm.ppf((1 + COVERAGE) / 2) * error
    return error, min(float(low), estimate - normal), max(float(high), estimate + normal)


@lru_cache(maxsize=2)
def _drawn(groups: int, seed: int) -> Floats:
    """The number of times that each sample draws each group, equal for all estimators of a log."""
    counts = stream(seed, "bootstrap").multinomial(groups, np.full(groups, 1 / groups), size=DRAWS).astype(np.float64)
    counts.flags.writeable = False
    return counts


def group_sizes(pages: int) -> Floats:
    """The number of pages in each group."""
    return _grouped(np.ones(pages))[:, 0]


def _grouped(values: Floats) -> Floats:
    """Sums over groups of adjacent pages, at most GROUPS of them; two-dimensional."""
    table = values if values.ndim == 2 else values[:, None]
    if len(table) <= GROUPS:
        return np.asarray(table, np.float64)
    size = len(table) // GROUPS
    whole: Floats = table[: size * GROUPS].reshape(GROUPS, size, -1).sum(axis=1, dtype=np.float64)
    whole[: len(table) - size * GROUPS] += table[size * GROUPS :]
    return whole


def bernstein(values: Floats, largest: float) -> tuple[float, float, float]:
    """Standard error and interval of a mean of numbers in [0, largest]."""
    n, mean = len(values), float(values.mean())
    spread = float(values.std(ddof=1))
    term = np.log(4 / (1 - COVERAGE))
    half = spread * np.sqrt(2 * term / n) + 7 * largest * term / (3 * (n - 1))
    return spread / np.sqrt(n), mean - half, mean + half


def jackknife(whole: float, without: Floats) -> tuple[float, float, float]:
    """Standard error and interval from estimates that each leave one group of pages out."""
    from scipy.stats import t

    groups = len(without)
    error = float(np.sqrt((groups - 1) / groups * np.sum((without - without.mean()) ** 2)))
    half = t.ppf((1 + COVERAGE) / 2, groups - 1) * error
    return error, whole - half, whole + half
