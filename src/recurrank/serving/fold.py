"""A ranker's state as a fold of its log: the same events give the same bytes, wherever and whenever they are folded.

Folding never ranks: slates come from copies (``Ranker.adopt``), so that nothing random happens here but what the algorithm
itself decides from its own seed.

    state = snapshot  or  a new ranker
    for event in log after it:  state.apply(event)
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import msgspec
import numpy as np

from recurrank._arrays import Ints
from recurrank.catalogue import Catalogue
from recurrank.rankers import make
from recurrank.rankers.ranker import Ranker
from recurrank.rankers.saving import load
from recurrank.serving.events import Event, Kind, unpack_clicks, unpack_slate

COUNTS = ("served", "learned", "dropped", "clicks")
_PART = 8 << 20


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What a ranker was asked to be. Times are in seconds."""

    algorithm: str
    positions: int
    rounds: int
    seed: int
    window_seconds: float
    unreported: str
    options: dict[str, Any]


class Fold:
    """A ranker, and what was counted about it, after the event ``seq``.

    Attributes:
        ranker: as the library has it.
        seq: the last event that is in it.
        counts: slates served, learned and dropped, and clicks.
        shown: how often each item was in a slate that was learned from.
        clicked: how often it was clicked then.
        at: clicks by position.

    """

    def __init__(self, ranker: Ranker, seq: int = 0) -> None:
        self.ranker = ranker
        self.seq = seq
        self.counts = dict.fromkeys(COUNTS, 0)
        self.shown: Ints = np.zeros(len(ranker.catalogue), np.int64)
        self.clicked: Ints = np.zeros(len(ranker.catalogue), np.int64)
        self.at: Ints = np.zeros(ranker.positions, np.int64)

    def apply(self, event: Event) -> None:
        """Take one event in. Events of the past are none: a log may be read twice."""
        if event.seq <= self.seq:
            return
        ranker = self.ranker
        if event.kind in (Kind.SERVED, Kind.LEARNED, Kind.DROPPED):
            slate = unpack_slate(event.payload, ranker.positions, ranker.identity)
            if event.kind == Kind.SERVED:
                ranker.adopt(slate)
                self.counts["served"] += 1
            elif event.kind == Kind.DROPPED:
                ranker.drop(slate)
                self.counts["dropped"] += 1
            else:
                clicks = unpack_clicks(event.clicks, ranker.positions)
                ranker.learn(slate, clicks)
                self.counts["learned"] += 1
                self.counts["clicks"] += int(np.count_nonzero(clicks))
                self.shown[slate.items] += 1
                self.clicked[slate.items] += clicks
                self.at += clicks
        self.seq = event.seq

    def save(self) -> bytes:
        """All of it as bytes, the same for the same state."""
        counted = [self.seq, self.counts, self.shown.astype("<i8").tobytes(), self.clicked.astype("<i8").tobytes()]
        return msgspec.msgpack.encode([*counted, self.at.astype("<i8").tobytes(), self.ranker.save()], order="deterministic")

    @classmethod
    def load(cls, state: bytes, catalogue: Catalogue) -> Fold:
        """What was saved; ValueError when it was not."""
        try:
            seq, counts, shown, clicked, at, ranker = msgspec.msgpack.decode(state)
            fold = cls(load(ranker, catalogue), seq)
            fold.counts = {name: int(counts[name]) for name in COUNTS}
            fold.shown, fold.clicked, fold.at = (np.frombuffer(part, "<i8").astype(np.int64) for part in (shown, clicked, at))
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise ValueError(f"snapshot: not one ({error})") from error
        return fold


def new_fold(config: Config, catalogue: Catalogue) -> Fold:
    """A ranker as it was asked for, before anything happened."""
    made = make(
        config.algorithm,
        features=catalogue,
        positions=config.positions,
        rounds=config.rounds,
        seed=config.seed,
        **config.options,
    )
    return Fold(made)


def digest_of(state: bytes) -> str:
    """What tells a torn or altered snapshot."""
    return hashlib.sha256(state).hexdigest()


def pack_catalogue(catalogue: Catalogue) -> list[bytes]:
    """Ids and features in parts that a database takes."""
    ids = json.dumps(catalogue.ids).encode()
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(catalogue.features), allow_pickle=False)
    whole = len(ids).to_bytes(8, "big") + ids + buffer.getvalue()
    return [whole[start : start + _PART] for start in range(0, len(whole), _PART)]


def unpack_catalogue(packed: bytes) -> Catalogue:
    """The catalogue that was packed."""
    length = int.from_bytes(packed[:8], "big")
    ids = json.loads(packed[8 : 8 + length])
    return Catalogue(np.load(io.BytesIO(packed[8 + length :]), allow_pickle=False), ids)
