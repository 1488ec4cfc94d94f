"""The fold of a ranker of requests: its slates hold the features they showed, and its items come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import loop
from recurrank.rankers.dispatch import Calls
from recurrank.rankers.engines.request_calls import take
from recurrank.rankers.engines.requests import Shown
from recurrank.rankers.request_ranker import RequestRanker
from recurrank.rankers.saving import load
from recurrank.serving.changes import StockAt, Stocked, carried_counts, left
from recurrank.serving.events import CHANGES, Event, Kind, ShownRequest, clicks_fit, screen_bits, unpack_request
from recurrank.serving.experiment import RolloutSettings
from recurrank.serving.fold import SLATE_KINDS, Fold, strange
from recurrank.serving.rounds import COUNT_ONLY, DROPPED, DUE, SERVED
from recurrank.serving.tally import Tally, tally_round

FORMAT = 100
"""Format of saved folds of this kind."""


class _Batch(NamedTuple):
    """Slates for compiled code; only those that are learned from have rows of features."""

    kinds: Any  # (n,)
    ends: Ints  # (n,) where each one's rows end
    features: Floats  # (rows, d)
    free: Bools  # (rows,)
    segments: Ints  # (n,)
    changes: Floats  # (n,) of the account of exploration
    bits: Any  # (n, bytes) a bit per position clicked, then one per position seen


class RequestFold(Fold):
    """A :class:`~recurrank.serving.fold.Fold` of requests.

    Attributes:
        stocked: the items and rules.
        candidates: total number of candidates over all slates served.

    """

    ranker: RequestRanker

    def __init__(self, ranker: RequestRanker, seq: int = 0, stocked: Stocked | None = None) -> None:
        super().__init__(ranker, seq)
        self.stocked = stocked or Stocked(ranker.catalogue)
        self.candidates = 0
        self._wide = ranker.width  # numbers in a row of features

    def _fold(self, events: Sequence[Event]) -> None:
        waiting: list[tuple[Event, ShownRequest]] = []
        for event in events:
            if event.seq <= self.seq:
                continue
            if event.kind in SLATE_KINDS:
                try:
                    shown = self._checked(event)
                except ValueError:
                    self._learn(waiting)
                    raise
                if shown.segment not in self.ranker.segments:
                    self._learn(waiting)
                    self.ranker.index_of(shown.segment)
                waiting.append((event, shown))
                continue
            self._learn(waiting)
            if event.kind == Kind.ROLLOUT:
                self.ranker.resume()
            if event.kind in CHANGES:
                self._change(event)
            self.seq = event.seq
        self._learn(waiting)

    def prepare(self) -> None:
        self.ranker.prepare()
        self._run(self._batch([]), [])

    def _checked(self, event: Event) -> ShownRequest:
        try:
            shown = unpack_request(event.payload)
        except (ValueError, TypeError) as error:
            raise strange(event) from error
        rows = len(shown.features) * (2 if shown.single else 1)
        right = rows == 8 * len(shown.names) * self._wide and 0 < len(shown.names) <= self.ranker.positions
        inside = all(0 <= k < len(shown.names) for k in shown.pinned)
        if not (right and inside and clicks_fit(event.clicks, self.ranker.positions)):
            raise strange(event)
        return shown

    def _change(self, event: Event) -> None:
        before = self.stocked.stock
        self.stocked = self.stocked.after([event])
        stock = self.stocked.stock
        if stock is before:
            return
        self.ranker.restock(stock)
        gone, size = left(before, stock), len(stock.features)
        self.shown, self.clicked = (carried_counts(counts, gone, size) for counts in (self.shown, self.clicked))

    def _learn(self, waiting: list[tuple[Event, ShownRequest]]) -> None:
        """Fold the waiting slates, and empty the list."""
        if waiting:
            self._run(self._batch(waiting), [event.seq for event, _ in waiting])
            for event, shown in waiting:
                if event.kind == Kind.LEARNED:
                    self._count(event, shown)
                elif event.kind == Kind.SERVED:
                    self.candidates += shown.candidates
            waiting.clear()

    def _count(self, event: Event, shown: ShownRequest) -> None:
        index, width = self.stocked.stock.index, (self.ranker.positions + 7) // 8
        screen = screen_bits(event.clicks, self.ranker.positions)
        for k, name in enumerate(shown.names):
            item = index.get(name)
            if item is not None:
                click = screen[k >> 3] >> (k & 7) & 1
                self.shown[item] += click | (screen[width + (k >> 3)] >> (k & 7) & 1)
                self.clicked[item] += click

    def _batch(self, waiting: list[tuple[Event, ShownRequest]]) -> _Batch:
        count, positions = len(waiting), self.ranker.positions
        learned = [shown if event.kind == Kind.LEARNED else None for event, shown in waiting]
        sizes = np.fromiter((0 if shown is None else len(shown.names) for shown in learned), np.int64, count)
        ends = np.cumsum(sizes)
        rows = b"".join([shown.rows() for shown in learned if shown is not None])
        features = np.frombuffer(rows, "<f8").astype(np.float64).reshape(-1, self._wide)
        free = np.ones(len(features), np.bool_)
        for end, shown in zip(ends.tolist(), learned, strict=True):
            if shown is not None and shown.pinned:
                free[[end - len(shown.names) + k for k in shown.pinned]] = False
        return _Batch(
            np.fromiter((self._kind(event) for event, _ in waiting), np.int8, count),
            ends,
            features,
            free,
            np.fromiter((self.ranker.index_of(shown.segment) for _, shown in waiting), np.int64, count),
            np.fromiter((shown.change for _, shown in waiting), np.float64, count),
            np.frombuffer(b"".join([screen_bits(event.clicks, positions) for event, _ in waiting]), np.uint8).reshape(
                -1, 2 * ((positions + 7) // 8)
            ),
        )

    def _run(self, batch: _Batch, seqs: list[int]) -> None:
        done, why = 0, np.zeros(1, np.int64)

        def fold(calls: Calls) -> tuple[int, bool]:
            nonlocal done
            served, state = int(self._counts[0]), calls.state
            done = fold_requests(
                state, batch, calls.round.clicks, state.work.shown.examined, calls.round.slate.items, done, self._counts,
                self.at, self.tally, why,
            )  # fmt: skip
            if done:
                self.seq = seqs[done - 1]
            return int(self._counts[0]) - served, bool(why[0] == DUE)

        while True:
            self.ranker.advance(fold)
            if done == len(seqs):
                return

    def save(self) -> bytes:
        arrays = [part.astype("<i8").tobytes() for part in (self.shown, self.clicked, self.at)]
        more = [self.stocked.seq, self.candidates, *self.experiment.pack()]
        parts = [FORMAT, self.seq, self.counts, *arrays, self.tally.pack(), self.ranker.save(), *more]
        return msgspec.msgpack.encode(parts, order="deterministic")

    @classmethod
    def restore(cls, state: bytes, stock_at: StockAt, rollout: RolloutSettings | None = None) -> RequestFold:
        """The fold that was saved; ``stock_at`` returns the items of that time. ValueError for other bytes."""
        try:
            version, seq, counts, shown, clicked, at, tally, saved, stock, candidates, *compared = msgspec.msgpack.decode(state)
            if version != FORMAT:
                raise ValueError(f"snapshot: of format {version}, not {FORMAT}")
            stocked = stock_at(stock)
            ranker = load(saved, stocked.stock)
            assert isinstance(ranker, RequestRanker)
            fold = cls(ranker, seq, stocked)
            fold._fill(counts, shown, clicked, at, tally)
            fold.candidates = candidates
            fold.begin(rollout, compared)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise ValueError(f"snapshot: not one ({error})") from error
        return fold


@loop
def fold_requests(
    state: Any,
    batch: _Batch,
    clicks: Bools,
    examined: Floats,
    none: Ints,
    start: int,
    counts: Ints,
    at: Ints,
    tally: Tally,
    why: Ints,
) -> int:
    """Fold slates from ``start`` on, until one makes a decision due; returns the number of slates done."""
    why[0] = 0
    for i in range(start, len(batch.kinds)):
        kind, reaches = batch.kinds[i] % COUNT_ONLY, batch.kinds[i] < COUNT_ONLY
        if kind == SERVED:
            state.account[0] += batch.changes[i]
            counts[0] += 1
        elif kind == DROPPED:
            counts[2] += 1
        else:
            begin, end = batch.ends[i - 1] if i > 0 else 0, batch.ends[i]
            size, seen, width = end - begin, 0, batch.bits.shape[1] // 2
            until = size
            for k in range(size):
                click = (batch.bits[i, k >> 3] >> (k & 7)) & 1
                if k < until and click == 0 and (batch.bits[i, width + (k >> 3)] >> (k & 7)) & 1 == 0:
                    until = k  # positions below were not seen
                clicks[k] = click == 1
                seen += click
                at[k] += click
            tally_round(tally, counts[1], seen, none)
            counts[1] += 1
            counts[3] += seen
            shown = Shown(batch.features[begin:end], batch.free[begin:end], batch.segments[i], examined)
            if reaches and until > 0 and take(state, shown, clicks[:until]):
                why[0] = DUE
                return i + 1
    return len(batch.kinds)
