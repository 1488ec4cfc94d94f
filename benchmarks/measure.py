"""The figures that a benchmark reports, and timing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Figure(NamedTuple):
    """One measured number, its limit, and a detail such as what it was compared with."""

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
    """The shortest of several runs, the one with the least disturbance."""
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)
