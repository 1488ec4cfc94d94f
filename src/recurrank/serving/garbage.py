"""When a server looks for garbage: full collections by the hour, not in the middle of requests.

Python collects cyclic garbage when enough objects have been made. A full collection walks over all objects of the process:
0.1 s for a server with 10^5 open slates, in which no request is answered. Garbage of requests dies young and is found by the
small collections, which take milliseconds; the rest can wait.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SMALL = (10_000, 5, 10_000)
"""Objects until a collection of the youngest, such collections until one of the young, and those until a full one."""

EVERY, PATIENCE = 3_600.0, 60
"""Seconds between two full collections, and how many seconds one waits for a moment in which nobody is waiting."""


@contextmanager
def collected_by_the_hour(busy: Callable[[], bool]) -> Iterator[Callable[[asyncio.AbstractEventLoop], None]]:
    """Collect little inside; the function it gives starts full collections on an event loop, if possible while not ``busy``."""

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
