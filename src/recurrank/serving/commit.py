"""Group commit: operations of many callers in one transaction, each answered when it is on disk.

While one transaction is being written the next operations gather; so a slow disk makes groups larger, not the service slower.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from recurrank.serving.store import Store, StoreError
from recurrank.serving.store.base import Operation

LARGEST = 2_000
"""Operations in one transaction."""

QUIET = 3
"""Turns of an event loop that bring no operation, after which it is time to write those that have gathered."""

GATHER = 0.003
"""Seconds that operations gather at most."""

SLOW = 0.01
"""Seconds of a transaction, on average, from which on it must not be waited for in an event loop."""

WAITING = 20_000
"""Operations that may wait; more are refused."""


class Busy(StoreError):
    """More is asked for than the store can write."""


class Committer:
    """A thread that writes. ``submit`` from threads, ``submit_async`` from an event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[Sequence[Operation], Any]] = deque()
        self._size = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._gathered: list[tuple[Sequence[Operation], Any]] = []
        self._usual, self._slow_until = 0.0, float("-inf")
        self._thread = threading.Thread(target=self._run, name="recurrank-commit", daemon=True)
        self._thread.start()

    def submit(self, operations: Sequence[Operation]) -> list[Any]:
        """Do these, and wait until they are on disk."""
        future: Future[list[Any]] = Future()
        self._put(operations, future)
        return future.result()

    async def submit_async(self, operations: Sequence[Operation]) -> list[Any]:
        """The same from an event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        if self._store.shared or time.monotonic() < self._slow_until:
            self._put(operations, future)
        else:
            if self._stopping:
                raise StoreError("the service is stopping; try again elsewhere or later")
            self._gathered.append((operations, future))
            if len(self._gathered) == 1:
                loop.call_soon(self._look, loop, loop.time() + GATHER, 1, 0)
        return await future

    def _look(self, loop: asyncio.AbstractEventLoop, until: float, size: int, quiet: int) -> None:
        """Write when nobody seems to be about to add to what has gathered: answering requests brings the next ones."""
        quiet = 0 if len(self._gathered) > size else quiet + 1
        if quiet < QUIET and loop.time() < until and len(self._gathered) < LARGEST:
            loop.call_soon(self._look, loop, until, len(self._gathered), quiet)
            return
        group, self._gathered = self._gathered, []
        if self._store.busy:  # with something large: not to be waited for here
            with self._wake:
                self._waiting.extend(group)
                self._size += sum(len(operations) for operations, _ in group)
                self._wake.notify()
            return
        # In the event loop itself: for a file on a fast disk, handing a transaction to a thread costs several times what the
        # transaction does. Should the disk be slow, the thread takes over for a while.
        began = time.monotonic()
        self._write(group)
        ended = time.monotonic()
        self._usual += (ended - began - self._usual) / 16
        if self._usual > SLOW:
            self._usual, self._slow_until = 0.0, ended + 10

    def stop(self) -> None:
        """Write what is waiting, and end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _put(self, operations: Sequence[Operation], future: Any) -> None:
        with self._wake:
            if self._stopping:
                raise StoreError("the service is stopping; try again elsewhere or later")
            if self._size >= WAITING:
                raise Busy("too many operations are waiting to be written; try again later")
            self._size += len(operations)
            self._waiting.append((operations, future))
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting and not self._stopping:
                    self._wake.wait()
                if not self._waiting:
                    return
                group = [self._waiting.popleft()]
                size = len(group[0][0])
                while self._waiting and size + len(self._waiting[0][0]) <= LARGEST:
                    group.append(self._waiting.popleft())
                    size += len(group[-1][0])
                self._size -= size
            self._write(group)

    def _write(self, group: list[tuple[Sequence[Operation], Any]]) -> None:
        answers: list[Any]
        try:
            outcomes = iter(self._store.commit([operation for operations, _ in group for operation in operations]))
            answers = [[next(outcomes) for _ in operations] for operations, _ in group]
        except Exception as error:
            answers = [error] * len(group)
        loops: dict[Any, list[tuple[Any, Any]]] = {}
        for (_, future), answer in zip(group, answers, strict=True):
            if isinstance(future, Future):
                _settle(future, answer)
            else:
                loops.setdefault(future.get_loop(), []).append((future, answer))
        for loop, settled in loops.items():
            if threading.current_thread() is not self._thread:  # this is the event loop's own
                _settle_all(settled)
                continue
            try:
                loop.call_soon_threadsafe(_settle_all, settled)
            except RuntimeError:  # its event loop has ended: nobody waits any more
                continue


def _settle_all(settled: list[tuple[Any, Any]]) -> None:
    for future, answer in settled:
        if not future.done():  # the caller may have gone
            _settle(future, answer)


def _settle(future: Any, answer: Any) -> None:
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
