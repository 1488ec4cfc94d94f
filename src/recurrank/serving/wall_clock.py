"""The wall clock as far as it may be believed: while it is wrong for a moment, nothing is old enough to be removed.

    limit_t = limit_{t-1} + passed + min(passed, CATCH_UP, what the wall clock is ahead of that)
    now_t   = min(wall clock, limit_t)

``passed`` is measured by the monotonic clock, which does not jump. After a jump forward the limit follows at twice the speed
of time at most, so that a jump is believed once the clock has kept it for as long as it was: a suspended machine, or a clock
that was set. A clock that was wrong when the process started cannot be noticed.
"""

from __future__ import annotations

import time

TOLERATED = 60.0
"""Seconds that the wall clock may be ahead of the limit, above which it has jumped."""

CATCH_UP = 10.0
"""Most seconds that the limit gains between two looks: somebody who looks rarely must not believe a short jump."""


class WallClock:
    """Time in seconds since 1970 that runs forward at most twice as fast as time passes. For one thread."""

    def __init__(self) -> None:
        self._limit, self._looked = time.time(), time.monotonic()

    def now(self) -> float:
        """The wall clock's time, or the limit if it is ahead of that."""
        return min(self._look(), self._limit)

    def jumped(self) -> bool:
        """Whether the wall clock is ahead by more than it may be."""
        return self._look() - self._limit > TOLERATED

    def _look(self) -> float:
        wall, looked = time.time(), time.monotonic()
        passed, self._looked = looked - self._looked, looked
        self._limit += passed
        self._limit += max(0.0, min(passed, CATCH_UP, wall - self._limit))
        return wall
