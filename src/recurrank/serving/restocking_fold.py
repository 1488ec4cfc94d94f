"""The fold of a ranker of a whole catalogue whose items come and go.

A slate holds the indices of its items, and a free index is given to another item. So once items have changed, a slate also
holds their ids (``trial.py``). If its answer comes after another change, the fold looks up its items by id. It learns, as far
as the algorithm can (``Restocking.carried``), from the positions above the first item that has been removed or has got other
features since; all clicks are counted.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec
import numpy as np

from recurrank._arrays import Ints
from recurrank.rankers.restocking import Restocking
from recurrank.rankers.saving import load
from recurrank.serving.changes import FirstStock, StockAt, Stocked, carried_counts, left
from recurrank.serving.events import CHANGES, Event, Kind, names_in
from recurrank.serving.experiment import RolloutSettings
from recurrank.serving.fold import Fold
from recurrank.serving.rounds import GONE
from recurrank.serving.spec import STREAMS

FORMAT = 200
"""Format of saved folds whose items have changed; others are saved like any :class:`Fold`."""


class RestockingFold(Fold):
    """A :class:`~recurrank.serving.fold.Fold` of items that come and go.

    Attributes:
        stocked: the items.
        since: by index, the event that gave the item its features; 0 for the items that the ranker was created with.

    """

    ranker: Restocking

    def __init__(
        self, ranker: Restocking, seq: int = 0, stocked: Stocked | None = None, first: FirstStock | None = None
    ) -> None:
        super().__init__(ranker, seq)
        self._first = first or FirstStock(ranker.catalogue)  # the items of slates without ids
        self.stocked = stocked or Stocked(self._first)
        self.since: Ints = np.zeros(len(self.shown), np.int64)

    def _fold(self, events: Sequence[Event]) -> None:
        start = 0
        for i, event in enumerate(events):
            if event.kind in CHANGES and event.seq > self.seq:
                super()._fold(events[start:i])
                self._change(event)
                self.seq, start = event.seq, i + 1
        super()._fold(events[start:])

    def _change(self, event: Event) -> None:
        before, stocked = self.stocked.stock, self.stocked.after([event])
        stock = stocked.stock
        if stock is before:
            self.stocked = stocked
            return
        gone, size = left(before, stock), len(stock.features)
        same = np.setdiff1d(self.ranker.unchanged(stock), gone)
        self.ranker.restock(stock)
        self.stocked = stocked
        self.shown, self.clicked = (carried_counts(counts, gone, size) for counts in (self.shown, self.clicked))
        since = np.full(size, event.seq)
        since[same] = self.since[same]
        self.since = since

    def _words(self, event: Event, size: int) -> bytes:
        words = super()._words(event, size)
        if event.kind == Kind.SERVED or event.served > self.stocked.items:
            return words
        positions, index = self.ranker.positions, self.stocked.stock.index
        try:
            names = names_in(event.payload, positions, self._first.ids)
        except (IndexError, ValueError):
            return b"\xff" * size  # impossible items: the fold will refuse them
        indices = [index.get(name, -1) for name in names]
        items = [i if i >= 0 and self.since[i] < event.served else GONE for i in indices]
        marks = self.ranker.carried(np.frombuffer(words, "<i8", offset=4 * positions).reshape(-1, 2))
        return struct.pack(f"<{positions}i", *items) + marks.astype("<i8").tobytes()

    def save(self) -> bytes:
        if not self.stocked.items:
            return super().save()
        arrays = [part.astype("<i8").tobytes() for part in (self.shown, self.clicked, self.at)]
        more = [self.stocked.seq, self.since.astype("<i8").tobytes(), *self.experiment.pack()]
        parts = [FORMAT, self.seq, self.counts, *arrays, self.tally.pack(), self.ranker.save(), *more]
        return msgspec.msgpack.encode(parts, order="deterministic")

    @classmethod
    def restore(
        cls, state: bytes, first: FirstStock, stock_at: StockAt, streams: int = STREAMS, rollout: RolloutSettings | None = None
    ) -> RestockingFold:
        """The fold that was saved; ``stock_at`` returns the items of that time. ValueError for other bytes."""
        try:
            version, seq, counts, shown, clicked, at, tally, saved, *more = msgspec.msgpack.decode(state)
            if version != FORMAT:  # its items never changed
                fold = cls.load(state, first.origin, streams, rollout)
                assert isinstance(fold, RestockingFold)
                # only its mode can have changed, and that event may have left the log
                fold.stocked = fold.stocked._replace(seq=fold.experiment.rollout.seq)
                return fold
            stock, since, *compared = more
            stocked = stock_at(stock)
            ranker = load(saved, stocked.stock)
            assert isinstance(ranker, Restocking)
            fold = cls(ranker, seq, stocked, first)
            ranker.follow(streams)
            fold._fill(counts, shown, clicked, at, tally)
            fold.since = np.frombuffer(since, "<i8").astype(np.int64)
            fold.begin(rollout, compared)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise ValueError(f"snapshot: not one ({error})") from error
        return fold
