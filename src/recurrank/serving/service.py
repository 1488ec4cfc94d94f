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

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import structlog

from recurrank._compiled import interpreted
from recurrank.catalogue import Catalogue
from recurrank.plugins import plainly
from recurrank.rankers.ranker import Buffer, Ranker
from recurrank.seeds import sequence
from recurrank.serving import rounds
from recurrank.serving.checkpoint import NAME, Checkpoint, split, unpack
from recurrank.serving.commit import Committer
from recurrank.serving.events import Event, Kind, pack_slates, unpack_items
from recurrank.serving.fold import (
    STREAMS,
    Config,
    Fold,
    digests,
    intact,
    new_fold,
    pack_catalogue,
    sealed,
    unpack_catalogue,
)
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

PIECE, PIECE_SECONDS = 256, 0.05
"""Events folded before anything else may have its turn: at least so many, and as many as take this time."""

CLOSE = 2.5
"""Seconds that closing may take. What is not folded by then is folded at the next start: the log has it."""

PROBE, PROBE_FAILED = 5.0, 1.0
"""Seconds without a write after which the store is tried: usually, and while it fails."""

PROBE_BYTES = 1 << 18
"""Written to find out whether a store that failed can be written again."""

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


class Unavailable(Exception):
    """One ranker cannot be used now; others can."""


class Ranked(NamedTuple):
    """A slate to show: its id, the items' ids in order, and the event up to which the ranking knows."""

    slate: str
    items: list[str]
    version: int


class Settings(NamedTuple):
    """How often things happen, in seconds and events."""

    refresh: float = 0.1  # views are renewed after so many seconds, if something was learned,
    renew: int = 16  # or after so many events; never sooner than 20 times what renewing takes, up to a second
    poll: float = 0.02  # how often the learner reads the log: in large pieces, so that it does not disturb requests
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
        self.tried = 0  # the newest snapshot that was looked at
        self.covered = fold.seq  # the event up to which the last snapshot holds
        self.piece = PIECE  # events folded at a time
        self.effort = 0.0  # seconds that renewing the view took
        self.retired: Ranker | None = None  # the view before this one: the next one takes its memory over
        self.kept = (fold.seq, 0.0)  # the last snapshot: which event, and when
        self.recent: deque[Event] = deque(maxlen=RECENT)  # the last events that were folded
        self.open: dict[int, float] = {}  # slates by the event that served them -> when first seen
        self.ids = catalogue.ids or tuple(str(place) for place in range(len(catalogue)))

        self.draw()  # compile, or load, before the first request asks for it
        fold.prepare()

    def show(self, view: Ranker, version: int) -> Ranker:
        """Rank with this copy of the ranker from now on; returns the one it replaces."""
        first = self._drawn(view, 1, Buffer.empty(self.config.positions))  # what it decides first, no request waits for
        with self._lock:
            retired = self._view
            self._view, self._version, self._ahead = view, version, first
        return retired

    @property
    def shown(self) -> int:
        """The event up to which the view knows the log."""
        return self._version

    def draw(self) -> tuple[bytes, int]:
        """A slate, packed, and the event up to which it knows the log."""
        with self._lock:
            if not self._ahead:
                self._ahead = self._drawn(self._view, self._many, self._slate)
            return self._ahead.pop(), self._version

    def next(self) -> bytes:
        """The slate that :meth:`draw` would give now; it stays where it is."""
        with self._lock:
            if not self._ahead:
                self._ahead = self._drawn(self._view, self._many, self._slate)
            return self._ahead[-1]

    def _drawn(self, view: Ranker, many: int, slate: Buffer) -> list[bytes]:
        """So many slates, last one first. Sets how many are to be drawn the next time: as many as the time for it allows."""
        positions = self.config.positions
        items, marks = np.empty((many, positions), np.int32), np.empty((many, positions, 2), np.int64)
        used = np.empty(many, np.int64)
        began = time.perf_counter()
        loop = rounds.draw if view.compiled else interpreted(rounds.draw)

        def draw(state: Any, rng: np.random.Generator) -> tuple[int, bool]:
            loop(state, rng, slate, items, marks, used)
            return 0, False

        view.advance(draw)
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
        wait: whether to wait until all rankers are restored; otherwise they become available one after the other.

    """

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        *,
        seed: int | None = None,
        settings: Settings | None = None,
        start: bool = True,
        wait: bool = True,
    ) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.settings = settings or Settings()
        self.learning = False
        self.seq = 0  # the last event that was folded
        self.failed: str | None = None  # why the learner could not go on, the last time
        self._store_failed = False  # whether that was the store's fault
        self.broken: dict[str, str] = {}  # rankers whose log cannot be folded, and why
        self._paused = 0.0  # how long the process was stopped
        self._probed = time.monotonic()  # when the store was last tried
        self.reported: Counter[str] = Counter()  # reports of this process, by what became of them
        self._seeds = sequence(seed, "views")
        self._desks: dict[str, Desk] = {}
        self._by_number: dict[int, Desk] = {}
        self._registry = threading.RLock()
        self._stopping = threading.Event()
        self._closed = False
        self._looked = (-float("inf"), -float("inf"))  # when it last expired, and looked for others' rankers
        self._committer = Committer(store)
        self._stepping = threading.Lock()
        self.starting: tuple[int, int] | None = (0, 0)  # rankers that are restored, of how many; None once all are
        self.unreadable = 0  # snapshots that were passed over
        self._unopened: set[int] = set()  # rankers that cannot be opened
        self._marked = (0, -float("inf"))  # the last checkpoint: after which event, and when
        if wait or not start:
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
        config = msgspec.structs.replace(config, streams=STREAMS)
        fold = new_fold(config, catalogue)  # complains about what will not do
        with plainly():  # also about a user's own code, before anything is written
            fold.ranker.copy(self._seeds.spawn(1)[0]).rank()
            fold.prepare()
        described, same = msgspec.json.encode(config, order="deterministic"), digests(config, catalogue)
        with self._registry:
            there = {stored.name: stored for stored in self.store.rankers()}.get(name)
            if there is not None:
                if there.digest not in same:
                    raise Conflict(f"name: there is another ranker called {name!r}; delete it first, or choose another name")
                if there.number not in self._by_number:  # made by another server, or by a request that failed at its end
                    self._open(there)
                return False
            stored = self.store.create(name, described, same[0], config.positions, pack_catalogue(catalogue))
            if stored is None:
                raise Conflict(f"name: there is another ranker called {name!r}; delete it first, or choose another name")
            self._add(Desk(stored, config, catalogue, fold, fold.ranker.copy(self._seeds.spawn(1)[0])))
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
        if name in self.broken:
            raise Unavailable(f"ranker {name!r}: its log cannot be folded ({self.broken[name]}); see `recurrank log verify`")
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
            self.check_started()
            if name in self.broken:
                raise Unavailable(f"ranker {name!r}: {self.broken[name]}; see `recurrank log verify`")
            raise NotFound(f"name: there is no ranker called {name!r}")
        return desk

    def check_started(self) -> None:
        """Unavailable, with how far it is, until all rankers are restored."""
        starting = self.starting
        if starting is not None:
            raise Unavailable(f"starting: {starting[0]:,} of {starting[1]:,} rankers are restored; try again")

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
            if not self.learning and not self._take_over():
                return 0
            folded = 0
            while events := self.store.events(self.seq, CHUNK):
                self.store.noted = max(self.store.noted, events[-1].seq)
                self._fold(events)
                if self._stopping.is_set():  # perhaps in the middle of them: those that are folded are skipped next time
                    return folded
                self.seq = events[-1].seq
                folded += len(events)
                if len(events) < CHUNK:
                    break
                self._upkeep()
            self._upkeep()
            return folded

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self.starting is None:
                self._sleep()
            try:
                self.step()
                self.failed, self._store_failed = None, False
            except StoreError as error:  # it may work again later; nothing is lost, the log is where it was
                self._fails(str(error), store=True)
            except Exception as error:  # a fault of ours: say so, and go on taking and writing what comes
                self._fails(f"{type(error).__name__}: {error}", store=False)
            self._probe()

    def _sleep(self) -> None:
        asleep = self.clock.monotonic()
        self._stopping.wait(self.settings.poll)
        overslept = self.clock.monotonic() - asleep - self.settings.poll
        if overslept > PAUSE:
            self._paused += overslept

    def _fails(self, why: str, store: bool) -> None:
        if why != self.failed and not self._stopping.is_set():
            log.error("the learner cannot go on", why=why)
        self.failed, self._store_failed = why, store
        self._stopping.wait(0.2)

    def _probe(self) -> None:
        """Where nobody has written for a while, find out whether the store can be written."""
        committer, now = self._committer, time.monotonic()
        failed = committer.failed is not None
        if now - max(committer.wrote, self._probed) < (PROBE_FAILED if failed else PROBE) or self._stopping.is_set():
            return
        self._probed = now
        try:
            self.store.probe(PROBE_BYTES if failed else 0)
            committer.failed = None
        except StoreError as error:
            committer.failed = str(error)

    def _now(self) -> float:
        """Time that windows are measured in."""
        return self.clock.monotonic() - self._paused

    def _take_over(self) -> bool:
        """Become the learner: every ranker from its newest sound snapshot and the log after it; False when it is to stop."""
        now = self._now()
        self.store.noted = self.store.newest()
        mark, opened = unpack(self.store.noted_as(NAME)), self.store.open_slates()
        self.seq = max(self.seq, mark.seq if mark else 0)  # what is behind that is not known yet
        newest = dict(self.store.snapshot_places())  # of several of a ranker, the last
        self._notice()
        starts: dict[int, int] = {}
        for number, desk in list(self._by_number.items()):
            if self._stopping.is_set():
                return False
            last = newest.get(number, 0)
            if last > desk.tried:
                self._restore_again(desk)
                desk.dirty = True
            desk.open = dict.fromkeys(opened.get(number, ()), now)
            desk.kept = (min(desk.fold.seq, last), now)
            starts[number] = desk.covered = mark.start(number, desk.fold.seq, last) if mark else desk.fold.seq
        self._marked = (mark.seq if mark else 0, now)
        if self._stopping.is_set():
            return False
        begin, alone = split(starts) if starts else (self._marked[0], [])
        for number in alone:
            self._catch_up(self._by_number[number])
        self.seq, self.learning = begin, True
        return True

    def _catch_up(self, desk: Desk) -> None:
        """Fold what one ranker is behind, without reading the others' events."""
        after = desk.fold.seq
        while not self._stopping.is_set() and (events := self.store.events(after, CHUNK, desk.stored.number)):
            self._fold(events)
            after = events[-1].seq

    def _mark(self, now: float) -> None:
        """Note how far snapshots reach: see checkpoint.py."""
        behind = dict.fromkeys(self._unopened, 0)
        for number, desk in list(self._by_number.items()):
            if desk.stored.name in self.broken or desk.fold.seq != desk.kept[0]:
                behind[number] = min(desk.covered, desk.fold.seq) if desk.stored.name in self.broken else desk.covered
            else:
                desk.covered = self.seq
        known = max([0, *self._by_number, *self._unopened])
        self.store.note(NAME, Checkpoint(self.seq, known, behind).pack())
        self._marked = (self.seq, now)

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
            if not self._apply(desk, part):
                continue
            desk.recent.extend(event for event in part[-RECENT:] if event.seq > after)
            for event in part:
                if event.seq > after:
                    if event.kind == Kind.SERVED:
                        desk.open.setdefault(event.seq, now)
                    elif event.kind != Kind.REPORTED:
                        desk.open.pop(event.served, None)
            desk.dirty = True

    def _apply(self, desk: Desk, events: list[Event]) -> bool:
        """Fold one ranker's events, in pieces; False when they cannot be, or the service is to stop."""
        start = 0
        while start < len(events):
            if self._stopping.is_set():
                return False
            part, began = events[start : start + desk.piece], time.perf_counter()
            with desk.folding:
                try:
                    desk.fold.apply(part)
                except ValueError as error:  # somebody altered the log: this ranker stays as it is, the others learn on
                    if desk.stored.name not in self.broken:
                        log.error("a log cannot be folded", ranker=desk.stored.name, why=str(error))
                    self.broken[desk.stored.name] = str(error)
                    return False
            start += len(part)
            seconds = time.perf_counter() - began
            if len(part) == desk.piece:
                desk.piece = max(PIECE, min(CHUNK, int(desk.piece * min(4.0, PIECE_SECONDS / max(seconds, 1e-6)))))
        return True

    def _upkeep(self) -> None:
        now = self._now()
        expired, looked = self._looked
        if self.store.shared and now - looked >= 1.0:
            looked = now
            self.store.noted = max(self.store.noted, self.store.newest())
            self._notice()
        for desk in list(self._desks.values()):
            news = desk.fold.seq - desk.shown
            patience = 0.0 if news >= self.settings.renew else self.settings.refresh
            if desk.dirty and now - desk.refreshed >= max(patience, min(1.0, 20 * desk.effort)):
                self._refresh(desk, now)
            seq, kept = desk.kept
            seconds = 1.0 if self.store.shared else self.settings.snapshot_seconds
            behind = desk.fold.seq - seq
            if behind >= self.settings.snapshot_events or (behind > 0 and now - kept >= seconds):
                self._keep(desk, now)
        seq, marked = self._marked
        seconds = min(5.0, self.settings.snapshot_seconds) if self.store.shared else self.settings.snapshot_seconds
        if self.seq - seq >= self.settings.snapshot_events or (self.seq > seq and now - marked >= seconds):
            self._mark(now)
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
            view, version = desk.fold.ranker.copy(self._seeds.spawn(1)[0], into=desk.retired), desk.fold.seq
        desk.retired = desk.show(view, version)
        desk.dirty, desk.refreshed, desk.effort = False, now, time.perf_counter() - began

    def _keep(self, desk: Desk, now: float) -> None:
        with desk.folding:
            state, seq = desk.fold.save(), desk.fold.seq
        self.store.keep(desk.stored.number, Snapshot(seq, sealed(desk.stored.number, seq, state), state))
        desk.kept, desk.tried = (seq, now), seq
        desk.covered = seq if desk.stored.name in self.broken else max(seq, self.seq)

    # ------------------------------------------------------------------------------------------------ not the learner

    def _follow(self) -> None:
        """Take views from the learner's snapshots."""
        now = self._now()
        if now - self._looked[1] < 1.0:
            return
        self._looked = (self._looked[0], now)
        self.store.noted = self.store.newest()
        self._notice()
        newest = dict(self.store.snapshot_places())
        for desk in list(self._desks.values()):
            if newest.get(desk.stored.number, 0) > desk.tried:
                self._restore_again(desk)
                self._refresh(desk, now)
        self.seq = max((desk.fold.seq for desk in self._desks.values()), default=0)

    def _notice(self) -> None:
        """Rankers that are in the store and not here, and the other way round: at the start, or made by other servers."""
        stored = self.store.rankers()
        missing = [ranker for ranker in stored if ranker.number not in self._by_number and ranker.number not in self._unopened]
        for done, ranker in enumerate(missing):
            if self._stopping.is_set():
                return
            if self.starting is not None:
                self.starting = (len(stored) - len(missing) + done, len(stored))
            with self._registry:
                if ranker.number not in self._by_number:
                    self._try_to_open(ranker)
        with self._registry:
            names = {ranker.name for ranker in self.store.rankers()}
            for name in {*self._desks, *self.broken} - names:
                self._remove(name)
        self.starting = None

    def _try_to_open(self, ranker: StoredRanker) -> None:
        """One that cannot be opened does not keep the others from it."""
        try:
            self._open(ranker)
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            log.error("a ranker cannot be opened", ranker=ranker.name, why=str(error))
            self._unopened.add(ranker.number)
            self.broken[ranker.name] = f"it cannot be opened ({error})"

    # ------------------------------------------------------------------------------------------------ desks

    def _open(self, stored: StoredRanker) -> Desk:
        config = msgspec.json.decode(stored.config, type=Config)
        catalogue = unpack_catalogue(self.store.catalogue(stored.number))
        fold, tried = self._restored(stored, config, catalogue)
        desk = Desk(stored, config, catalogue, fold, fold.ranker.copy(self._seeds.spawn(1)[0]))
        desk.tried = tried
        self._add(desk)
        return desk

    def _restore_again(self, desk: Desk) -> None:
        """There is a newer snapshot than the last that was looked at; what is folded here may be newer still."""
        fold, desk.tried = self._restored(desk.stored, desk.config, desk.catalogue)
        if fold.seq > desk.fold.seq:
            with desk.folding:
                desk.fold = fold

    def _restored(self, stored: StoredRanker, config: Config, catalogue: Catalogue) -> tuple[Fold, int]:
        """The newest snapshot that is whole, and the newest of all: what is passed over, the log makes up for."""
        newest = 0
        for snapshot in self.store.snapshots(stored.number):
            newest = max(newest, snapshot.seq)
            try:
                if not intact(stored.number, *snapshot):
                    raise ValueError("snapshot: torn or altered")
                return Fold.load(snapshot.state, catalogue, config.streams), newest
            except ValueError as error:
                self.unreadable += 1
                log.warning("a snapshot cannot be used", ranker=stored.name, after=snapshot.seq, why=str(error))
        return new_fold(config, catalogue), newest

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
        """How many events were written and not folded yet, as far as this process knows: it does not ask the store."""
        return max(0, self.store.noted - self.seq)

    def trouble(self) -> str | None:
        """Why this server can neither rank nor take feedback now; None when it can."""
        return self._committer.failed or (self.failed if self._store_failed else None)

    def close(self) -> None:
        """Write what is waiting, keep snapshots of what was folded, let go of the store. Idempotent.

        It ends within a few seconds whatever the store does. Events that are not folded yet are folded at the next start.
        """
        if self._closed:
            return
        self._closed = True
        until = time.monotonic() + CLOSE
        self._stopping.set()
        self._committer.stop(CLOSE / 2)
        if self._thread is not None:
            self._thread.join(max(0.1, until - time.monotonic()))
        try:
            if self.learning and not (self._thread is not None and self._thread.is_alive()):
                for desk in self._desks.values():
                    if desk.fold.seq > desk.kept[0] and time.monotonic() < until:
                        self._keep(desk, self._now())
                if self.seq > self._marked[0]:
                    self._mark(self._now())
        except StoreError as error:
            log.warning("snapshots were not kept; the log makes up for them", why=str(error))
        finally:
            self.store.close()
