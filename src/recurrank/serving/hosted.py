"""One ranker in this process: the learned state (the *fold*), the copy that ranks (the *view*), and the open slates."""

from __future__ import annotations

import functools
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Ints
from recurrank.catalogue import Catalogue
from recurrank.rankers.dispatch import Calls
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.ranker import Ranker
from recurrank.serving import rounds
from recurrank.serving.asked import Asked
from recurrank.serving.assigning import Baseline, allowed, checked_baseline, compose
from recurrank.serving.chances import Chances
from recurrank.serving.events import Event, Kind, names_in, pack_slates
from recurrank.serving.experiment import Rollout
from recurrank.serving.fold import Fold, sealed
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store.records import Snapshot, StoredRanker
from recurrank.serving.trial import Trial, attach

RECENT = 20
"""Number of last events kept in memory for the dashboard."""

PIECE, MOST, PIECE_SECONDS = 256, 20_000, 0.05
"""Events folded while holding the lock: minimum, maximum, and in between as many as take PIECE_SECONDS."""

AHEAD, AHEAD_SECONDS = 64, 0.0005
"""Slates drawn ahead at a time: at most AHEAD, and only as many as AHEAD_SECONDS allow."""


class Drawn(NamedTuple):
    """A slate, packed.

    Attributes:
        payload: the slate as it is logged.
        version: the last event that the view has learned from.
        stock: the last change of items, rules or mode that it takes into account.
        names: ids of the shown items, if known without unpacking.

    """

    payload: bytes
    version: int
    stock: int = 0
    names: list[str] | None = None


class Settings(NamedTuple):
    """How often the learner acts, in seconds and events."""

    refresh: float = 0.1  # a view is renewed after so many seconds, if something was learned,
    renew: int = 16  # or after so many events,
    pause: float = 20.0  # but not before this multiple of the processor time that renewing takes, up to a second
    poll: float = 0.02  # between two reads of the log: large pieces disturb requests less
    snapshot_events: int = 100_000
    snapshot_seconds: float = 60.0  # and up to twice a second if other servers share the store
    expire: float = 0.5


class Ages(NamedTuple):
    """Seconds since the view was renewed and since the last snapshot, if there is news; seconds that a window is overdue."""

    view: float
    snapshot: float
    overdue: float


class HostedRanker:
    """Requests draw slates from the view; only the learner changes the fold and the attributes without a lock.

    Attributes:
        stored: the ranker's row in the store.
        spec: its specification.
        catalogue: the items that it was created with.
        fold: the learned state. Hold ``folding`` to read it.
        folding: the lock of the fold.
        open: open slates by the event that served them, with the time when they were first seen, oldest first.
        recent: the last events that were folded.
        kept: event and time of the last snapshot.
        covered: the event up to which the newest snapshot is valid.
        tried: event of the newest snapshot that was tried.

    """

    def __init__(self, stored: StoredRanker, spec: LoggedSpec, catalogue: Catalogue, fold: Fold, view: Ranker) -> None:
        self.stored, self.spec, self.catalogue = stored, spec, catalogue
        self.fold, self.folding = fold, threading.Lock()
        self.open: dict[int, float] = {}
        self.recent: deque[Event] = deque(maxlen=RECENT)
        self.tried, self.covered, self.kept = 0, fold.seq, (fold.seq, 0.0)
        self._piece = PIECE
        self._dirty, self._refreshed, self._effort = False, 0.0, 0.0  # news since the last renewal; its time and duration
        self._retired: Ranker | None = None  # the previous view, whose memory the next one reuses
        self._drawing = threading.Lock()  # guards the next four
        self._view, self._version = view, fold.seq
        self._ahead: list[bytes] = []  # slates drawn from the view, to be served; the next one last
        self._many = 1  # slates to draw next time
        self._mode = fold.experiment.rollout
        self._drafts = np.random.default_rng()
        self._looked = 0  # number of compared slates when the brake last looked
        self._compile()  # or load compiled code, before the first request needs it
        fold.prepare()

    def _compile(self) -> None:
        self.draw()

    @functools.cached_property
    def first_ids(self) -> Sequence[str]:
        """By index, the ids of the items that it was created with, or else their numbers as text."""
        return self.catalogue.ids or tuple(str(item) for item in range(len(self.catalogue)))

    @property
    def ids(self) -> Sequence[str]:
        """By index, the items' ids in the fold, empty for free indices."""
        return self.first_ids

    def names(self, payload: bytes) -> list[str]:
        """The ids of the items in a packed slate."""
        return names_in(payload, self.spec.positions, self.first_ids)

    @property
    def size(self) -> int:
        """Number of items."""
        return len(self.catalogue)

    # ------------------------------------------------------------------------------------------------ the mode

    @property
    def mode(self) -> Rollout:
        """The current mode. It may be ahead of the fold's: an acknowledged change holds at once."""
        return self._mode

    @property
    def changed(self) -> int:
        """The last change of items, rules or mode that applies to new slates."""
        return self._mode.seq

    def take_changes(self, events: Sequence[Event]) -> None:
        """Apply these changes to new slates."""
        self._take_mode(self._mode.after(events))

    def _take_mode(self, mode: Rollout) -> None:
        with self._drawing:
            if mode.seq > self._mode.seq:
                self._mode, self._looked = mode, 0

    def turn(self) -> Rollout | None:
        """The new mode if the brake or a ramp changes it now; they look again after one percent more compared slates."""
        experiment = self.fold.experiment
        if experiment.rollout.seq != self._mode.seq or experiment.slates < 1.01 * self._looked:
            return None  # the fold is behind, or has hardly anything new
        self._looked = experiment.slates + 1
        if (why := experiment.to_stop()) is not None:
            return self._mode._replace(stopped=why)
        return self._mode._replace(step=self._mode.step + 1) if experiment.may_grow() else None

    def serve(self, asked: Asked | None, slate: str) -> Drawn:
        """Draw the slate of a request, under this id and in the ranker's mode; ValueError for an invalid request."""
        changed, mode = self.changed, self.mode  # in this order: a mode that is newer than ``changed`` is drawn again
        subject = None if asked is None else asked.subject
        if mode.full:
            return self._with_trial(self.draw(asked), Trial(subject) if subject is not None else None, changed)
        arm, unit = mode.assign(self.stored.name, subject, slate)
        wanted = asked or Asked()
        baseline = self._allowed(wanted, checked_baseline(wanted.baseline, mode.settings.mode))
        if arm == "ranker":
            return self._with_trial(self.draw(asked), Trial(subject, arm, unit=unit), changed)
        shadow = mode.settings.mode == "shadow"
        names, trial = compose((subject, arm, unit), baseline, lambda: self.would_show(asked), shadow, self._drafts)
        return self._with_trial(self.foreign(wanted, names), trial, changed)

    @staticmethod
    def _with_trial(drawn: Drawn, trial: Trial | None, changed: int) -> Drawn:
        payload = drawn.payload if trial is None else attach(drawn.payload, trial)
        return Drawn(payload, drawn.version, changed, drawn.names)  # several times as fast as _replace()

    def _allowed(self, asked: Asked, baseline: Sequence[str]) -> Baseline:
        """The part of a baseline that may be shown; it is checked in the same way whichever order is shown."""
        return allowed(baseline, self.spec.positions, self.index)

    @functools.cached_property
    def index(self) -> dict[str, int]:
        """Indices of the items, by id."""
        return {name: item for item, name in enumerate(self.ids)}

    def foreign(self, asked: Asked, names: Sequence[str]) -> Drawn:
        """A slate in an order that the ranker did not choose; ValueError for an item that is not in the catalogue."""
        self._check_plain(asked)
        index, shown = self.index, list(names)
        try:
            items = [index[name] for name in shown]
        except KeyError as error:
            raise ValueError(f"baseline: {error.args[0]!r} is not an item of this ranker") from error
        return Drawn(struct.pack(f"<{len(items)}i", *items), self._version, names=shown)

    def would_show(self, asked: Asked | None) -> list[str]:
        """The ids of the slate that the ranker would show; it is not served."""
        return self.names(self.peek())

    # ------------------------------------------------------------------------------------------------ the view

    def draw(self, asked: Asked | None = None) -> Drawn:
        """Draw a slate; ValueError for a request with candidates, context or rules."""
        self._check_plain(asked)
        with self._drawing:
            self._draw_ahead()
            return Drawn(self._ahead.pop(), self._version)

    def _check_plain(self, asked: Asked | None) -> None:
        if asked is not None and not asked.plain:
            raise ValueError(
                f"body: the algorithm {self.spec.algorithm!r} shows everybody the same items; candidates, context and rules "
                "need a ranker of requests, such as 'anchored'"
            )

    def peek(self) -> bytes:
        """The slate that :meth:`draw` would return next."""
        with self._drawing:
            self._draw_ahead()
            return self._ahead[-1]

    def _draw_ahead(self) -> None:
        if not self._ahead:
            self._ahead = self._drawn(self._view, self._many)

    def _drawn(self, view: Ranker, many: int) -> list[bytes]:
        """Draw slates, last one first. Adapts the number for the next time to ``AHEAD_SECONDS``."""
        positions = self.spec.positions
        items, marks = np.empty((many, positions), np.int32), np.empty((many, positions, 2), np.int64)
        used, chances = np.empty(many, np.int64), Chances.empty(many, positions)
        began = time.perf_counter()

        def draw(calls: Calls) -> tuple[int, bool]:
            calls.loop(rounds.draw)(
                calls.drawing, calls.round, calls.rng, items, marks, used, chances,
                self._alive(view), self.spec.explore_uniform, type(view).compiled_propensity is certain,
            )  # fmt: skip
            return 0, False

        view.advance(draw)
        within = AHEAD_SECONDS / max(time.perf_counter() - began, 1e-9) * many
        self._many = max(1, min(AHEAD, 2 * many, int(within)))
        return self._packed(view, items, marks, used, chances)[::-1]

    @functools.cached_property
    def _first(self) -> Ints:
        """The indices of the first items, if uniform slates are drawn from them."""
        return np.arange(len(self.catalogue) if self.spec.explore_uniform else 0)

    def _alive(self, view: Ranker) -> Ints:
        """The indices from which uniform slates are drawn, if any are."""
        return self._first

    def _packed(self, view: Ranker, items: Any, marks: Ints, used: Ints, chances: Chances) -> list[bytes]:
        return pack_slates(items, marks, used, chances if view.compiled_propensity is not None else None)

    def wants_renewal(self, now: float, settings: Settings) -> bool:
        """Whether the view is so far behind the fold that it should be replaced."""
        patience = 0.0 if self.fold.seq - self._version >= settings.renew else settings.refresh
        return self._dirty and now - self._refreshed >= max(patience, min(1.0, settings.pause * self._effort))

    def renew(self, seed: np.random.SeedSequence, now: float) -> None:
        """Replace the view by a new copy of the fold's ranker."""
        began = time.thread_time()  # processor time: waiting for requests must not make renewals rarer
        with self.folding:
            view, version = self.fold.ranker.copy(seed, into=self._retired), self.fold.seq
        first = self._drawn(view, 1)  # so that no request waits for its first decision
        with self._drawing:
            self._retired = self._view
            self._view, self._version, self._ahead = view, version, first
        self._dirty, self._refreshed, self._effort = False, now, time.thread_time() - began

    # ------------------------------------------------------------------------------------------------ the fold

    def apply(self, events: list[Event], now: float, stopping: threading.Event) -> bool:
        """Fold events of this ranker, in pieces; False if it was stopped. ValueError for an altered log."""
        after = self.fold.seq
        if events[-1].seq <= after:
            return True  # the snapshot includes them
        start = 0
        while start < len(events):
            if stopping.is_set():
                return False
            part, began = events[start : start + self._piece], time.perf_counter()
            with self.folding:
                self.fold.apply(part)
            start += len(part)
            seconds = max(time.perf_counter() - began, 1e-6)
            if len(part) == self._piece:
                self._piece = max(PIECE, min(MOST, int(self._piece * min(4.0, PIECE_SECONDS / seconds))))
        self._note([event for event in events if event.seq > after], now)
        self._take_mode(self.fold.experiment.rollout)
        return True

    def _note(self, events: list[Event], now: float) -> None:
        self.recent.extend(events[-RECENT:])
        for event in events:
            if event.kind == Kind.SERVED:
                self.open.setdefault(event.seq, now)
            elif event.kind != Kind.REPORTED:
                self.open.pop(event.served, None)
        self._dirty = True

    def replace(self, fold: Fold) -> None:
        """Take over a fold from another server, if it is newer."""
        if fold.seq > self.fold.seq:
            with self.folding:
                self.fold = fold
            self._take_mode(fold.experiment.rollout)
            self._dirty = True

    def snapshot(self) -> Snapshot:
        """The fold as a snapshot to be stored."""
        with self.folding:
            state, seq = self.fold.save(), self.fold.seq
        return Snapshot(seq, sealed(self.stored.number, seq, state), state)

    def worth_keeping(self) -> bytes | None:
        """The items as a whole, if they have changed so often that they should be stored; otherwise None."""
        return None

    def ages(self, now: float, behind: bool) -> Ages:
        """The ages of view, snapshot and windows; ``behind`` says that some events are not folded yet."""
        stale = behind or self._dirty
        oldest = next(iter(self.open.values()), now)
        return Ages(
            view=max(0.0, now - self._refreshed) if stale else 0.0,
            snapshot=max(0.0, now - self.kept[1]) if behind or self.fold.seq > self.kept[0] else 0.0,
            overdue=max(0.0, now - oldest - self.spec.window_seconds),
        )

    def over(self, now: float, most: int) -> list[int]:
        """Events that served the open slates whose windows have closed, at most ``most`` of them."""
        closed: list[int] = []
        for served, seen in self.open.items():  # in the order of serving
            if now - seen < self.spec.window_seconds or len(closed) == most:
                break
            closed.append(served)
        return closed
