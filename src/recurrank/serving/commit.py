"""Group commit: operations of many callers in one transaction, each answered when it is on disk.

While one transaction is being written, the next operations gather: a slow disk makes groups larger, not the service slower.
"""

from __future__ import annotations

import asyncio
import bisect
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, NamedTuple, cast

from recurrank.serving.store import Store, StoreError
from recurrank.serving.store.records import Locked, Operation
from recurrank.serving.traces import span

LARGEST = 2_000
"""Most operations in one transaction."""

QUIET = 3
"""Turns of the event loop without a new operation, after which the gathered ones are written."""

GATHER = 0.01
"""Most seconds that operations gather: longer than reading and ranking a few dozen large requests takes. Requests that miss
their group wait for two transactions."""

SLOW = 0.01
"""Mean seconds of a transaction above which the event loop leaves transactions to the thread."""

WAITING = 20_000
"""Most operations that may wait; more are refused."""


PATROL, PATIENCE = 0.25, 9
"""Seconds between two looks at waiting operations, and the number of looks after which one is refused."""


BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Bounds of the histogram of transactions in the metrics, in seconds."""


class Busy(StoreError):
    """Too many operations wait for the store."""


class Unanswered(StoreError):
    """The store did not answer in time. The operation may have been written; repeating it is safe."""


class _Job(NamedTuple):
    """Operations of one caller."""

    operations: Sequence[Operation]
    future: Any
    loop: asyncio.AbstractEventLoop | None
    since: int


class Committer:
    """A thread that writes. Call ``submit`` from threads, ``submit_async`` from an event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failed: str | None = None  # why the last transaction failed, if it did
        self.wrote = time.monotonic()  # when a transaction last succeeded
        self.seconds = 0.0  # total time of all transactions, including failed ones
        self.counts = [0] * (len(BOUNDS) + 1)  # transactions by duration; the last count is beyond all bounds
        self._waiting: deque[_Job] = deque()
        self._writing: list[_Job] = []  # what the thread is writing
        self._size = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._gathered: list[_Job] = []
        self._usual, self._slow_until = 0.0, float("-inf")
        self._looks, self._patrolling = 0, False
        self._thread = threading.Thread(target=self._run, name="recurrank-commit", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of operations that are not written yet."""
        jobs = (*self._gathered, *self._writing)
        return self._size + sum(len(job.operations) for job in jobs)

    def submit(self, operations: Sequence[Operation]) -> list[Any]:
        """Execute operations, and wait until they are on disk; returns their outcomes."""
        future: Future[list[Any]] = Future()
        self._put(_Job(operations, future, None, 0))
        try:
            return future.result(PATROL * PATIENCE)
        except TimeoutError:
            future.cancel()
            raise _unanswered() from None

    async def submit_async(self, operations: Sequence[Operation]) -> list[Any]:
        """:meth:`submit` from an event loop."""
        loop = asyncio.get_running_loop()
        job = _Job(operations, loop.create_future(), loop, self._looks)
        if self._store.shared or time.monotonic() < self._slow_until:
            self._put(job)
            self._watch(loop)
        else:
            if self._stopping:
                raise StoreError("the service is stopping; try again elsewhere or later")
            self._gathered.append(job)
            if len(self._gathered) == 1:
                loop.call_soon(self._look, loop, loop.time() + GATHER, 1, 0)
        return cast("list[Any]", await job.future)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to look periodically for operations that have waited too long."""
        if not self._patrolling:
            self._patrolling = True
            loop.call_later(PATROL, self._patrol, loop)

    def _patrol(self, loop: asyncio.AbstractEventLoop) -> None:
        """Refuse operations that have waited too long, counted in looks: time while the process was stopped does not count."""
        self._looks += 1
        with self._wake:
            late = [job for job in self._waiting if job.loop is loop and self._looks - job.since > PATIENCE]
            if late:
                gone = {id(job) for job in late}
                self._waiting = deque(job for job in self._waiting if id(job) not in gone)
                self._size -= sum(len(job.operations) for job in late)
            late += [job for job in self._writing if job.loop is loop and self._looks - job.since > PATIENCE]
            self._patrolling = bool(self._waiting or self._writing)
        _settle_all([(job.future, _unanswered()) for job in late])
        if self._patrolling:
            loop.call_later(PATROL, self._patrol, loop)

    def _look(self, loop: asyncio.AbstractEventLoop, until: float, size: int, quiet: int) -> None:
        """Write once no more operations seem to be coming soon: answering requests brings the next ones."""
        quiet = 0 if len(self._gathered) > size else quiet + 1
        if quiet < QUIET and loop.time() < until and len(self._gathered) < LARGEST:
            loop.call_soon(self._look, loop, until, len(self._gathered), quiet)
            return
        group, self._gathered = self._gathered, []
        # Write in the event loop itself: for a file on a fast disk, handing a transaction to a thread costs several times as
        # much as the transaction. If it would have to wait for another one, or the disk is slow, the thread does it.
        began = time.monotonic()
        try:
            if self._store.busy:
                raise Locked
            self._write(group, wait=False)
        except Locked:
            with self._wake:
                self._waiting.extend(group)
                self._size += sum(len(job.operations) for job in group)
                self._wake.notify()
            self._watch(loop)
            return
        ended = time.monotonic()
        self._usual += (ended - began - self._usual) / 16
        if self._usual > SLOW:
            self._usual, self._slow_until = 0.0, ended + 10

    def stop(self, seconds: float | None = None) -> None:
        """Write the waiting operations, and end the thread; wait for it at most ``seconds``."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(seconds)

    def _put(self, job: _Job) -> None:
        with self._wake:
            if self._stopping:
                raise StoreError("the service is stopping; try again elsewhere or later")
            if self._size >= WAITING:
                raise Busy("too many operations are waiting to be written; try again later")
            self._size += len(job.operations)
            self._waiting.append(job)
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._writing = []
                while not self._waiting and not self._stopping:
                    self._wake.wait()
                if not self._waiting:
                    return
                group = [self._waiting.popleft()]
                size = len(group[0].operations)
                while self._waiting and size + len(self._waiting[0].operations) <= LARGEST:
                    group.append(self._waiting.popleft())
                    size += len(group[-1].operations)
                self._size -= size
                self._writing = group = [job for job in group if not job.future.cancelled()]  # whose callers still wait
            self._write(group)

    def _write(self, group: list[_Job], wait: bool = True) -> None:
        answers: list[Any]
        began = time.monotonic()
        try:
            operations = [operation for job in group for operation in job.operations]
            with span("commit", operations=len(operations)):
                outcomes = iter(self._store.commit(operations, wait))
            answers = [[next(outcomes) for _ in job.operations] for job in group]
            self.failed, self.wrote = None, time.monotonic()
        except Locked:
            raise
        except Exception as error:
            self.failed = str(error) or type(error).__name__
            answers = [error] * len(group)
        took = time.monotonic() - began
        self.seconds += took
        self.counts[bisect.bisect_left(BOUNDS, took)] += 1
        loops: dict[Any, list[tuple[Any, Any]]] = {}
        for job, answer in zip(group, answers, strict=True):
            if job.loop is None:
                _settle_all([(job.future, answer)])
            else:
                loops.setdefault(job.loop, []).append((job.future, answer))
        for loop, settled in loops.items():
            if threading.current_thread() is not self._thread:  # called in the event loop
                _settle_all(settled)
                continue
            try:
                loop.call_soon_threadsafe(_settle_all, settled)
            except RuntimeError:  # the event loop has ended: no caller waits any more
                continue


def _unanswered() -> Unanswered:
    return Unanswered("the store does not answer")


def _settle_all(settled: list[tuple[Any, Any]]) -> None:
    for future, answer in settled:
        if future.done():  # the caller may have gone
            continue
        with suppress(InvalidStateError):  # cancelled just now
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
