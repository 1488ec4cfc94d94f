"""When a server collects garbage: full collections run once an hour, not in the middle of requests.

Python collects cyclic garbage once enough objects have been created. A full collection walks over all objects of the process:
0.1 s for a server with 10^5 open slates, during which it answers no request. Garbage of requests dies young: the small
collections find it in milliseconds. The rest can wait.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SMALL = (10_000, 5, 10_000)
"""Thresholds of ``gc.set_threshold``: new objects, collections of generation 0 and of generation 1."""

EVERY, PATIENCE = 3_600.0, 60
"""Seconds between two full collections, and the most seconds that one is postponed while requests are waiting."""


@contextmanager
def collected_by_the_hour(busy: Callable[[], bool]) -> Iterator[Callable[[asyncio.AbstractEventLoop], None]]:
    """Run only small collections inside; what it yields schedules full ones on an event loop, preferably while not ``busy``."""

    def start(loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(EVERY, collect, loop, PATIENCE)

    def collect(loop: asyncio.AbstractEventLoop, patience: int) -> None:
        if busy() and patience > 0:
            loop.call_later(1.0, collect, loop, patience - 1)
        else:
            gc.collect()
            start(loop)

    before = gc.get_threshold()
    gc.set_threshold(*SMALL)
    try:
        yield start
    finally:
        gc.set_threshold(*before)
