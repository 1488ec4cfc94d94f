"""A ranker's state as a fold of its log: the same events give the same bytes, wherever and whenever they are folded.

Slates are drawn by copies of the ranker (``Ranker.adopt``), so that the only randomness here is what the algorithm itself draws
from its own seed.

    state = snapshot  or  a new ranker
    state.apply(events of the log after it)
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from recurrank._arrays import Ints
from recurrank.catalogue import Catalogue
from recurrank.rankers import make
from recurrank.rankers.dispatch import Calls
from recurrank.rankers.ranker import Ranker
from recurrank.rankers.request_ranker import RequestRanker
from recurrank.rankers.restocking import Restocking
from recurrank.rankers.saving import load
from recurrank.rankers.stock import Stock
from recurrank.seeds import Given
from recurrank.serving import rounds
from recurrank.serving.events import Event, Kind, clicks_fit, screen_bits, slate_size
from recurrank.serving.experiment import Experiment, RolloutSettings
from recurrank.serving.spec import STREAMS, LoggedSpec, RankerSpec
from recurrank.serving.tally import Tally
from recurrank.serving.trial import bare, has_trial, trial_of

COUNTS = ("served", "learned", "dropped", "clicks")
SLATE_KINDS = (int(Kind.SERVED), int(Kind.LEARNED), int(Kind.DROPPED))
"""Kinds of events about a slate."""
_PART = 8 << 20
_FORMAT = 2
"""Format of saved folds. Snapshots of other formats are ignored, and the log is folded instead."""


class Fold:
    """A ranker and its counts after the event ``seq``.

    Attributes:
        ranker: the library's ranker.
        seq: the last event that was folded.
        shown: by item, the slates with it that were learned from.
        clicked: by item, its clicks in these slates.
        at: clicks by position.
        tally: clicks over time.
        experiment: the mode, and the comparison with a baseline.

    """

    def __init__(self, ranker: Ranker, seq: int = 0) -> None:
        self.ranker = ranker
        self.seq = seq
        self.shown: Ints = np.zeros(len(ranker.catalogue.features), np.int64)
        self.clicked: Ints = np.zeros(len(ranker.catalogue.features), np.int64)
        self.at: Ints = np.zeros(ranker.positions, np.int64)
        self.tally = Tally.empty(ranker.positions)
        self.experiment = Experiment(ranker.positions)
        self._counts: Ints = np.zeros(len(COUNTS), np.int64)

    @property
    def counts(self) -> dict[str, int]:
        """Number of slates served, learned and dropped, and of clicks."""
        return dict(zip(COUNTS, self._counts.tolist(), strict=True))

    def apply(self, events: Sequence[Event]) -> None:
        """Fold events of this ranker, in order. Events already applied are skipped: a log may be read twice.

        Raises ValueError for an event whose slate cannot be one of this ranker; those before it are folded.
        """
        after = self.seq
        try:
            self._fold(events)
        finally:
            self.experiment.apply([event for event in events if after < event.seq <= self.seq])

    def begin(self, rollout: RolloutSettings | None, compared: Sequence[Any] = ()) -> None:
        """Set the mode that the ranker was created with, and the comparison from a snapshot."""
        self.experiment = Experiment(self.ranker.positions, rollout)
        self.experiment.unpack(compared)

    def _fold(self, events: Sequence[Event]) -> None:
        events = [event for event in events if event.seq > self.seq]
        if not events:
            return
        slates = [event for event in events if event.kind in SLATE_KINDS]
        if slates:
            self._apply(slates)
        self.seq = events[-1].seq

    def prepare(self) -> None:
        """Compile the code for folding, without folding anything."""
        self.ranker.prepare()
        self._apply([])

    def _apply(self, slates: list[Event]) -> None:
        ranker, positions = self.ranker, self.ranker.positions
        sizes = np.fromiter((slate_size(event.payload, positions) for event in slates), np.int64, len(slates))
        width = (positions + 7) // 8
        wrong = sizes < 0
        wrong |= np.fromiter((not clicks_fit(event.clicks, positions) for event in slates), np.bool_, len(slates))
        if wrong.any():
            first = int(np.argmax(wrong))
            if first:
                self._apply(slates[:first])
            raise strange(slates[first])
        alone = [self._words(event, size) for event, size in zip(slates, sizes.tolist(), strict=True)]
        words = np.frombuffer(b"".join(alone), "<i4")
        screens = b"".join([screen_bits(event.clicks, positions) for event in slates])
        bits = np.frombuffer(screens, np.uint8).reshape(-1, 2 * width)
        kinds = np.fromiter((self._kind(event) for event in slates), np.int8, len(slates))
        if not ranker.compiled:
            bits = bits.astype(np.int64)  # numpy's 8-bit numbers would overflow
        ends, why = np.cumsum(sizes // 4), np.zeros(1, np.int64)
        done = 0

        def fold(calls: Calls) -> tuple[int, bool]:
            nonlocal done
            served = int(self._counts[0])
            done = calls.loop(rounds.fold)(
                calls.folding, calls.round, kinds, words, ends, bits, done,
                self._counts, self.shown, self.clicked, self.at, self.tally, why,
            )  # fmt: skip
            if done:
                self.seq = slates[done - 1].seq
            return int(self._counts[0]) - served, bool(why[0] == rounds.DUE)

        while True:
            ranker.advance(fold)
            if why[0] == rounds.STRANGE:
                raise strange(slates[done])
            if done == len(slates):
                return

    def _words(self, event: Event, size: int) -> bytes:
        """Items and marks of an event's slate, its first ``size`` bytes."""
        return bare(event.payload)[:size]

    def _kind(self, event: Event) -> int:
        """The event's kind for the loop: an order that others chose is only counted if the ranker cannot learn from it."""
        foreign = not self.ranker.learns_any_order and has_trial(event.payload) and trial_of(event.payload).foreign
        return event.kind + rounds.COUNT_ONLY if foreign else event.kind

    def save(self) -> bytes:
        """The fold as bytes, equal for equal states."""
        arrays = [part.astype("<i8").tobytes() for part in (self.shown, self.clicked, self.at)]
        parts = [_FORMAT, self.seq, self.counts, *arrays, self.tally.pack(), self.ranker.save(), *self.experiment.pack()]
        return msgspec.msgpack.encode(parts, order="deterministic")

    @classmethod
    def load(cls, state: bytes, catalogue: Catalogue, streams: int = STREAMS, rollout: RolloutSettings | None = None) -> Fold:
        """The saved fold of a ranker with these ``LoggedSpec.streams`` and ``rollout``; ValueError for other bytes."""
        try:
            version, seq, counts, shown, clicked, at, tally, ranker, *compared = msgspec.msgpack.decode(state)
            if version != _FORMAT:
                raise ValueError(f"snapshot: of format {version}, not {_FORMAT}")
            fold = cls(load(ranker, catalogue), seq)
            fold.ranker.follow(streams)
            fold._fill(counts, shown, clicked, at, tally)
            fold.begin(rollout, compared)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise ValueError(f"snapshot: not one ({error})") from error
        return fold

    def _fill(self, counts: dict[str, int], shown: bytes, clicked: bytes, at: bytes, tally: Sequence[bytes]) -> None:
        """Restore the saved counts."""
        self.tally = Tally.unpack(tally, self.ranker.positions)
        self._counts[:] = [counts[name] for name in COUNTS]
        self.shown, self.clicked, self.at = (np.frombuffer(part, "<i8").astype(np.int64) for part in (shown, clicked, at))


def strange(event: Event) -> ValueError:
    """The error for an event whose slate does not fit the ranker."""
    return ValueError(f"event {event.seq}: its slate does not belong to this ranker; the log was altered")


def new_fold(spec: RankerSpec, catalogue: Catalogue) -> Fold:
    """The fold of a new ranker."""
    from recurrank.serving.request_fold import RequestFold  # subclasses
    from recurrank.serving.restocking_fold import RestockingFold

    streams = spec.streams if isinstance(spec, LoggedSpec) else STREAMS
    ranker = make(
        spec.algorithm,
        features=catalogue,
        positions=spec.positions,
        rounds=spec.rounds,
        seed=spec.seed if streams == STREAMS else Given(spec.seed),
        **spec.options,
    )
    if isinstance(ranker, RequestRanker):
        fold: Fold = RequestFold(ranker)
    else:
        fold = RestockingFold(ranker) if isinstance(ranker, Restocking) else Fold(ranker)
    fold.begin(spec.rollout)
    return fold


def sealed(ranker: int, seq: int, state: bytes) -> str:
    """The digest of a snapshot, including its ranker and its seq."""
    whole = hashlib.sha256(f"{ranker}/{seq}/".encode())
    whole.update(state)
    return f"2:{whole.hexdigest()}"


def intact(ranker: int, seq: int, digest: str, state: bytes) -> bool:
    """Whether a snapshot matches its digest. Older versions digested only the state."""
    return isinstance(state, bytes) and digest in (sealed(ranker, seq, state), digest_of(state))


def digest_of(state: bytes) -> str:
    """The digest of a state, which detects torn or altered snapshots."""
    return hashlib.sha256(state).hexdigest()


def pack_catalogue(catalogue: Catalogue) -> list[bytes]:
    """Ids and features as bytes, in parts small enough for a database."""
    ids = json.dumps(catalogue.ids).encode()
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(catalogue.features), allow_pickle=False)
    whole = len(ids).to_bytes(8, "big") + ids + buffer.getvalue()
    return [whole[start : start + _PART] for start in range(0, len(whole), _PART)]


def unpack_catalogue(packed: bytes) -> Catalogue:
    """The catalogue that was packed."""
    length = int.from_bytes(packed[:8], "big")
    ids, features = json.loads(packed[8 : 8 + length]), np.load(io.BytesIO(packed[8 + length :]), allow_pickle=False)
    return Catalogue(features, ids) if len(features) else Stock.empty(features.shape[1])
