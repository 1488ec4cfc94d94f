"""Retention: what is older than asked for, and covered by verified snapshots, leaves the log in small steps.

    newest snapshots are pinned      so that they are there when they are compared
    a worker process verifies them   (retention_worker.py), and archives the events that they cover
    the floor is raised              one small transaction: from here on the log begins after it
    events and rows are removed      a few hundred at a time, with pauses in between

Killed at any point, the next step finds what is left to do. The floor says which events may go; those that stay are said by the
events themselves (:func:`stays`). Rows of slates whose ranker was deleted are removed here, too.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import structlog

from recurrank.serving import chain
from recurrank.serving.changes import stocked_at
from recurrank.serving.events import Kind
from recurrank.serving.fold import unpack_catalogue
from recurrank.serving.retention_worker import Order, Prepared
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store import Store, StoreError
from recurrank.serving.store.base import Floor, Line, Pin

log = structlog.get_logger("recurrank.service")

PERIOD = 5.0
"""Seconds between two looks for what may go."""

TOGETHER = 256
"""Events removed in one transaction."""

SHARE = 0.2
"""Share of the time that removing may take."""

DAY = 86_400.0

LEAST = 1_000
"""Events that are kept at least."""

COMMAND = (sys.executable, "-m", "recurrank.serving.retention_worker")

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}


class Policy(NamedTuple):
    """What stays in the log: events of so many seconds, or so many events. ``archive`` is where the others go, if anywhere."""

    seconds: float | None = None
    events: int | None = None
    archive: str | None = None


def parse(retain: str, archive: str | None = None) -> Policy:
    """``30d``, ``12h``, ``90m`` or ``45s``, or a number of events.

    >>> parse("12h").seconds, parse("1000000").events
    (43200.0, 1000000)
    """
    found = re.fullmatch(r"([0-9]+)([smhd]?)", retain)
    number = int(found[1]) if found else 0
    if found and found[2] and 0 < number * _UNITS[found[2]] < 100 * 366 * DAY:
        return Policy(seconds=number * _UNITS[found[2]], archive=archive)
    if found and not found[2] and LEAST <= number < 2**62:
        return Policy(events=number, archive=archive)
    raise ValueError(f"retain: {retain!r} is not a time such as 30d or 12h, nor a number of events of at least {LEAST:,}")


class Retention:
    """Removes what is old. One thread of a service, or whoever calls :meth:`step`.

    Args:
        store: the log.
        address: of the store, for the worker.
        policy: what stays; None where everything does, but for the rows of deleted rankers.
        work: who verifies and archives; by default a process of its own.

    Attributes:
        failed: why the last step failed; None if it did not.
        floor: the last event that is not in the log any more.
        removed: events removed by this process.
        looked: when the last step ended well, by the wall clock.
        size: bytes that the store takes on disk, as of the last look.
        disk: bytes of the disk that the store's file is on, all and free; None where it is not a file.

    """

    def __init__(
        self,
        store: Store,
        address: str | None = None,
        policy: Policy | None = None,
        work: Callable[[Order], Prepared] | None = None,
    ) -> None:
        if policy is not None and address is None:
            raise ValueError("retain: the store's address is needed")
        self._store, self._address, self._policy = store, address, policy
        self.stopping = threading.Event()
        self.failed: str | None = None
        self.floor, self.removed, self.looked = 0, 0, time.time()
        self.size = 0
        self.disk: tuple[int, int] | None = None
        self._cleared = -1  # the floor up to which everything is removed
        self._vain: tuple[int, dict[int, int]] | None = None  # the floor and the snapshots that the worker last had
        self._process: subprocess.Popen[bytes] | None = None
        self._work = work or self._work_apart
        self._thread: threading.Thread | None = None

    def start(self, learning: Callable[[], bool]) -> None:
        """Do it in a thread, while ``learning`` says that this server learns."""
        self._thread = threading.Thread(target=self.run, args=(learning,), name="recurrank-retain", daemon=True)
        self._thread.start()

    def run(self, learning: Callable[[], bool]) -> None:
        """Step after step until it is stopped, while this server learns."""
        while not self.stopping.wait(PERIOD):
            try:
                self.measure()
                if learning():
                    self.step()
            except StoreError as error:
                self._fails(str(error))
            except Exception as error:
                self._fails(f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        """End it, and the worker."""
        self.stopping.set()
        process = self._process
        if process is not None:
            process.kill()
        if self._thread is not None:
            self._thread.join(0.5)

    def step(self) -> int:
        """Remove what may go now; how many events."""
        before, floor = self.removed, self._store.floor()
        if floor.seq != self._cleared:
            self._clear(floor)
        if self._policy is not None:
            while (target := self._target(floor)) > floor.seq and not self.stopping.is_set():
                raised = self._raise(floor, target, self._policy.archive)
                if raised is None:
                    break
                floor = raised
                self._clear(floor)
        self.floor, self.looked = floor.seq, time.time()
        self._sweep()
        return self.removed - before

    def measure(self) -> None:
        """Ask how much disk is used: here, since a database that does not answer must not hold up whoever asks for metrics."""
        self.size, self.disk = self._store.size(), self._store.disk()

    def _fails(self, why: str) -> None:
        if why != self.failed and not self.stopping.is_set():
            log.error("old events cannot be removed", why=why)
        self.failed = why

    # ------------------------------------------------------------------------------------------------ what may go

    def _target(self, floor: Floor) -> int:
        """The last event that is old enough to go; the floor's where it is not worth a step yet."""
        assert self._policy is not None
        newest, (seconds, events, _) = self._store.newest(), self._policy
        if events is not None:
            target = newest - events
            return target if target - floor.seq >= max(1, events // 10) else floor.seq
        assert seconds is not None
        slot = DAY if seconds >= DAY else seconds / 10
        boundary = (time.time() - seconds) // slot * slot
        return min(self._last_before(boundary, floor.seq, newest), newest - 2)  # backups look at the last two

    def _last_before(self, boundary: float, low: int, high: int) -> int:
        """The last event before a time, by bisection: clocks go forward, as good as always."""
        while low < high:
            middle = (low + high + 1) // 2
            found = self._store.lines(middle - 1, high, 1)
            if found and found[0].at < boundary:
                low = found[0].seq
            else:
                high = middle - 1
        return low

    def _raise(self, floor: Floor, target: int, archive: str | None) -> Floor | None:
        """Have the worker verify and archive, then raise the floor; None where nothing may go yet."""
        assert self._address is not None
        verified, newest = {}, {}
        for ranker, seq, pin in self._store.pins():
            newest[ranker] = seq
            if pin == Pin.VERIFIED:
                verified[ranker] = seq
        self._store.snapshots_wanted = target  # so that there are some that cover what is old
        if (floor.seq, newest) == self._vain:
            return None  # the same again would come of it
        self._vain = (floor.seq, newest)
        self._store.pin({ranker: seq for ranker, seq in newest.items() if seq > verified.get(ranker, 0)}, Pin.CANDIDATE)
        prepared = self._work(Order(self._address, archive, target))
        if prepared.fault is not None:
            self._fails(prepared.fault)
            return None
        self.failed, raised = None, prepared.floor or floor
        self._store.raise_floor(raised, prepared.verified, self._items(floor.seq, raised.seq))
        return None if prepared.floor is None else raised

    def _work_apart(self, order: Order) -> Prepared:
        packed, answer = msgspec.msgpack.encode(order), b""
        with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            self._process = process
            if self.stopping.is_set():
                process.kill()
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):  # it was killed
                process.stdin.write(len(packed).to_bytes(8, "little") + packed)
                process.stdin.flush()  # and left open: it ends when this process does
                answer = process.stdout.read()
        self._process = None
        if process.returncode != 0:
            return Prepared(fault=f"the worker that verifies and archives ended with status {process.returncode}")
        return msgspec.msgpack.decode(answer, type=Prepared)

    def _items(self, after: int, until: int) -> dict[int, bytes]:
        """The items at the new floor, of rankers whose items changed below it."""
        found = {}
        for stored in self._store.rankers():
            if LoggedSpec.unpack(stored.config).items_change and self._store.changes(stored.number, after, until):
                origin = unpack_catalogue(self._store.catalogue(stored.number))
                found[stored.number] = stocked_at(self._store, stored.number, origin, until).pack()
        return found

    # ------------------------------------------------------------------------------------------------ removing

    def _clear(self, floor: Floor) -> None:
        """Remove what is below the floor and need not stay."""
        windows = {one.number: LoggedSpec.unpack(one.config).window_seconds for one in self._store.rankers()}
        opened, after, nameless = set(floor.open_events()), 0, False
        while (lines := self._store.lines(after, floor.seq, TOGETHER)) and not self.stopping.is_set():
            now = time.time()
            gone = [line for line in lines if not stays(line, opened, windows, now)]
            served = [line for line in gone if line.kind == Kind.SERVED]
            names = [chain.slate_of((line.link or b"")[chain.SIZE :]) for line in served]
            nameless |= None in names
            began = time.monotonic()
            if gone:
                slates = [(name, line.seq) for name, line in zip(names, served, strict=True) if name is not None]
                self._store.remove([line.seq for line in gone], slates)
                self.removed += len(gone)
                self.stopping.wait((time.monotonic() - began) * (1 / SHARE - 1))
            after = lines[-1].seq
        if nameless:  # written by an older version
            self._store.ask_sweep()
        if not self.stopping.is_set():
            self._cleared = floor.seq

    def _sweep(self) -> None:
        """Remove the rows of slates whose rankers or events are gone."""
        seen, after = self._store.to_sweep(), ""
        while seen is not None and not self.stopping.is_set():
            began = time.monotonic()
            found = self._store.sweep(after, TOGETHER)
            if found is None:
                self._store.swept(seen)
                return
            after = found
            self.stopping.wait((time.monotonic() - began) * (1 / SHARE - 1))


def stays(line: Line, opened: set[int], windows: dict[int, float], now: float) -> bool:
    """Whether an event below the floor stays in the log.

    Those of rankers' lives do, they are few. The event that served a slate stays while the slate was open at the floor, since
    what ended it is above; and while the slate's window has not passed, so that its id is known when a request is repeated.
    """
    if line.kind == Kind.SERVED:
        return line.seq in opened or (line.ranker in windows and line.at + windows[line.ranker] > now)
    return line.kind in (Kind.CREATED, Kind.DELETED)
