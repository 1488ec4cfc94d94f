"""The rankers of this process by name, synchronised with the store: created, opened, deleted, here or by other servers."""

from __future__ import annotations

import threading

import msgspec
import numpy as np
import structlog

from recurrank.catalogue import Catalogue
from recurrank.plugins import plainly
from recurrank.seeds import sequence
from recurrank.serving.fold import Fold, intact, new_fold, pack_catalogue, unpack_catalogue
from recurrank.serving.history import first_fold, load_fold
from recurrank.serving.hosted import HostedRanker
from recurrank.serving.hosted_requests import HostedRequestRanker
from recurrank.serving.hosted_stock import HostedStock
from recurrank.serving.request_fold import RequestFold
from recurrank.serving.restocking_fold import RestockingFold
from recurrank.serving.spec import LoggedSpec, RankerSpec
from recurrank.serving.store import Store
from recurrank.serving.store.records import StoredRanker

log = structlog.get_logger("recurrank.service")


class NotFound(ValueError):
    """No ranker has that name."""


class Conflict(ValueError):
    """The name or the id is already taken."""


class Unavailable(Exception):
    """One ranker cannot be used now; others can."""


class Registry:
    """Read by any thread without a lock; changed by one thread at a time.

    Args:
        store: where rankers are stored.
        seed: of the slates' random choices, by default from the system.

    Attributes:
        broken: rankers that cannot be opened or whose log cannot be folded, and why.
        unopened: numbers of the rankers that cannot be opened.
        unreadable: number of snapshots that could not be used.
        starting: number of rankers restored so far, and of all; None once all are.

    """

    def __init__(self, store: Store, seed: int | None = None) -> None:
        self._store = store
        self._seeds = sequence(seed, "views")
        self._by_name: dict[str, HostedRanker] = {}
        self._by_number: dict[int, HostedRanker] = {}
        self._changing = threading.RLock()  # held while rankers are created, opened or deleted, so that none is opened twice
        self.broken: dict[str, str] = {}
        self.unopened: set[int] = set()
        self.unreadable = 0
        self.starting: tuple[int, int] | None = (0, 0)

    # ------------------------------------------------------------------------------------------------ looking up

    def find(self, name: str) -> HostedRanker | None:
        """The ranker of that name, if there is one."""
        return self._by_name.get(name)

    def numbered(self, number: int) -> HostedRanker | None:
        """The ranker of that number, if there is one."""
        return self._by_number.get(number)

    def get(self, name: str) -> HostedRanker:
        """The ranker of that name; NotFound if there is none, Unavailable if it cannot be used yet, or any more."""
        hosted = self._by_name.get(name)
        if hosted is None:
            self.check_started()
            if name in self.broken:
                raise Unavailable(f"ranker {name!r}: {self.broken[name]}; see `recurrank log verify`")
            raise NotFound(f"name: unknown ranker {name!r}")
        return hosted

    def sound(self, name: str) -> HostedRanker:
        """:meth:`get`, and Unavailable for a ranker whose log was altered."""
        hosted = self.get(name)
        if name in self.broken:
            raise Unavailable(
                f"ranker {name!r}: its log cannot be folded ({self.broken[name]}); if `recurrank log verify` finds it altered, "
                "restore a backup, otherwise update recurrank; or delete the ranker and make it anew"
            )
        return hosted

    def check_started(self) -> None:
        """Raise Unavailable, with the progress, until all rankers are restored."""
        if (progress := self.starting) is not None:
            raise Unavailable(f"starting: {progress[0]:,} of {progress[1]:,} rankers are restored; try again")

    def names(self) -> list[str]:
        """The names of all rankers, sorted."""
        return sorted(self._by_name)

    def all(self) -> list[HostedRanker]:
        """All rankers that can be used now."""
        return list(self._by_name.values())

    def next_seed(self) -> np.random.SeedSequence:
        """The seed of another view."""
        return self._seeds.spawn(1)[0]

    # ------------------------------------------------------------------------------------------------ changing

    def create(self, name: str, asked: RankerSpec, catalogue: Catalogue) -> bool:
        """Create a ranker; True if it is new, False if the same one existed. Conflict if another ranker has the name."""
        spec = LoggedSpec.of(asked)
        if spec.takes_requests and len(catalogue) and catalogue.ids is None:  # items that come and go need names
            catalogue = Catalogue(catalogue.features, [str(item) for item in range(len(catalogue))])
        spec.check_size(catalogue.dim)
        fold = new_fold(spec, catalogue)  # refuses invalid settings
        with plainly():  # find errors in a user's own code before anything is written
            if not spec.takes_requests:
                fold.ranker.copy(self.next_seed()).rank()
            fold.prepare()
        digests = spec.digests(catalogue)
        with self._changing:
            existing = next((stored for stored in self._store.rankers() if stored.name == name), None)
            if existing is None:
                created = self._store.create(name, spec.pack(), digests[0], spec.positions, pack_catalogue(catalogue))
                if created is not None:
                    self._add(self._hosted(created, spec, catalogue, fold))
                    return True
            if existing is None or existing.digest not in digests:
                raise Conflict(f"name: there is another ranker called {name!r}; delete it first, or choose another name")
            if existing.number not in self._by_number:  # created by another server, or by a request that failed at its end
                self._open(existing)
            return False

    def delete(self, name: str) -> None:
        """Delete a ranker; its events stay in the log as long as others do. NotFound if there is none."""
        with self._changing:
            existed = self._store.delete(name)
            self._remove(name)
            if not existed:
                raise NotFound(f"name: unknown ranker {name!r}")

    def synchronise(self, stopping: threading.Event) -> None:
        """Open rankers that are new in the store, and forget those that were deleted there."""
        stored = self._store.rankers()
        missing = [ranker for ranker in stored if ranker.number not in self._by_number and ranker.number not in self.unopened]
        for done, ranker in enumerate(missing):
            if stopping.is_set():
                return
            if self.starting is not None:
                self.starting = (len(stored) - len(missing) + done, len(stored))
            with self._changing:
                if ranker.number not in self._by_number:
                    self._try_to_open(ranker)
        with self._changing:
            names = {ranker.name for ranker in self._store.rankers()}
            for name in {*self._by_name, *self.broken} - names:
                self._remove(name)
        self.starting = None

    def reload(self, hosted: HostedRanker) -> None:
        """Load the newest usable snapshot of a ranker."""
        fold, hosted.tried = self._restored(hosted.stored, hosted.spec, hosted.catalogue)
        hosted.replace(fold)

    def breaks(self, hosted: HostedRanker, why: str) -> None:
        """Record that a ranker's log cannot be folded: its state is frozen, other rankers go on learning."""
        name = hosted.stored.name
        if self._by_number.get(hosted.stored.number) is not hosted:
            return  # deleted meanwhile; another ranker may have its name by now
        if name not in self.broken:
            log.error("a log cannot be folded", ranker=name, why=why)
        self.broken[name] = why

    def _try_to_open(self, stored: StoredRanker) -> None:
        """Open a ranker; if that fails, record it and go on with the others."""
        try:
            self._open(stored)
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            if stored.number not in {ranker.number for ranker in self._store.rankers()}:
                return  # deleted since it was listed; another ranker may have its name by now
            log.error("a ranker cannot be opened", ranker=stored.name, why=str(error))
            self.unopened.add(stored.number)
            self.broken[stored.name] = f"it cannot be opened ({error})"

    def _open(self, stored: StoredRanker) -> None:
        spec = LoggedSpec.unpack(stored.config)
        catalogue = unpack_catalogue(self._store.catalogue(stored.number))
        fold, tried = self._restored(stored, spec, catalogue)
        hosted = self._hosted(stored, spec, catalogue, fold)
        hosted.tried = tried
        self._add(hosted)

    def _hosted(self, stored: StoredRanker, spec: LoggedSpec, catalogue: Catalogue, fold: Fold) -> HostedRanker:
        view = fold.ranker.copy(self.next_seed())
        if isinstance(fold, RequestFold | RestockingFold):
            stocked = fold.stocked.after(self._store.changes(stored.number, fold.stocked.seq))
            kind = HostedRequestRanker if spec.takes_requests else HostedStock
            hosted: HostedRanker = kind(stored, spec, catalogue, fold, view, stocked)
        else:
            hosted = HostedRanker(stored, spec, catalogue, fold, view)
        hosted.take_changes(self._store.changes(stored.number, hosted.mode.seq))
        return hosted

    def _restored(self, stored: StoredRanker, spec: LoggedSpec, catalogue: Catalogue) -> tuple[Fold, int]:
        """The fold from the newest usable snapshot, and the seq of the newest of all: the log covers what was skipped."""
        newest = 0
        for snapshot in self._store.snapshots(stored.number):
            newest = max(newest, snapshot.seq)
            try:
                if not intact(stored.number, *snapshot):
                    raise ValueError("snapshot: torn or altered")
                return load_fold(self._store, stored, spec, catalogue, snapshot), newest
            except ValueError as error:
                self.unreadable += 1
                log.warning("a snapshot cannot be used", ranker=stored.name, after=snapshot.seq, why=str(error))
        if newest:
            log.warning("no snapshot can be used: all events are folded again", ranker=stored.name)
        return first_fold(self._store, stored, spec, catalogue), newest

    def _add(self, hosted: HostedRanker) -> None:
        self._by_name[hosted.stored.name] = hosted
        self._by_number[hosted.stored.number] = hosted

    def _remove(self, name: str) -> None:
        self.broken.pop(name, None)
        hosted = self._by_name.pop(name, None)
        if hosted is not None:
            self._by_number.pop(hosted.stored.number, None)
