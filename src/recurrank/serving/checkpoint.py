"""How far snapshots reach, so that a start reads only newer events.

A snapshot stays valid until the ranker's next event, which may never come if the ranker is idle. So the learner periodically
notes how far it has folded the log, and which rankers' newest snapshots do not reach that far: one small row for all rankers.
"""

from __future__ import annotations

import msgspec

NAME = "checkpoint"
FAR, ALONE = 200_000, 8
"""A ranker this many events behind the next one is read alone, and the most rankers that are read so."""


class Checkpoint(msgspec.Struct, frozen=True):
    """State after event ``seq``; ``known`` is the largest ranker number."""

    seq: int
    known: int
    behind: dict[int, int]  # rankers whose newest snapshot holds only up to this event

    def pack(self) -> bytes:
        """As bytes."""
        return msgspec.json.encode(self)

    def start(self, ranker: int, folded: int, newest: int) -> int:
        """The event after which a ranker's log must be read, if it is folded up to ``folded``.

        ``newest`` is the seq of its newest snapshot. If that could not be read, the checkpoint says nothing about it.
        """
        if ranker > self.known:  # created since
            return max(folded, self.seq)
        return max(folded, self.behind.get(ranker, self.seq)) if folded >= newest > 0 else folded


def unpack(stored: bytes | None) -> Checkpoint | None:
    """The checkpoint that was packed; None if it is missing or unreadable: then each snapshot speaks for itself."""
    try:
        return None if stored is None else msgspec.json.decode(stored, type=Checkpoint)
    except msgspec.MsgspecError:
        return None


def split(starts: dict[int, int]) -> tuple[int, list[int]]:
    """The event after which to read for all rankers, and the few that are so far behind that they are read alone."""
    order = sorted(starts, key=lambda ranker: starts[ranker])
    alone = 0
    for i in range(min(ALONE, len(order) - 1)):
        if starts[order[i + 1]] - starts[order[i]] > FAR:
            alone = i + 1
    return (starts[order[alone]] if order else 0), order[:alone]
