"""The service: rankers by name, slates by id, feedback as it comes. No HTTP in here.

Three parts work together, each simple by itself:

- *Requests* rank with a copy of the ranker (the *view*) and hand what they want written to the committer, which answers when
  it is on disk. A request changes nothing else, so that one that could not be written has not happened.
- *The learner*, a thread, reads the log and folds it: into what was learned, into the list of open slates. It replaces views
  by newer copies, takes snapshots and closes the windows that are over. Where several servers share a store, only the one
  that holds the lease does this; the others take their views from its snapshots.
- *The store* decides in its transactions what becomes of a slate (``store/base.py``).

Windows are measured by the learner's monotonic clock from when it first saw the slate, so that a wrong wall clock harms
nothing; a new learner gives every open slate its full window again, and time that the process was stopped for (suspended, or
starved by others) does not count, since no report could come in.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import structlog

from recurrank.catalogue import Catalogue
from recurrank.rankers import load
from recurrank.rankers.ranker import Buffer, Ranker
from recurrank.serving import rounds
from recurrank.serving.commit import Committer
from recurrank.serving.events import Event, Kind, pack_slates, unpack_items
from recurrank.serving.fold import Config, Fold, digest_of, new_fold, pack_catalogue, unpack_catalogue
from recurrank.serving.store import Store, StoreError
from recurrank.serving.store.base import Expire, Report, Serve, Snapshot, StoredRanker
from recurrank.slate import new_id

log = structlog.get_logger("recurrank.service")

CHUNK = 20_000
"""Events folded at a time."""

EXPIRE, EXPIRE_TOGETHER = 20_000, 500
"""Windows closed in one step, and in one transaction."""

RECENT = 20
"""Events of each ranker that are kept to be looked at."""

PAUSE = 2.0
"""Seconds that the learner oversleeps by, from which on the process was stopped."""

AHEAD, AHEAD_SECONDS = 64, 0.0005
"""Slates drawn at a time: at most so many, and only as many as can be drawn in this time."""


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds that only ever grow."""


class SystemClock:
    """The machine's."""

    def monotonic(self) -> float:
        return time.monotonic()


class NotFound(ValueError):
    """There is no ranker of that name."""


class Conflict(ValueError):
    """The name or the id is taken by something else."""


class Ranked(NamedTuple):
    """A slate to show: its id, the items' ids in order, and the event up to which the ranking knows."""

    slate: str
    items: list[str]
    version: int


class Settings(NamedTuple):
    """How often things happen, in seconds and events."""

    refresh: float = (
        0.1  # views are this much older than what was learned, or 20 times what it takes to renew them, up to a second
    )
    poll: float = 0.05  # how often the learner reads the log: in large pieces, so that it does not disturb requests
    snapshot_events: int = 100_000
    snapshot_seconds: float = 60.0  # and every second where other servers wait for it
    expire: float = 0.5


class Desk:
    """One ranker in this process."""

    def __init__(self, stored: StoredRanker, config: Config, catalogue: Catalogue, fold: Fold, view: Ranker) -> None:
        self.stored, self.config, self.catalogue = stored, config, catalogue
        self.fold = fold
        self._view, self._version = view, fold.seq
        self._ahead: list[bytes] = []  # slates drawn from the view, to be served
        self._many = 1  # to be drawn next
        self._lock = threading.Lock()  # of these four
        self._slate = Buffer.empty(config.positions)
        self.folding = threading.Lock()  # of the fold
        self.dirty = False
        self.refreshed = 0.0
        self.effort = 0.0  # seconds that renewing the view took
        self.kept = (fold.seq, 0.0)  # the last snapshot: which event, and when
        self.recent: deque[Event] = deque(maxlen=RECENT)  # the last events that were folded
        self.open: dict[int, float] = {}  # slates by the event that served them -> when first seen
        self.ids = catalogue.ids or tuple(str(place) for place in range(len(catalogue)))

        self.draw()  # compile, or load, before the first request asks for it
        fold.prepare()

    def show(self, view: Ranker, version: int) -> None:
        """Rank with this copy of the ranker from now on."""
        with self._lock:
            self._view, self._version, self._ahead, self._many = view, version, [], 1

    def draw(self) -> tuple[bytes, int]:
        """A slate, packed, and the event up to which it knows the log."""
        with self._lock:
            if not self._ahead:
                self._ahead = self._drawn()
            return self._ahead.pop(), self._version

    def next(self) -> bytes:
        """The slate that :meth:`draw` would give now; it stays where it is."""
        with self._lock:
            if not self._ahead:
                self._ahead = self._drawn()
            return self._ahead[-1]

    def _drawn(self) -> list[bytes]:
        """As many slates as the time for it allows, last one first."""
        view, many, positions = self._view, self._many, self.config.positions
        if view.due:
            view.plan()
        items, marks = np.empty((many, positions), np.int32), np.empty((many, positions, 2), np.int64)
        used = np.empty(many, np.int64)
        began = time.perf_counter()
        rounds.draw(view.state, view.rng, self._slate, items, marks, used)
        within = AHEAD_SECONDS / max(time.perf_counter() - began, 1e-9) * many
        self._many = max(1, min(AHEAD, 2 * many, int(within)))
        return pack_slates(items, marks, used)[::-1]


class Service:
    """Rankers over a store. Safe to call from several threads; ``close`` writes what is waiting.

    Args:
        store: where the log is kept.
        clock: where time comes from.
        seed: of the slates' random choices; by default from the system.
        settings: how often things happen.
        start: whether the learner runs in a thread; otherwise call :meth:`step`.

    """

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        *,
        seed: int | None = None,
        settings: Settings | None = None,
        start: bool = True,
    ) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.settings = settings or Settings()
        self.learning = False
        self.seq = 0  # the last event that was folded
        self.failed: str | None = None  # why the learner could not go on, the last time
        self.broken: dict[str, str] = {}  # rankers whose log cannot be folded, and why
        self._paused = 0.0  # how long the process was stopped
        self.reported: Counter[str] = Counter()  # reports of this process, by what became of them
        self._seeds = np.random.SeedSequence(seed)
        self._desks: dict[str, Desk] = {}
        self._by_number: dict[int, Desk] = {}
        self._registry = threading.RLock()
        self._stopping = threading.Event()
        self._closed = False
        self._looked = (-float("inf"), -float("inf"))  # when it last expired, and looked for others' rankers
        self._committer = Committer(store)
        self._stepping = threading.Lock()
        try:
            self.step()
        except BaseException:
            self._committer.stop()
            store.close()
            raise
        self._thread: threading.Thread | None = None
        if start:
            self._thread = threading.Thread(target=self._run, name="recurrank-learn", daemon=True)
            self._thread.start()

    # ------------------------------------------------------------------------------------------------ requests

    def create(self, name: str, config: Config, catalogue: Catalogue) -> bool:
        """A new ranker; True if it is new, False if the same one was there. Conflict when the name is another one's."""
        fold = new_fold(config, catalogue)  # complains about what will not do
        described = msgspec.json.encode(config, order="deterministic")
        digest = hashlib.sha256(described + catalogue.fingerprint.encode()).hexdigest()
        with self._registry:
            there = {stored.name: stored for stored in self.store.rankers()}.get(name)
            if there is not None:
                if there.digest != digest:
                    raise Conflict(f"name: there is another ranker called {name!r}; delete it first, or choose another name")
                if there.number not in self._by_number:  # made by another server, or by a request that failed at its end
                    self._open(there)
                return False
            stored = self.store.create(name, described, digest, config.positions, pack_catalogue(catalogue))
            if stored is None:
                raise Conflict(f"name: there is another ranker called {name!r}; delete it first, or choose another name")
            self._add(Desk(stored, config, catalogue, fold, self._copy(fold.ranker, catalogue)))
        return True

    def delete(self, name: str) -> None:
        """Forget a ranker; its events stay in the log."""
        with self._registry:
            there = self.store.delete(name)
            self._remove(name)
            if not there:
                raise NotFound(f"name: there is no ranker called {name!r}")

    def rank(self, name: str, slate: str | None = None) -> Ranked:
        """A slate to show, written before it is returned. The same ``slate`` id again gives the same slate."""
        desk, operation, version = self._draw(name, slate)
        return self._ranked(desk, operation, version, self._committer.submit([operation])[0].payload)

    async def rank_async(self, name: str, slate: str | None = None) -> Ranked:
        """:meth:`rank` without blocking an event loop."""
        desk, operation, version = self._draw(name, slate)
        return self._ranked(desk, operation, version, (await self._committer.submit_async([operation]))[0].payload)

    def feedback(self, reports: Sequence[Report]) -> list[str]:
        """What became of each report: learned, open, duplicate, late, unknown or invalid."""
        return self._counted(self._committer.submit(list(reports))) if reports else []

    async def feedback_async(self, reports: Sequence[Report]) -> list[str]:
        """:meth:`feedback` without blocking an event loop."""
        return self._counted(await self._committer.submit_async(list(reports))) if reports else []

    def _counted(self, outcomes: list[str]) -> list[str]:
        self.reported.update(outcomes)
        return outcomes

    def _draw(self, name: str, slate: str | None) -> tuple[Desk, Serve, int]:
        desk = self.desk(name)
        payload, version = desk.draw()
        return desk, Serve(slate or new_id(), desk.stored.number, payload), version

    def _ranked(self, desk: Desk, operation: Serve, version: int, payload: bytes | None) -> Ranked:
        if payload is None:
            if self._desks.get(desk.stored.name) is not desk:
                raise NotFound(f"name: there is no ranker called {desk.stored.name!r}")
            raise Conflict(f"slate: {operation.slate!r} is a slate of another ranker; choose another id")
        items = unpack_items(payload, desk.config.positions)
        return Ranked(operation.slate, [desk.ids[item] for item in items], version)

    def find(self, name: str) -> Desk | None:
        """The ranker of that name, if there is one."""
        return self._desks.get(name)

    def desk(self, name: str) -> Desk:
        """The ranker of that name; NotFound when there is none."""
        desk = self._desks.get(name)
        if desk is None:
            raise NotFound(f"name: there is no ranker called {name!r}")
        return desk

    def names(self) -> list[str]:
        """All rankers' names, in order."""
        return sorted(self._desks)

    # ------------------------------------------------------------------------------------------------ the learner

    def step(self) -> int:
        """Fold what was written, refresh views, take snapshots, close windows; how many events were folded."""
        with self._stepping:
            if not self.store.lease():
                self.learning = False
                self._follow()
                return 0
            if not self.learning:
                self._take_over()
            folded = 0
            while events := self.store.events(self.seq, CHUNK):
                self._fold(events)
                self.seq = events[-1].seq
                folded += len(events)
                if len(events) < CHUNK:
                    break
            self._upkeep()
            return folded

    def _run(self) -> None:
        while not self._stopping.is_set():
            asleep = self.clock.monotonic()
            self._stopping.wait(self.settings.poll)
            overslept = self.clock.monotonic() - asleep - self.settings.poll
            if overslept > PAUSE:
                self._paused += overslept
            try:
                self.step()
                self.failed = None
            except StoreError as error:  # it may work again later; nothing is lost, the log is where it was
                self._fails(str(error))
            except Exception as error:  # a fault of ours: say so, and go on taking and writing what comes
                self._fails(f"{type(error).__name__}: {error}")

    def _fails(self, why: str) -> None:
        if why != self.failed:
            log.error("the learner cannot go on", why=why)
        self.failed = why
        self._stopping.wait(0.2)

    def _now(self) -> float:
        """Time that windows are measured in."""
        return self.clock.monotonic() - self._paused

    def _take_over(self) -> None:
        """Become the learner: every ranker from its newest sound snapshot and the log after it."""
        now = self._now()
        stored = self.store.rankers()
        with self._registry:
            for name in set(self._desks) - {ranker.name for ranker in stored}:
                self._remove(name)
            oldest = None
            for ranker in stored:
                desk = self._by_number.get(ranker.number) or self._open(ranker)
                desk.fold = self._restored(ranker, desk.config, desk.catalogue)
                desk.open = dict.fromkeys(self.store.open_slates(ranker.number), now)
                desk.kept = (desk.fold.seq, now)
                desk.dirty = True
                oldest = desk.fold.seq if oldest is None else min(oldest, desk.fold.seq)
        self.seq = oldest or 0
        self.learning = True

    def _fold(self, events: list[Event]) -> None:
        by_ranker: dict[int, list[Event]] = {}
        for event in events:
            by_ranker.setdefault(event.ranker, []).append(event)
        now = self._now()
        for number, part in by_ranker.items():
            if part[-1].kind == Kind.DELETED or (part[0].kind == Kind.CREATED and number not in self._by_number):
                self._notice()
            desk = self._by_number.get(number)
            if desk is None or part[-1].seq <= desk.fold.seq:
                continue  # of a ranker that is deleted, or in its snapshot
            after = desk.fold.seq
            with desk.folding:
                try:
                    desk.fold.apply(part)
                except ValueError as error:  # somebody altered the log: this ranker stays as it is, the others learn on
                    if desk.stored.name not in self.broken:
                        log.error("a log cannot be folded", ranker=desk.stored.name, why=str(error))
                    self.broken[desk.stored.name] = str(error)
                    continue
            desk.recent.extend(event for event in part[-RECENT:] if event.seq > after)
            for event in part:
                if event.seq > after:
                    if event.kind == Kind.SERVED:
                        desk.open.setdefault(event.seq, now)
                    elif event.kind != Kind.REPORTED:
                        desk.open.pop(event.served, None)
            desk.dirty = True

    def _upkeep(self) -> None:
        now = self._now()
        expired, looked = self._looked
        if self.store.shared and now - looked >= 1.0:
            looked = now
            self._notice()
        for desk in list(self._desks.values()):
            if desk.dirty and now - desk.refreshed >= max(self.settings.refresh, min(1.0, 20 * desk.effort)):
                self._refresh(desk, now)
            seq, kept = desk.kept
            seconds = 1.0 if self.store.shared else self.settings.snapshot_seconds
            behind = desk.fold.seq - seq
            if behind >= self.settings.snapshot_events or (behind > 0 and now - kept >= seconds):
                self._keep(desk, now)
        if now - expired >= self.settings.expire:
            expired = now
            for desk in list(self._desks.values()):
                self._expire(desk, now)
        self._looked = (expired, looked)

    def _expire(self, desk: Desk, now: float) -> None:
        over: list[int] = []
        for served, seen in desk.open.items():  # in the order of serving
            if now - seen < desk.config.window_seconds or len(over) == EXPIRE:
                break
            over.append(served)
        for start in range(0, len(over), EXPIRE_TOGETHER):  # other writers have their turn in between
            part = over[start : start + EXPIRE_TOGETHER]
            self._committer.submit([Expire(tuple(part), desk.config.unreported == "no_click")])
            for served in part:
                desk.open.pop(served, None)

    def _refresh(self, desk: Desk, now: float) -> None:
        began = time.perf_counter()
        with desk.folding:
            state, version = desk.fold.ranker.save(), desk.fold.seq
        desk.show(self._copy(load(state, desk.catalogue), desk.catalogue, copied=True), version)
        desk.dirty, desk.refreshed, desk.effort = False, now, time.perf_counter() - began

    def _keep(self, desk: Desk, now: float) -> None:
        with desk.folding:
            state, seq = desk.fold.save(), desk.fold.seq
        self.store.keep(desk.stored.number, Snapshot(seq, digest_of(state), state))
        desk.kept = (seq, now)

    # ------------------------------------------------------------------------------------------------ not the learner

    def _follow(self) -> None:
        """Take views from the learner's snapshots."""
        now = self._now()
        if now - self._looked[1] < 1.0:
            return
        self._looked = (self._looked[0], now)
        self._notice()
        for desk in list(self._desks.values()):
            newest = next(iter(self.store.snapshots(desk.stored.number)), None)
            if newest is not None and newest.seq > desk.fold.seq and digest_of(newest.state) == newest.digest:
                desk.fold = Fold.load(newest.state, desk.catalogue)
                self._refresh(desk, now)
        self.seq = max((desk.fold.seq for desk in self._desks.values()), default=0)

    def _notice(self) -> None:
        """Rankers that other servers made or deleted."""
        with self._registry:
            stored = self.store.rankers()
            for ranker in stored:
                if ranker.number not in self._by_number:
                    self._add(self._open(ranker))
            for name in set(self._desks) - {ranker.name for ranker in stored}:
                self._remove(name)

    # ------------------------------------------------------------------------------------------------ desks

    def _open(self, stored: StoredRanker) -> Desk:
        config = msgspec.json.decode(stored.config, type=Config)
        catalogue = unpack_catalogue(self.store.catalogue(stored.number))
        fold = self._restored(stored, config, catalogue)
        desk = Desk(stored, config, catalogue, fold, self._copy(fold.ranker, catalogue))
        self._add(desk)
        return desk

    def _restored(self, stored: StoredRanker, config: Config, catalogue: Catalogue) -> Fold:
        """The newest snapshot that is whole; a torn or altered one is passed over, and the log makes up for it."""
        for snapshot in self.store.snapshots(stored.number):
            if digest_of(snapshot.state) == snapshot.digest:
                try:
                    return Fold.load(snapshot.state, catalogue)
                except ValueError:
                    continue
        return new_fold(config, catalogue)

    def _copy(self, ranker: Ranker, catalogue: Catalogue, copied: bool = False) -> Ranker:
        """A ranker that ranks by itself: with random choices of its own."""
        view = ranker if copied else load(ranker.save(), catalogue)
        view.rng = np.random.Generator(np.random.PCG64(self._seeds.spawn(1)[0]))
        return view

    def _add(self, desk: Desk) -> None:
        self._desks[desk.stored.name] = desk
        self._by_number[desk.stored.number] = desk

    def _remove(self, name: str) -> None:
        self.broken.pop(name, None)
        desk = self._desks.pop(name, None)
        if desk is not None:
            self._by_number.pop(desk.stored.number, None)

    # ------------------------------------------------------------------------------------------------ reading

    def status(self, name: str) -> dict[str, Any]:
        """What is known about a ranker, for people and dashboards."""
        from recurrank.serving.status import status_of

        return status_of(self.desk(name))

    def lag(self) -> int:
        """How many events were written and not folded yet."""
        return max(0, self.store.newest() - self.seq)

    def close(self) -> None:
        """Write what is waiting, fold it, take snapshots, let go of the store. Twice is once."""
        if self._closed:
            return
        self._closed = True
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._committer.stop()
        try:
            if self.learning:
                self._last_step()
        finally:
            self.store.close()

    def _last_step(self) -> None:
        """The last fold before the end: the committer has stopped, so that no window can be closed any more."""
        self._looked = (float("inf"), self._looked[1])
        self.step()
        for desk in self._desks.values():
            if desk.fold.seq > desk.kept[0]:
                self._keep(desk, self._now())
