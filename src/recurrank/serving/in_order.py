"""Which slates of a comparison count, and when: one per subject, in the order in which they were served.

A visitor who comes back keeps an arm and tastes. Slates of the same few visitors would be counted as if each were news, and
chance differences between visitors would be taken for differences between rankings. So each subject counts once, with the first
slate that it was served in a comparison.

Answers come at their own times: a click at once, no click when the window closes. Counted as they come, slates with clicks
would be ahead of the others, and not by as much in both arms. So an answer is kept back until all earlier slates have theirs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from recurrank.rollout.assignment import UNITS

FEW = UNITS // 32
"""So many units or fewer are saved as a list of numbers, more as a bit for each that there can be."""


class InOrder:
    """Slates of one comparison, waiting for their answers or for those of earlier ones."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, list[Any] | None] = OrderedDict()  # None: without an answer so far
        self._units = np.zeros(0, np.uint8)  # a bit per unit that has been counted, from the first one on

    def __len__(self) -> int:
        """How many slates are waiting."""
        return len(self._waiting)

    def begin(self) -> None:
        """Let go of all slates; subjects that have been counted are not counted again."""
        self._waiting.clear()

    def serve(self, seq: int, unit: int | None) -> None:
        """A slate was served, to a subject of this unit if there is one."""
        if unit is not None:
            if not len(self._units):
                self._units = np.zeros(UNITS // 8, np.uint8)
            byte, bit = unit >> 3, 1 << (unit & 7)
            if self._units[byte] & bit:
                return
            self._units[byte] |= bit
        self._waiting[seq] = None

    def answer(self, seq: int, *what: Any) -> Iterator[list[Any]]:
        """A slate's answer, nothing where it will never come; gives the answers that count now, in order."""
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
        """All of it for a snapshot."""
        units = np.flatnonzero(np.unpackbits(self._units, bitorder="little"))
        counted = units.astype("<u4") if len(units) <= FEW else self._units
        return [[[seq, found] for seq, found in self._waiting.items()], counted.tobytes()]

    def unpack(self, packed: Sequence[Any]) -> None:
        """Become what was packed."""
        waiting, counted = packed
        self._waiting = OrderedDict((seq, found) for seq, found in waiting)
        if len(counted) == UNITS // 8:
            self._units = np.frombuffer(counted, np.uint8).copy()
        elif counted:
            bits = np.zeros(UNITS, np.uint8)
            bits[np.frombuffer(counted, "<u4")] = 1
            self._units = np.packbits(bits, bitorder="little")
