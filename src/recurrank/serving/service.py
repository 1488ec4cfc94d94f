"""The service: rankers by name, slates by id, feedback as it arrives; independent of HTTP.

Four parts, each with its own state:

- A *request* ranks with a hosted ranker's view (``hosted.py``) and passes its operations to the committer (``commit.py``),
  which answers when they are on disk. It changes nothing else: a request that could not be written has no effect.
- The *registry* (``registry.py``) holds the rankers.
- The *learner* (``learner.py``), a thread, folds the log into the rankers.
- The *store* decides in its transactions what becomes of each slate (``store/base.py``).
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
"""Most seconds that closing takes. The next start folds what is not folded by then."""


CHANGED = 8
"""Most times that a slate is drawn again because items changed before it was written."""


STOCK = 256 << 20
"""Most bytes of the features of all items of a ranker whose items change."""


class ItemsChanged(NamedTuple):
    """The last event that changed the items, their number, and how many were added, changed and removed."""

    version: int
    items: int
    added: int
    changed: int
    removed: int


class _Drawing(NamedTuple):
    """The last event known to the view that drew a slate, and the shown ids, if known; or the error of a refused request.

    ``changed`` is the last change of items, rules or mode before that.
    """

    version: int
    names: list[str] | None = None
    refused: ValueError | None = None
    changed: int = 0


class Ranked(NamedTuple):
    """A slate to show: its id, the items' ids in order, and the last event that the ranking takes into account.

    ``propensity`` and ``joint`` are the probabilities of each item at its position and of the whole slate, if they were asked
    for and the algorithm knows them. ``arm`` is whose order it is, in an experiment, and ``would_show`` what the ranker would
    have shown, in shadow mode.
    """

    slate: str
    items: list[str]
    version: int
    propensity: list[float | None] | None = None
    joint: float | None = None
    arm: Arm = ""
    would_show: list[str] | None = None


class Service:
    """Rankers over a store. Thread-safe; ``close`` writes waiting operations.

    Args:
        store: the store with the log.
        clock: the source of time, by default the machine's.
        seed: of the slates' random choices, by default from the system.
        settings: how often the learner acts.
        start: whether the learner runs in a thread; otherwise call :meth:`step`.
        wait: whether to wait until all rankers are restored; otherwise they become available one by one.
        retention: removes old events; by default all events stay.

    Attributes:
        registry: the rankers.
        learner: folds the log.
        committer: writes operations.
        reported: number of reports to this process, by status.

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
        """Create a ranker; True if it is new, False if the same one existed. Conflict if another ranker has the name."""
        return self.registry.create(name, spec, catalogue)

    def delete(self, name: str) -> None:
        """Delete a ranker; its events stay in the log."""
        self.registry.delete(name)

    def hosted(self, name: str) -> HostedRanker:
        """The ranker of that name; NotFound if there is none."""
        return self.registry.get(name)

    def names(self) -> list[str]:
        """The names of all rankers, sorted."""
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
        """Add, change and remove items, durably. Once this returns, no server serves a slate with a removed item.

        Changes that are already done have no effect. Raises ValueError, and changes nothing, if a change is impossible.
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
            view = hosted.changed_to(stock)  # before anything is written: it refuses invalid items, and is slow
            if seq := self._change(hosted, Kind.ITEMS, msgspec.msgpack.encode(changes), stocked.seq):
                hosted.take(Stocked(stock, stocked.rules, seq, seq), view)
                return ItemsChanged(seq, *done)
            self._catch_up(hosted)
        raise _restless(hosted.stored.name)

    def set_rules(self, name: str, rules: SlateRules) -> int:
        """Replace the rules of all slates of a ranker of requests; returns the event. They hold once this returns."""
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
        """Set a ranker's mode to what ``change`` returns for the current one, durably.

        Once this returns, every server draws slates in this mode. A change releases a brake that has stopped the ranker. If the
        mode stays the same nothing happens, and a stop remains, unless ``release`` is set.
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
        """Release the brake: a stopped ranker goes on, with a new comparison. No effect on a ranker that was not stopped."""
        return self.set_rollout(name, lambda known: known.settings, release=True)

    def stocked(self, name: str) -> Stocked:
        """The current items and rules of a ranker. Conflict for one whose items cannot change."""
        return self._newest(self._with_stock(name))

    def rules(self, name: str) -> Stocked:
        """:meth:`stocked`; Conflict for a ranker that takes no rules."""
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
        """The current items and rules, including changes by other servers."""
        if self.store.shared:
            self._catch_up(hosted)
        return hosted.stocked

    def _catch_up(self, hosted: HostedRanker) -> None:
        """Apply changes that are in the log, but not here yet."""
        hosted.take_changes(self.store.changes(hosted.stored.number, hosted.changed))

    def _change(self, hosted: HostedRanker, kind: Kind, payload: bytes, after: int) -> int:
        """Write a change; returns its event, 0 if another change came first."""
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
        """Run one step of the learner, if it has no thread; returns the number of events folded."""
        return self.learner.step()

    def status(self, name: str) -> dict[str, Any]:
        """The status of a ranker, for people and dashboards."""
        return status_of(self.hosted(name))

    def experiment(self, name: str) -> dict[str, Any]:
        """A ranker's mode, and its comparison with the baseline."""
        return experiment_of(self.hosted(name))

    def lag(self) -> int:
        """Number of events written but not folded yet, as far as this process knows without asking the store."""
        return max(0, self.store.noted - self.learner.seq)

    def trouble(self) -> str | None:
        """Why this server can neither rank nor take feedback now; None if it can."""
        return self.committer.failed or (self.learner.failed if self.learner.store_failed else None)

    def close(self) -> None:
        """Write waiting operations, take snapshots, close the store. Idempotent.

        Returns within a few seconds, whatever the store does. The next start folds events that are not folded yet.
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
            # The slate may exist already, from when the request was valid: this operation, always stale, only finds it.
            refused = _Drawing(hosted.fold.seq, refused=error, changed=changed)
            return hosted, Serve(called, hosted.stored.number, b"", -1), refused
        return hosted, Serve(called, hosted.stored.number, payload, stock), _Drawing(version, names)

    def _renew_items(self, hosted: HostedRanker, drawn: _Drawing) -> None:
        """Catch up: another server has changed the items, rules or mode, or this one a moment ago."""
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
        names = drawn.names if payload is operation.payload else None  # otherwise the slate existed already
        if names is None:
            names = hosted.names(payload)
        trial = trial_of(payload)
        return Ranked(operation.slate, names, drawn.version, *chances, trial.arm, trial.would_show)

    def _counted(self, statuses: list[str]) -> list[str]:
        self.reported.update(statuses)
        return statuses


def _restless(name: str) -> Unavailable:
    return Unavailable(f"ranker {name!r}: its items change all the time; try again")
