"""A ranker in this process whose items come and go, changed by PATCH here or on other servers."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from recurrank._arrays import Ints
from recurrank.catalogue import Catalogue
from recurrank.rankers.ranker import Ranker
from recurrank.rankers.request_ranker import RequestRanker
from recurrank.rankers.restocking import Restocking
from recurrank.rankers.stock import Stock
from recurrank.serving.asked import Asked
from recurrank.serving.assigning import Baseline, allowed
from recurrank.serving.chances import Chances
from recurrank.serving.changes import KEEP, Stocked
from recurrank.serving.events import Event, Kind
from recurrank.serving.fold import Fold
from recurrank.serving.hosted import Drawn, HostedRanker
from recurrank.serving.request_fold import RequestFold
from recurrank.serving.restocking_fold import RestockingFold
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store.records import StoredRanker
from recurrank.serving.trial import Trial, attach


class HostedStock(HostedRanker):
    """A :class:`~recurrank.serving.hosted.HostedRanker` whose items come and go.

    Attributes:
        stocked: the items and rules that slates are drawn with. They may be ahead of the fold's: an acknowledged change holds
            at once, and is folded later.
        changes: ITEMS events folded since the items were last stored as a whole.
        changing: lock held while items are changed in this process.

    """

    fold: RequestFold | RestockingFold
    _view: RequestRanker | Restocking

    def __init__(
        self, stored: StoredRanker, spec: LoggedSpec, catalogue: Catalogue, fold: Fold, view: Ranker, stocked: Stocked
    ) -> None:
        assert isinstance(fold, RequestFold | RestockingFold)
        assert isinstance(view, RequestRanker | Restocking)
        self.stocked = stocked
        self.changes, self.changing = 0, threading.Lock()
        self._replacing = threading.Lock()  # held while the view is replaced: with many items that takes a while
        if fold.stocked.items != stocked.items:
            view.restock(stocked.stock)
        super().__init__(stored, spec, catalogue, fold, view)

    @property
    def ids(self) -> Any:
        return self.fold.stocked.stock.ids

    @property
    def size(self) -> int:
        return len(self.stocked.stock)

    @property
    def changed(self) -> int:
        return self.stocked.seq

    def take_changes(self, events: Sequence[Event]) -> None:
        super().take_changes(events)  # first: a thread that reads ``changed`` and then the mode gets a mode at least as new
        self.take(self.stocked.after(events))

    def _whole(self) -> bool:
        """Whether slates from all items can be drawn ahead."""
        return True

    # ------------------------------------------------------------------------------------------------ slates

    def _allowed(self, asked: Asked, baseline: Sequence[str]) -> Baseline:
        return allowed(baseline, self.spec.positions, self.stocked.stock.index)

    def foreign(self, asked: Asked, names: Sequence[str]) -> Drawn:
        self._check_plain(asked)
        stock, shown = self.stocked.stock, list(names)
        try:
            items = [stock.index[name] for name in shown]
        except KeyError as error:
            raise ValueError(f"baseline: {error.args[0]!r} is not an item of this ranker") from error
        payload = struct.pack(f"<{len(items)}i", *items)
        return Drawn(payload if stock.origin else attach(payload, Trial(names=shown)), self._version, names=shown)

    def _packed(self, view: Ranker, items: Any, marks: Ints, used: Ints, chances: Chances) -> list[bytes]:
        packed, stock = super()._packed(view, items, marks, used, chances), view.catalogue
        if not isinstance(stock, Stock) or stock.origin is not None:
            return packed
        shown = ([str(stock.names[item]) for item in row] for row in items.tolist())
        return [attach(slate, Trial(names=names)) for slate, names in zip(packed, shown, strict=True)]

    def _alive(self, view: Ranker) -> Ints:
        if isinstance(view, Restocking) and view.restocked and self.spec.explore_uniform:
            return view.alive
        return self._first

    # ------------------------------------------------------------------------------------------------ the view

    def changed_to(self, stock: Stock) -> RequestRanker | Restocking:
        """:meth:`restocked` for a requested change; ValueError if features are too large."""
        self._view.check_scale(stock)
        return self.restocked(stock)

    def restocked(self, stock: Stock) -> RequestRanker | Restocking:
        """A copy of the view, restocked with these items."""
        with self._drawing:
            view = self._view.copy()
        view.restock(stock)
        return view

    def take(self, stocked: Stocked, view: RequestRanker | Restocking | None = None) -> None:
        """Draw with these items and rules from now on, unless newer ones are known; ``view`` has these items already."""
        with self._replacing:
            if stocked.seq <= self.stocked.seq:
                return
            if view is None and stocked.items != self.stocked.items:
                view = self.restocked(stocked.stock)
            with self._drawing:
                self.stocked, self._view, self._ahead = stocked, view or self._view, []

    def renew(self, seed: np.random.SeedSequence, now: float) -> None:
        began = time.thread_time()
        with self.folding:
            folded = self.fold.stocked
        self.take(folded)
        with self._replacing:
            with self.folding:
                retired: Any = self._retired
                view, version, folded = self.fold.ranker.copy(seed, into=retired), self.fold.seq, self.fold.stocked
            if folded.items != self.stocked.items:
                view.restock(self.stocked.stock)
            first = self._drawn(view, 1) if self._whole() else []
            with self._drawing:
                self._retired = self._view
                self._view, self._version, self._ahead = view, version, first
        self._dirty, self._refreshed, self._effort = False, now, time.thread_time() - began

    def worth_keeping(self) -> bytes | None:
        with self.folding:
            stocked = self.fold.stocked
        if self.changes < KEEP:
            return None
        self.changes = 0
        return stocked.pack()

    def apply(self, events: list[Event], now: float, stopping: Any) -> bool:
        self.changes += sum(event.kind == Kind.ITEMS for event in events)
        done = super().apply(events, now, stopping)
        self.take(self.fold.stocked)
        return done
