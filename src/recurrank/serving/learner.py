"""The learner: folds the log, renews views, takes snapshots, closes windows.

If several servers share a store, only the one that holds the lease does this; the others take their views from its snapshots.

Windows are measured by the learner's monotonic clock, from when it first saw the slate, so that a wrong wall clock does no
harm. A new learner gives every open slate its full window again. Time while the process was stopped (suspended, or starved by
others) does not count, since no report could come in.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

import structlog

from recurrank.serving.checkpoint import NAME, Checkpoint, split, unpack
from recurrank.serving.commit import Committer
from recurrank.serving.events import Event, Kind
from recurrank.serving.experiment import turned
from recurrank.serving.hosted import HostedRanker, Settings
from recurrank.serving.registry import Registry
from recurrank.serving.store import Store, StoreError
from recurrank.serving.store.records import Change, Expire
from recurrank.serving.traces import span

log = structlog.get_logger("recurrank.service")

CHUNK = 20_000
"""Events read at a time."""

EXPIRE, EXPIRE_TOGETHER = 20_000, 500
"""Most windows closed in one step, and in one transaction."""

PROBE, PROBE_FAILED = 5.0, 1.0
"""Seconds without a write after which the store is probed: normally, and while it fails."""

PROBE_BYTES = 1 << 18
"""Bytes written to test whether a store that failed can be written again."""

PAUSE = 2.0
"""Seconds of oversleeping beyond which the learner assumes that the process was stopped."""

LOOK = 1.0
"""Seconds between two looks for changes by other servers."""

SHARE, FOLLOW, EFFORT = 0.4, 0.3, 8
"""With a shared store: least seconds between two snapshots of a ranker, and between two looks for them on other servers, less
than a second together. EFFORT times the duration of the last snapshot, up to a second, must pass before the next one."""


class Clock(Protocol):
    """A source of time."""

    def monotonic(self) -> float:
        """Seconds that never decrease."""


class Learner:
    """Runs in one thread of a service, or in the caller of :meth:`step`.

    Attributes:
        learning: whether this server holds the lease.
        seq: the last event that was folded.
        failed: why the last step failed; None if it did not.
        store_failed: whether that was an error of the store.
        stopping: set to stop it.

    """

    def __init__(self, store: Store, registry: Registry, committer: Committer, clock: Clock, settings: Settings) -> None:
        self._store, self._registry, self._committer = store, registry, committer
        self._clock, self._settings = clock, settings
        self.learning, self.seq = False, 0
        self.failed: str | None = None
        self.store_failed = False
        self.stopping = threading.Event()
        self._stepping = threading.Lock()  # one step at a time
        self._paused = 0.0  # total seconds that the process was stopped
        self._probed = time.monotonic()  # when the store was last tried
        self._expired = self._looked = -float("inf")  # when windows were last closed, and changes of other servers looked for
        self._effort = 0.0  # seconds that the last snapshot took
        self._marked = (0, -float("inf"))  # the event and time of the last checkpoint

    def run(self) -> None:
        """Run steps until it is stopped."""
        while not self.stopping.is_set():
            if self._registry.starting is None:
                self._sleep()
            try:
                self.step()
                self.failed, self.store_failed = None, False
            except StoreError as error:  # it may work again later; nothing is lost
                self._fails(str(error), store=True)
            except Exception as error:  # a bug: report it, and go on serving
                self._fails(f"{type(error).__name__}: {error}", store=False)
            self._probe()

    def step(self) -> int:
        """Fold new events, renew views, take snapshots, close windows; returns the number of events folded."""
        with self._stepping:
            if not self._store.lease():
                self.learning = False
                self._follow()
                return 0
            if not self.learning and not self._take_over():
                return 0
            folded = 0
            while events := self._store.events(self.seq, CHUNK):
                self._store.noted = max(self._store.noted, events[-1].seq)
                with span("learn", events=len(events)):
                    self._fold(events)
                if self.stopping.is_set():  # perhaps halfway: folded events are skipped next time
                    return folded
                self.seq = events[-1].seq
                folded += len(events)
                if len(events) < CHUNK:
                    break
                self._upkeep()
            self._upkeep()
            return folded

    def keep_all(self, until: float) -> None:
        """Take snapshots of all rankers with new events, as far as time allows."""
        for hosted in self._registry.all():
            if hosted.fold.seq > hosted.kept[0] and time.monotonic() < until:
                self._keep(hosted, self.now())
        if self.seq > self._marked[0]:
            self._mark(self.now())

    # ------------------------------------------------------------------------------------------------ its thread

    def _sleep(self) -> None:
        asleep = self._clock.monotonic()
        self.stopping.wait(self._settings.poll)
        overslept = self._clock.monotonic() - asleep - self._settings.poll
        if overslept > PAUSE:
            self._paused += overslept

    def _fails(self, why: str, store: bool) -> None:
        if why != self.failed and not self.stopping.is_set():
            log.error("the learner cannot go on", why=why)
        self.failed, self.store_failed = why, store
        self.stopping.wait(0.2)

    def _probe(self) -> None:
        """If nothing was written for a while, test whether the store can be written."""
        committer, now = self._committer, time.monotonic()
        failed = committer.failed is not None
        if now - max(committer.wrote, self._probed) < (PROBE_FAILED if failed else PROBE) or self.stopping.is_set():
            return
        self._probed = now
        try:
            self._store.probe(PROBE_BYTES if failed else 0)
            committer.failed = None
        except StoreError as error:
            committer.failed = str(error)

    def now(self) -> float:
        """The time that windows are measured by."""
        return self._clock.monotonic() - self._paused

    # ------------------------------------------------------------------------------------------------ with the lease

    def _take_over(self) -> bool:
        """Become the learner: load every ranker's newest sound snapshot and the log after it; False if it is stopping."""
        now = self.now()
        self._store.noted = self._store.newest()
        mark, opened = unpack(self._store.noted_as(NAME)), self._store.open_slates()
        self.seq = max(self.seq, mark.seq if mark else 0)  # how far rankers are behind is not known yet
        newest = dict(self._store.snapshot_places())  # by ranker; the last of several
        self._registry.synchronise(self.stopping)
        starts: dict[int, int] = {}
        for hosted in self._registry.all():
            if self.stopping.is_set():
                return False
            number = hosted.stored.number
            last = newest.get(number, 0)
            if last > hosted.tried:
                self._registry.reload(hosted)
            hosted.open = dict.fromkeys(opened.get(number, ()), now)
            hosted.kept = (min(hosted.fold.seq, last), now)
            starts[number] = hosted.covered = mark.start(number, hosted.fold.seq, last) if mark else hosted.fold.seq
        self._marked = (mark.seq if mark else 0, now)
        if self.stopping.is_set():
            return False
        begin, alone = split(starts) if starts else (self._marked[0], [])
        for number in alone:
            self._catch_up(number)
        self.seq, self.learning = begin, True
        return True

    def _catch_up(self, number: int) -> None:
        """Fold the missing events of one ranker, without reading those of others."""
        hosted = self._registry.numbered(number)
        after = hosted.fold.seq if hosted else 0
        while hosted and not self.stopping.is_set() and (events := self._store.events(after, CHUNK, number)):
            self._fold(events)
            after = events[-1].seq

    def _fold(self, events: list[Event]) -> None:
        by_ranker: dict[int, list[Event]] = {}
        for event in events:
            by_ranker.setdefault(event.ranker, []).append(event)
        now = self.now()
        for number, part in by_ranker.items():
            made = part[0].kind == Kind.CREATED and self._registry.numbered(number) is None
            if made or part[-1].kind == Kind.DELETED:
                self._registry.synchronise(self.stopping)
            hosted = self._registry.numbered(number)
            if hosted is None:  # deleted
                continue
            try:
                hosted.apply(part, now, self.stopping)
            except ValueError as error:
                self._registry.breaks(hosted, str(error))

    def _upkeep(self) -> None:
        now, settings, shared = self.now(), self._settings, self._store.shared
        if shared and now - self._looked >= LOOK:
            self._looked = now
            self._store.noted = max(self._store.noted, self._store.newest())
            self._registry.synchronise(self.stopping)
        seconds = max(SHARE, min(1.0, EFFORT * self._effort)) if shared else settings.snapshot_seconds
        for hosted in self._registry.all():
            if hosted.wants_renewal(now, settings):
                hosted.renew(self._registry.next_seed(), now)
            self._brake(hosted)
            seq, kept = hosted.kept
            behind = hosted.fold.seq - seq
            wanted = seq < self._store.snapshots_wanted
            if behind >= settings.snapshot_events or (behind > 0 and (wanted or now - kept >= seconds)):
                self._keep(hosted, now)
        seq, marked = self._marked
        seconds = min(5.0, settings.snapshot_seconds) if shared else settings.snapshot_seconds
        if self.seq - seq >= settings.snapshot_events or (self.seq > seq and now - marked >= seconds):
            self._mark(now)
        if now - self._expired >= settings.expire:
            self._expired = now
            for hosted in self._registry.all():
                self._expire(hosted, now)

    def _brake(self, hosted: HostedRanker) -> None:
        """Go back to the baseline if the ranker is shown to be worse, or on with a ramp if it is shown not to be.

        If something else changed meanwhile, the next step looks again.
        """
        changed, mode = hosted.changed, hosted.turn()
        if mode is None:
            return
        if mode.stopped is not None:
            log.warning("the brake stops a ranker", ranker=hosted.stored.name, why=mode.stopped)
        else:
            log.info("a ranker gets a larger share", ranker=hosted.stored.name, share=mode.share)
        turn = turned(mode.settings, mode.stopped, mode.step)
        self._committer.submit([Change(hosted.stored.number, Kind.ROLLOUT, turn, changed)])

    def _expire(self, hosted: HostedRanker, now: float) -> None:
        over = hosted.over(now, EXPIRE)
        for start in range(0, len(over), EXPIRE_TOGETHER):  # other writers get their turn in between
            part = over[start : start + EXPIRE_TOGETHER]
            self._committer.submit([Expire(tuple(part), hosted.spec.unreported == "no_click")])
            for served in part:
                hosted.open.pop(served, None)

    def _keep(self, hosted: HostedRanker, now: float) -> None:
        began = time.monotonic()
        with span("snapshot", ranker=hosted.stored.name):
            snapshot = hosted.snapshot()
            if (stock := hosted.worth_keeping()) is not None:
                self._store.keep_items(hosted.stored.number, stock)
            self._store.keep(hosted.stored.number, snapshot)
        hosted.kept, hosted.tried = (snapshot.seq, now), snapshot.seq
        self._effort = time.monotonic() - began
        hosted.covered = snapshot.seq if hosted.stored.name in self._registry.broken else max(snapshot.seq, self.seq)

    def _mark(self, now: float) -> None:
        """Store a checkpoint: how far snapshots reach."""
        broken, unopened = self._registry.broken, self._registry.unopened
        behind, largest = dict.fromkeys(unopened, 0), max([0, *unopened])
        for hosted in self._registry.all():
            number = hosted.stored.number
            largest = max(largest, number)
            if hosted.stored.name in broken:
                behind[number] = min(hosted.covered, hosted.fold.seq)
            elif hosted.fold.seq != hosted.kept[0]:
                behind[number] = hosted.covered
            else:
                hosted.covered = self.seq
        self._store.note(NAME, Checkpoint(self.seq, largest, behind).pack())
        self._marked = (self.seq, now)

    # ------------------------------------------------------------------------------------------------ without the lease

    def _follow(self) -> None:
        """Take views from the snapshots of the server that learns."""
        now = self.now()
        if now - self._looked < FOLLOW:
            return
        self._looked = now
        self._store.noted = self._store.newest()
        self._registry.synchronise(self.stopping)
        newest = dict(self._store.snapshot_places())
        for hosted in self._registry.all():
            if newest.get(hosted.stored.number, 0) > hosted.tried:
                self._registry.reload(hosted)
                hosted.renew(self._registry.next_seed(), now)
        self.seq = max((hosted.fold.seq for hosted in self._registry.all()), default=0)
