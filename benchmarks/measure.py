"""What a benchmark reports, and how it is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Figure(NamedTuple):
    """One measured number, what it was compared with, and the limit that was set for it."""

    name: str
    value: float
    unit: str
    limit: str
    holds: bool
    detail: str


def at_most(name: str, value: float, limit: float, unit: str, detail: str) -> Figure:
    return Figure(name, value, unit, f"at most {limit:g}", value <= limit, detail)


def at_least(name: str, value: float, limit: float, unit: str, detail: str) -> Figure:
    return Figure(name, value, unit, f"at least {limit:g}", value >= limit, detail)


def seconds(function: Callable[[], object], repeat: int = 3) -> float:
    """The shortest of some runs: what the machine can do when nothing else happens on it."""
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)
