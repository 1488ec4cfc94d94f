"""Retention: old events that verified snapshots cover leave the log in small steps.

    newest snapshots are pinned      so that they still exist when they are compared
    a worker process verifies them   (retention_worker.py), and archives the events that they cover
    the floor is raised              one small transaction: from here on the log begins after it
    the worker lists what may go     of the events below the floor
    events and rows are removed      a few hundred at a time, with pauses in between

After a kill at any point, the next step finds what is left to do. The floor says which events may go; which of these stay
follows from the events themselves (``retention_worker.stays``). Rows of slates of deleted rankers are removed here, too.

Which events are old is asked of a clock that does not believe a jump (``wall_clock.py``): after one, retention by time waits.

Pauses are proportional to the work, but end once a quarter as many events were written as have been removed: the log never
grows faster than it shrinks, however busy the machine is.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import structlog

from recurrank.serving.archive import Archive
from recurrank.serving.changes import stocked_at
from recurrank.serving.fold import unpack_catalogue
from recurrank.serving.known_archives import check_dropping, remember
from recurrank.serving.retention_process import Worker
from recurrank.serving.retention_worker import Gone, Order, Prepared, Survey, surveyed
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store import Store, StoreError
from recurrank.serving.store.records import Floor, Pin
from recurrank.serving.traces import span
from recurrank.serving.wall_clock import WallClock

log = structlog.get_logger("recurrank.service")

PERIOD = 5.0
"""Seconds between two steps."""

TOGETHER = 256
"""Rows swept in one transaction."""

SHARE = 0.2
"""Share of the time spent removing, while few events are written."""

LOOK = 0.002
"""Seconds between two looks at new events during a pause."""

URGENT = 1.5
"""Length of the log over what the policy allows, above which the worker runs at normal priority."""

AGAIN = 0.1
"""Share of the longest window after which events that stayed for their windows are surveyed again."""

PATIENCE = 300.0
"""Seconds that old events may wait for a ranker's snapshot before that counts as a failure."""

RETRY, LONGEST_RETRY = 60.0, 3600.0
"""Seconds until a failed step is retried without new snapshots: the first and the longest delay; it doubles every time."""

DAY = 86_400.0

JUMPED = (
    "the wall clock jumped forward, so nothing counts as old until it is back, or has kept the jump for as long as it was; "
    "if the clock is wrong set it (NTP), else restart the server, or wait"
)
"""Why retention by time waits after a jump."""

LEAST = 1_000
"""Smallest number of events that a policy may keep."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}


class Policy(NamedTuple):
    """What stays in the log: events of so many seconds, or so many events. ``archive`` is where the others go, if given.

    ``drop`` says to drop them although older ones went to an archive.
    """

    seconds: float | None = None
    events: int | None = None
    archive: str | None = None
    drop: bool = False


def parse(retain: str, archive: str | None = None, drop: bool = False) -> Policy:
    """Parse ``30d``, ``12h``, ``90m`` or ``45s``, or a number of events.

    >>> parse("12h").seconds, parse("1000000").events
    (43200.0, 1000000)
    """
    match = re.fullmatch(r"([0-9]+)([smhd]?)", retain)
    number = int(match[1]) if match else 0
    if match and match[2] and 0 < number * _UNITS[match[2]] < 100 * 366 * DAY:
        return Policy(seconds=number * _UNITS[match[2]], archive=archive, drop=drop)
    if match and not match[2] and LEAST <= number < 2**62:
        return Policy(events=number, archive=archive, drop=drop)
    raise ValueError(f"retain: {retain!r} is not a time such as 30d or 12h, nor a number of events of at least {LEAST:,}")


class Retention:
    """Removes old events. Runs in one thread of a service, or in the caller of :meth:`step`.

    Args:
        store: the log.
        address: of the store, for the worker.
        policy: what stays; None for everything except the rows of deleted rankers.
        work: verifies and archives; by default in a separate process.

    Attributes:
        failed: why the last step failed; None if it did not.
        floor: the last event that is not in the log any more.
        removed: number of events removed by this process.
        length: length of the log, in events or seconds, over what the policy allows; normally a little more than 1 (up to 2
            for one day, as whole days are archived), 0 without a policy.
        looked: wall clock time of the last successful step.
        size: size of the store on disk at the last measurement, in bytes.
        disk: total and free bytes of the disk with the store's file; None if the store is not a file.

    """

    def __init__(
        self,
        store: Store,
        address: str | None = None,
        policy: Policy | None = None,
        work: Callable[[Order | Survey], Prepared | Gone] | None = None,
    ) -> None:
        if policy is not None and address is None:
            raise ValueError("retain: the store's address is needed")
        if policy is not None:
            check_dropping(store.floor(), policy.archive, policy.drop)
        self._store, self._address, self._policy = store, address, policy
        self.stopping = threading.Event()
        self.failed: str | None = None
        self.floor, self.removed, self.looked = 0, 0, time.time()
        self.size, self.length = 0, 0.0
        self.disk: tuple[int, int] | None = None
        self._clock = WallClock()
        self._cleared = -1  # the floor up to which everything is removed
        self._vain: tuple[int, dict[int, int]] | None = None  # floor and snapshots of the last order
        self._again, self._delay = 0.0, RETRY  # when the same order is repeated (monotonic clock), and the next delay
        self._worker = Worker()
        self._work = work or self._work_apart
        self._urgent = False
        self._young: tuple[float, float] | None = None  # events of these times stay; None if their number decides
        self._waits: tuple[int, float] | None = None  # the ranker whose snapshot old events wait for, and since when
        self._surveyed = -float("inf")  # when all events below the floor were last surveyed (monotonic clock)
        self._thread: threading.Thread | None = None

    def start(self, learning: Callable[[], bool]) -> None:
        """Start a thread that calls :meth:`run`."""
        self._thread = threading.Thread(target=self.run, args=(learning,), name="recurrank-retain", daemon=True)
        self._thread.start()

    def run(self, learning: Callable[[], bool]) -> None:
        """Run steps until it is stopped, while ``learning`` says that this server learns."""
        while not self.stopping.wait(PERIOD):
            try:
                self.measure()
                if learning():
                    self.step()
            except (StoreError, ValueError) as error:
                self._fails(str(error))
            except Exception as error:
                self._fails(f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        """Stop the thread and the worker."""
        self.stopping.set()
        self._worker.stop()
        if self._thread is not None:
            self._thread.join(0.5)
        self._worker.end()

    def step(self) -> int:
        """Remove what may go now; returns the number of events."""
        before, floor = self.removed, self._store.floor()
        if floor.seq != self._cleared:
            self._clear(floor)
        if self._policy is not None:
            check_dropping(floor, self._policy.archive, self._policy.drop)
            waits = self._policy.seconds is not None and self._clock.jumped()
            while not waits and (target := self._target(floor)) > floor.seq and not self.stopping.is_set():
                with self._store.maintaining() as alone:  # an erasure changes the floor's seal and the archive
                    raised = self._raise(self._store.floor(), target, self._policy.archive) if alone else None
                if raised is None:
                    break
                floor = raised
                with span("retention: remove", until=floor.seq):
                    self._clear(floor)
            else:
                if waits:
                    self._fails(JUMPED)
                elif self._cleared == floor.seq:  # nothing is left to remove: earlier failures are resolved
                    self.failed = self._waits = None
        self.floor, self.looked = floor.seq, time.time()
        self._sweep()
        self._worker.rest()
        return self.removed - before

    def measure(self) -> None:
        """Measure disk usage; done in this thread, so that an unresponsive database does not block requests for metrics."""
        self.size, self.disk = self._store.size(), self._store.disk()

    def _fails(self, why: str) -> None:
        if why != self.failed and not self.stopping.is_set():
            log.error("old events cannot be removed", why=why)
        self.failed = why

    # ------------------------------------------------------------------------------------------------ what may go

    def _target(self, floor: Floor) -> int:
        """The last event that is old enough to go; the floor's if a step is not worthwhile yet."""
        assert self._policy is not None
        newest, seconds, events = self._store.newest(), self._policy.seconds, self._policy.events
        if events is not None:
            target, self.length = newest - events, (newest - floor.seq) / events
            self._urgent = self.length > URGENT
            return target if target - floor.seq >= max(1, events // 10) else floor.seq
        assert seconds is not None
        oldest = self._store.lines(floor.seq, newest - 2, 1)  # the last two stay
        now = self._clock.now()
        self.length = (now - oldest[0].at) / seconds if oldest else 0.0
        slot = DAY if seconds >= DAY else seconds / 10
        self._urgent = self.length > URGENT + slot / seconds
        self._young = (now - seconds) // slot * slot, now
        return min(self._last_before(self._young[0], floor.seq, newest), newest - 2)  # backups look at the last two

    def _last_before(self, boundary: float, low: int, high: int) -> int:
        """The last event before a time, by bisection: clocks almost always go forward; the worker looks at every event."""
        while low < high:
            middle = (low + high + 1) // 2
            found = self._store.lines(middle - 1, high, 1)
            if found and found[0].at < boundary:
                low = found[0].seq
            else:
                high = middle - 1
        return low

    def _raise(self, floor: Floor, target: int, archive: str | None) -> Floor | None:
        """Let the worker verify and archive, then raise the floor; None if nothing may go yet."""
        assert self._address is not None
        verified, newest = {}, {}
        for ranker, seq, pin in self._store.pins():
            newest[ranker] = seq
            if pin == Pin.VERIFIED:
                verified[ranker] = seq
        self._store.snapshots_wanted = target  # so that snapshots cover the old events
        if (floor.seq, newest) == self._vain and time.monotonic() < self._again:
            self._complain()
            return None  # the same order would fail again
        self._vain, self._again = (floor.seq, newest), time.monotonic() + self._delay
        self._delay = min(2 * self._delay, LONGEST_RETRY)
        if archive is not None:
            with suppress(ValueError, OSError):  # an unusable archive gets no events: the worker says why
                Archive(archive).check_usable()
                remember(self._store, archive)
        self._store.pin({ranker: seq for ranker, seq in newest.items() if seq > verified.get(ranker, 0)}, Pin.CANDIDATE)
        with span("retention: verify and archive", until=target):
            prepared = self._work(Order(self._address, archive, target, self._young))
        assert isinstance(prepared, Prepared)
        if prepared.fault is not None:
            self._fails(prepared.fault)
            return None
        if prepared.floor is not None or prepared.waits_for is None:
            self.failed, self._waits = None, None
        elif self._waits is None or self._waits[0] != prepared.waits_for:
            self._waits = prepared.waits_for, time.monotonic()
        self._complain()
        raised = prepared.floor or floor
        self._store.raise_floor(raised, prepared.verified, self._items(floor.seq, raised.seq))
        if prepared.floor is not None or prepared.waits_for is not None:
            self._again, self._delay = float("inf"), RETRY
        return None if prepared.floor is None else raised

    def _complain(self) -> None:
        """Report if old events have waited long for a ranker: its log cannot be folded, or its snapshots cannot be stored."""
        if self._waits is not None and time.monotonic() - self._waits[1] > PATIENCE:
            self._fails(f"events of ranker number {self._waits[0]} are not covered by a verified snapshot; see /readyz")

    def _work_apart(self, order: Order | Survey) -> Prepared | Gone:
        return self._worker.ask(order, self._urgent)

    def _items(self, after: int, until: int) -> dict[int, bytes]:
        """By ranker, the items at the new floor, if they changed below it."""
        items = {}
        for stored in self._store.rankers():
            if LoggedSpec.unpack(stored.config).items_change and self._store.changes(stored.number, after, until):
                origin = unpack_catalogue(self._store.catalogue(stored.number))
                items[stored.number] = stocked_at(self._store, stored.number, origin, until).pack()
        return items

    # ------------------------------------------------------------------------------------------------ removing

    def _clear(self, floor: Floor) -> None:
        """Remove the events below the floor that need not stay."""
        longest = max((LoggedSpec.unpack(stored.config).window_seconds for stored in self._store.rankers()), default=0.0)
        after, now = self._cleared, time.monotonic()
        if after < 0 or now - self._surveyed > AGAIN * longest:
            after, self._surveyed = 0, now
        nameless = False
        while after < floor.seq and not self.stopping.is_set():
            gone = self._survey(after)
            if gone.fault is not None:
                self._fails(gone.fault)
                return
            for batch in gone.batches:
                began = time.monotonic()
                self._store.remove(batch.events, batch.slates)
                self.removed += len(batch.events)
                self._pause(time.monotonic() - began, len(batch.events))
                if self.stopping.is_set():
                    return
            after, nameless = gone.last, nameless or gone.nameless
        if nameless:  # written by an older version
            self._store.ask_sweep()
        if not self.stopping.is_set():
            self._cleared = floor.seq

    def _survey(self, after: int) -> Gone:
        if self._address is None:
            return surveyed(self._store, after, self._clock.now())
        gone = self._work(Survey(self._address, after, self._clock.now()))
        assert isinstance(gone, Gone)
        return gone

    def _pause(self, seconds: float, events: int) -> None:
        """Pause after removing so many events in so many seconds."""
        until, written = time.monotonic() + seconds * (1 / SHARE - 1), self._store.noted + events // 4
        while time.monotonic() < until and self._store.noted < written and not self.stopping.wait(LOOK):
            pass

    def _sweep(self) -> None:
        """Remove the rows of slates whose rankers or events no longer exist."""
        seen, after = self._store.to_sweep(), ""
        while seen is not None and not self.stopping.is_set():
            began = time.monotonic()
            last = self._store.sweep(after, TOGETHER)
            if last is None:
                self._store.swept(seen)
                return
            after = last
            self.stopping.wait((time.monotonic() - began) * (1 / SHARE - 1))
