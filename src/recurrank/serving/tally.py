"""Counts over a ranker's rounds that the ranker itself does not keep: clicks over time, in constant memory.

| count                                  | how it is kept                                                             |
|----------------------------------------|----------------------------------------------------------------------------|
| clicks over time                       | at most ``BINS`` bins of equal width; full bins are merged in pairs        |
| clicks per slate at the start, and now   | the first ``SPAN`` rounds, and the last ``SPAN``, each exactly             |
| items of the last slates               | the last ``SLATES`` slates                                                 |

A round is a slate that was learned from. As everywhere in a fold, the same events give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Ints
from recurrank._compiled import hot

BINS, SPAN, SLATES = 256, 1_000, 64


class Tally(NamedTuple):
    """Counts by round, as compiled code sees them."""

    bins: Ints  # (BINS,) clicks
    width: Ints  # (1,) rounds per bin
    early: Ints  # (1,) clicks in the first SPAN rounds
    late: Ints  # (SPAN,) clicks in each of the last SPAN rounds, a ring buffer
    slates: Any  # (SLATES, K) int32, the items of the last rounds, a ring buffer

    @staticmethod
    def empty(positions: int) -> Tally:
        return Tally(
            np.zeros(BINS, np.int64),
            np.ones(1, np.int64),
            np.zeros(1, np.int64),
            np.zeros(SPAN, np.int64),
            np.zeros((SLATES, positions), np.int32),
        )

    def pack(self) -> list[bytes]:
        """The counts as bytes."""
        return [part.astype("<i4").tobytes() if part is self.slates else part.astype("<i8").tobytes() for part in self]

    @staticmethod
    def unpack(packed: Sequence[bytes], positions: int) -> Tally:
        """The counts that were packed; ValueError for other bytes."""
        like = Tally.empty(positions)
        parts = [np.frombuffer(part, "<i4" if old is like.slates else "<i8") for part, old in zip(packed, like, strict=True)]
        return Tally(*(part.astype(old.dtype).reshape(old.shape) for part, old in zip(parts, like, strict=True)))

    def rates(self, rounds: int) -> tuple[float | None, float | None]:
        """Clicks per slate in the first SPAN rounds and in the last SPAN; None before the first round."""
        count = min(rounds, SPAN)
        return (int(self.early[0]) / count, int(self.late.sum()) / count) if count else (None, None)

    def margin(self, rounds: int) -> float | None:
        """Half of the 95 % interval of the clicks per slate in the last SPAN rounds; None before the second."""
        count = min(rounds, SPAN)
        return 1.96 * float(np.std(self.late[:count], ddof=1)) / math.sqrt(count) if count > 1 else None

    def curve(self, rounds: int) -> tuple[int, list[int], int]:
        """The width of the bins, their clicks, and the number of rounds in the last one."""
        width = int(self.width[0])
        used = -(-rounds // width)
        return width, self.bins[:used].tolist(), rounds - (used - 1) * width if used else 0

    def last_slates(self, rounds: int) -> Any:
        """The last slates, one row each, in no particular order."""
        return self.slates[: min(rounds, SLATES)]


@hot
def tally_round(tally: Tally, number: int, seen: int, items: Ints) -> None:
    """Round ``number``, counted from 0, had ``seen`` clicks on these items."""
    if number < SPAN:
        tally.early[0] += seen
    tally.late[number % SPAN] = seen
    row = number % SLATES
    for k in range(len(items)):
        tally.slates[row, k] = items[k]
    b = number // tally.width[0]
    if b >= BINS:
        for i in range(BINS // 2):
            tally.bins[i] = tally.bins[2 * i] + tally.bins[2 * i + 1]
        for i in range(BINS // 2, BINS):
            tally.bins[i] = 0
        tally.width[0] *= 2
        b = BINS // 2
    tally.bins[b] += seen
