"""Which slates of a comparison count, and when: one per subject, in the order in which they were served.

A returning visitor keeps their arm and their tastes. If all slates of the same few visitors counted as independent, chance
differences between visitors would look like differences between rankings. So each subject counts once, with the first slate
that it was served in a comparison.

Answers arrive at different times: a click at once, no click only when the window closes. Counted on arrival, slates with clicks
would be ahead of the others, by different amounts in the two arms. So an answer waits until all earlier slates have theirs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from recurrank.rollout.assignment import UNITS

FEW = UNITS // 32
"""Up to this many units are saved as a list of numbers, more as a bitmap of all ``UNITS``."""


class InOrder:
    """Slates of one comparison, waiting for their answers or for those of earlier ones."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, list[Any] | None] = OrderedDict()  # None: not answered yet
        self._units = np.zeros(0, np.uint8)  # one bit per counted unit; empty until the first

    def __len__(self) -> int:
        """Number of waiting slates."""
        return len(self._waiting)

    def begin(self) -> None:
        """Drop all waiting slates; subjects already counted stay counted."""
        self._waiting.clear()

    def serve(self, seq: int, unit: int | None) -> None:
        """Record a served slate; ``unit`` is that of its subject, if it has one."""
        if unit is not None:
            if not len(self._units):
                self._units = np.zeros(UNITS // 8, np.uint8)
            byte, bit = unit >> 3, 1 << (unit & 7)
            if self._units[byte] & bit:
                return
            self._units[byte] |= bit
        self._waiting[seq] = None

    def answer(self, seq: int, *what: Any) -> Iterator[list[Any]]:
        """Record a slate's answer, empty if it will never come; yields the answers that count now, in order."""
        if seq not in self._waiting:
            return
        self._waiting[seq] = list(what)
        while self._waiting:
            first, outcome = next(iter(self._waiting.items()))
            if outcome is None:
                return
            del self._waiting[first]
            if outcome:
                yield outcome

    def pack(self) -> list[Any]:
        """The whole state, for a snapshot."""
        units = np.flatnonzero(np.unpackbits(self._units, bitorder="little"))
        counted = units.astype("<u4") if len(units) <= FEW else self._units
        return [[[seq, found] for seq, found in self._waiting.items()], counted.tobytes()]

    def unpack(self, packed: Sequence[Any]) -> None:
        """Restore the state that was packed."""
        waiting, counted = packed
        self._waiting = OrderedDict((seq, found) for seq, found in waiting)
        if len(counted) == UNITS // 8:
            self._units = np.frombuffer(counted, np.uint8).copy()
        elif counted:
            bits = np.zeros(UNITS, np.uint8)
            bits[np.frombuffer(counted, "<u4")] = 1
            self._units = np.packbits(bits, bitorder="little")
