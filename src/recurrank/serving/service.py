"""The service: rankers by name, slates by id, feedback as it comes. No HTTP in here.

Four parts, each with its own state:

- A *request* ranks with a hosted ranker's view (``hosted.py``) and hands what it wants written to the committer
  (``commit.py``), which answers when it is on disk. It changes nothing else: one that could not be written has not happened.
- The *registry* (``registry.py``) has the rankers.
- The *learner* (``learner.py``), a thread, reads the log and folds it into them.
- The *store* decides in its transactions what becomes of a slate (``store/base.py``).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import structlog

from recurrank.catalogue import Catalogue
from recurrank.rankers.request import distinct
from recurrank.serving.asked import Asked
from recurrank.serving.changes import SlateRules, Stocked, Wanted, changed, needed
from recurrank.serving.commit import Committer
from recurrank.serving.comparison import experiment_of
from recurrank.serving.events import Event, Kind, unpack_chances
from recurrank.serving.experiment import Rollout, RolloutSettings, turned
from recurrank.serving.hosted import HostedRanker, Settings
from recurrank.serving.hosted_requests import HostedRequestRanker
from recurrank.serving.hosted_stock import HostedStock
from recurrank.serving.learner import Clock, Learner
from recurrank.serving.registry import Conflict, NotFound, Registry, Unavailable
from recurrank.serving.retention import Retention
from recurrank.serving.spec import RankerSpec
from recurrank.serving.status import status_of
from recurrank.serving.store import Store, StoreError
from recurrank.serving.store.records import Change, Report, Serve
from recurrank.serving.trial import Arm, trial_of
from recurrank.slate import new_id

__all__ = ["Conflict", "NotFound", "Ranked", "Service", "Settings", "Unavailable"]

log = structlog.get_logger("recurrank.service")

CLOSE = 2.5
"""Seconds that closing may take. What is not folded by then is folded at the next start: the log has it."""


CHANGED = 8
"""How often a slate is drawn anew because items changed before it was written."""


STOCK = 256 << 20
"""Bytes of the features of all items of a ranker of requests."""


class ItemsChanged(NamedTuple):
    """The last event that changed the items, how many there are, and how many were added, changed and removed."""

    version: int
    items: int
    added: int
    changed: int
    removed: int


class _Drawing(NamedTuple):
    """The event up to which a slate knows the log, and what it shows, if that is known; or why there is none.

    ``changed`` is the last change of items, rules or mode before that.
    """

    version: int
    names: list[str] | None = None
    refused: ValueError | None = None
    changed: int = 0


class Ranked(NamedTuple):
    """A slate to show: its id, the items' ids in order, and the event up to which the ranking knows the log.

    ``propensity`` and ``joint`` are how probable each item was at its position and the whole slate, where
    that was asked for and the algorithm can say. ``arm`` is whose order it is, in an experiment, and ``would_show`` what the
    ranker would have shown, in shadow mode.
    """

    slate: str
    items: list[str]
    version: int
    propensity: list[float | None] | None = None
    joint: float | None = None
    arm: Arm = ""
    would_show: list[str] | None = None


class Service:
    """Rankers over a store. Safe to call from several threads; ``close`` writes what is waiting.

    Args:
        store: where the log is kept.
        clock: where time comes from; the machine's by default.
        seed: of the slates' random choices; by default from the system.
        settings: how often things happen.
        start: whether the learner runs in a thread; otherwise call :meth:`step`.
        wait: whether to wait until all rankers are restored; otherwise they become available one after the other.
        retention: what removes old events; by default nothing is old.

    Attributes:
        registry: the rankers.
        learner: what learns.
        committer: what writes.
        reported: reports of this process, by status.

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
        retention: Retention | None = None,
    ) -> None:
        self.store, self.clock = store, clock or time
        self.retention = retention or Retention(store)
        self.reported: Counter[str] = Counter()
        self.committer = Committer(store)
        self.registry = Registry(store, seed)
        self.learner = Learner(store, self.registry, self.committer, self.clock, settings or Settings())
        self._closed = False
        if wait or not start:
            try:
                self.step()
            except BaseException:
                self.committer.stop()
                store.close()
                raise
        self._thread: threading.Thread | None = None
        if start:
            self._thread = threading.Thread(target=self.learner.run, name="recurrank-learn", daemon=True)
            self._thread.start()
            self.retention.start(lambda: self.learner.learning)

    def create(self, name: str, spec: RankerSpec, catalogue: Catalogue) -> bool:
        """A new ranker; True if it is new, False if the same one existed. Conflict when the name is another one's."""
        return self.registry.create(name, spec, catalogue)

    def delete(self, name: str) -> None:
        """Forget a ranker; its events stay in the log."""
        self.registry.delete(name)

    def hosted(self, name: str) -> HostedRanker:
        """The ranker of that name; NotFound when there is none."""
        return self.registry.get(name)

    def names(self) -> list[str]:
        """All rankers' names, in order."""
        return self.registry.names()

    def rank(self, name: str, slate: str | None = None, propensity: bool = False, asked: Asked | None = None) -> Ranked:
        """A slate to show, written before it is returned. The same ``slate`` id again gives the same slate."""
        for _ in range(CHANGED):
            hosted, operation, drawn = self._draw(name, slate, asked)
            [served] = self.committer.submit([operation])
            if not served.stale:
                return self._ranked(hosted, operation, drawn, served.payload, propensity)
            self._renew_items(hosted, drawn)
        raise _restless(name)

    async def rank_async(
        self, name: str, slate: str | None = None, propensity: bool = False, asked: Asked | None = None
    ) -> Ranked:
        """:meth:`rank` without blocking an event loop."""
        for _ in range(CHANGED):
            hosted, operation, drawn = self._draw(name, slate, asked)
            [served] = await self.committer.submit_async([operation])
            if not served.stale:
                return self._ranked(hosted, operation, drawn, served.payload, propensity)
            await asyncio.to_thread(self._renew_items, hosted, drawn)
        raise _restless(name)

    def change_items(self, name: str, wanted: Wanted) -> ItemsChanged:
        """Add, change and remove items, durably. Once this returns no server serves a slate with an item that was removed.

        What is so already is left as it is. ValueError, and no change at all, for what cannot be done.
        """
        hosted = self._with_stock(name)
        with hosted.changing:
            return self._change_items(hosted, wanted)

    def _change_items(self, hosted: HostedStock, wanted: Wanted) -> ItemsChanged:
        for _ in range(CHANGED):
            stocked = self._newest(hosted)
            changes = needed(stocked.stock, wanted)
            stock = changed(stocked.stock, changes)
            if stock.features.nbytes > STOCK:
                raise ValueError(f"items: {stock.features.nbytes >> 20:,} MB with these; at most {STOCK >> 20:,} are taken")
            done = len(stock), len(changes.add), len(changes.change), len(changes.remove)
            if changes.empty:
                return ItemsChanged(stocked.seq, *done)
            view = hosted.changed_to(stock)  # before anything is written: it says what will not do, and takes its time
            if seq := self._change(hosted, Kind.ITEMS, msgspec.msgpack.encode(changes), stocked.seq):
                hosted.take(Stocked(stock, stocked.rules, seq, seq), view)
                return ItemsChanged(seq, *done)
            self._catch_up(hosted)
        raise _restless(hosted.stored.name)

    def set_rules(self, name: str, rules: SlateRules) -> int:
        """Replace the rules of all slates of a ranker of requests; the event that did it. They hold once this returns."""
        hosted = self._of_requests(name)
        for position in rules.pin:
            if not 0 <= position < hosted.spec.positions:
                raise ValueError(f"pin: {position} is not a position; give one from 0 to {hosted.spec.positions - 1}")
        distinct("pin", list(rules.pin.values()))
        for _ in range(CHANGED):
            stocked = self._newest(hosted)
            if rules == stocked.rules:
                return stocked.seq
            if seq := self._change(hosted, Kind.RULES, msgspec.msgpack.encode(rules), stocked.seq):
                hosted.take(stocked._replace(rules=rules, seq=seq))
                return seq
            self._catch_up(hosted)
        raise _restless(name)

    def set_rollout(self, name: str, change: Callable[[Rollout], RolloutSettings], release: bool = False) -> Rollout:
        """Set a ranker's mode to what ``change`` makes of the present one, durably.

        Once this returns every server draws slates in this mode. A change releases a brake that has stopped the ranker; what is
        so already is left as it is, a stop included, unless it is to ``release`` that.
        """
        hosted = self.registry.sound(name)
        for _ in range(CHANGED):
            if self.store.shared:
                self._catch_up(hosted)
            rollout, after = hosted.mode, hosted.changed
            settings = change(rollout)
            if settings == rollout.settings and not (release and rollout.stopped is not None):
                return rollout
            if seq := self._change(hosted, Kind.ROLLOUT, turned(settings), after):
                hosted.take_changes([Event(seq, hosted.stored.number, int(Kind.ROLLOUT), 0, b"", turned(settings), 0.0)])
                return hosted.mode
            self._catch_up(hosted)
        raise _restless(name)

    def release(self, name: str) -> Rollout:
        """Let a ranker that the brake has stopped go on, with a new comparison. One that was not stopped stays as it is."""
        return self.set_rollout(name, lambda known: known.settings, release=True)

    def stocked(self, name: str) -> Stocked:
        """The items and rules of a ranker, as they are now. Conflict for one whose items stay as they are."""
        return self._newest(self._with_stock(name))

    def rules(self, name: str) -> Stocked:
        """The same; Conflict for a ranker that takes no rules."""
        return self._newest(self._of_requests(name))

    def _with_stock(self, name: str) -> HostedStock:
        hosted = self.registry.sound(name)
        if not isinstance(hosted, HostedStock):
            raise Conflict(f"name: the items of {name!r} stay as they are; its algorithm {hosted.spec.algorithm!r} needs that")
        return hosted

    def _of_requests(self, name: str) -> HostedRequestRanker:
        hosted = self.registry.sound(name)
        if not isinstance(hosted, HostedRequestRanker):
            raise Conflict(f"name: {name!r} takes no rules; its algorithm {hosted.spec.algorithm!r} is not one of requests")
        return hosted

    def _newest(self, hosted: HostedStock) -> Stocked:
        """The items and rules as they are now, whichever server changed them."""
        if self.store.shared:
            self._catch_up(hosted)
        return hosted.stocked

    def _catch_up(self, hosted: HostedRanker) -> None:
        """Take in changes that are in the log and not here yet."""
        hosted.take_changes(self.store.changes(hosted.stored.number, hosted.changed))

    def _change(self, hosted: HostedRanker, kind: Kind, payload: bytes, after: int) -> int:
        """The event of a change; 0 where another change came first."""
        [done] = self.committer.submit([Change(hosted.stored.number, kind, payload, after)])
        if done.gone:
            raise NotFound(f"name: unknown ranker {hosted.stored.name!r}")
        return int(done.seq)

    def feedback(self, reports: Sequence[Report]) -> list[str]:
        """The status of each report: learned, open, duplicate, late, unknown or invalid."""
        return self._counted(self.committer.submit(list(reports))) if reports else []

    async def feedback_async(self, reports: Sequence[Report]) -> list[str]:
        """:meth:`feedback` without blocking an event loop."""
        return self._counted(await self.committer.submit_async(list(reports))) if reports else []

    def step(self) -> int:
        """One step of the learner, where it has no thread; how many events were folded."""
        return self.learner.step()

    def status(self, name: str) -> dict[str, Any]:
        """What is known about a ranker, for people and dashboards."""
        return status_of(self.hosted(name))

    def experiment(self, name: str) -> dict[str, Any]:
        """A ranker's mode, and its comparison with the baseline."""
        return experiment_of(self.hosted(name))

    def lag(self) -> int:
        """How many events were written and not folded yet, as far as this process knows: it does not ask the store."""
        return max(0, self.store.noted - self.learner.seq)

    def trouble(self) -> str | None:
        """Why this server can neither rank nor take feedback now; None when it can."""
        return self.committer.failed or (self.learner.failed if self.learner.store_failed else None)

    def close(self) -> None:
        """Write what is waiting, keep snapshots of what was folded, close the store. Idempotent.

        It ends within a few seconds whatever the store does. Events that are not folded yet are folded at the next start.
        """
        if self._closed:
            return
        self._closed = True
        until = time.monotonic() + CLOSE
        self.learner.stopping.set()
        self.retention.stop()
        self.committer.stop(CLOSE / 2)
        if self._thread is not None:
            self._thread.join(max(0.1, until - time.monotonic()))
        try:
            if self.learner.learning and not (self._thread is not None and self._thread.is_alive()):
                self.learner.keep_all(until)
        except StoreError as error:
            log.warning("snapshots were not kept; the log makes up for them", why=str(error))
        finally:
            self.store.close()

    def _draw(self, name: str, slate: str | None, asked: Asked | None) -> tuple[HostedRanker, Serve, _Drawing]:
        hosted = self.registry.sound(name)
        called, changed = slate or new_id(), hosted.changed
        try:
            payload, version, stock, names = hosted.serve(asked, called)
        except ValueError as error:
            if slate is None and not self.store.shared:
                raise
            # It may be there already, drawn when the request was in order: served before everything, this finds it or nothing.
            refused = _Drawing(hosted.fold.seq, refused=error, changed=changed)
            return hosted, Serve(called, hosted.stored.number, b"", -1), refused
        return hosted, Serve(called, hosted.stored.number, payload, stock), _Drawing(version, names)

    def _renew_items(self, hosted: HostedRanker, drawn: _Drawing) -> None:
        """Another server has changed the items, rules or mode, or this one a moment ago."""
        if self.store.shared or drawn.refused is None:
            self._catch_up(hosted)
        if drawn.refused is not None and hosted.changed == drawn.changed:
            raise drawn.refused

    def _ranked(
        self, hosted: HostedRanker, operation: Serve, drawn: _Drawing, payload: bytes | None, propensity: bool
    ) -> Ranked:
        if payload is None:
            if self.registry.find(hosted.stored.name) is not hosted:
                raise NotFound(f"name: unknown ranker {hosted.stored.name!r}")
            raise Conflict(f"slate: {operation.slate!r} is a slate of another ranker; choose another id")
        chances = unpack_chances(payload, hosted.spec.positions)[:2] if propensity else (None, None)
        names = drawn.names if payload is operation.payload else None  # the slate may have been there already
        if names is None:
            names = hosted.names(payload)
        beside = trial_of(payload)
        return Ranked(operation.slate, names, drawn.version, *chances, beside.arm, beside.would_show)

    def _counted(self, statuses: list[str]) -> list[str]:
        self.reported.update(statuses)
        return statuses


def _restless(name: str) -> Unavailable:
    return Unavailable(f"ranker {name!r}: its items change all the time; try again")
