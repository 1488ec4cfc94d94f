"""How far snapshots reach, so that a start reads only what is new.

A snapshot holds until the ranker's next event, which for an idle ranker may never come. So the learner notes from time to time
how far it has folded the log, and which rankers' newest snapshots do not reach that far: one small row for all of them.
"""

from __future__ import annotations

import msgspec

NAME = "checkpoint"
FAR, ALONE = 200_000, 8
"""Events by which a ranker has to be behind the next one to be brought up by itself, and how many may be."""


class Checkpoint(msgspec.Struct, frozen=True):
    """After event ``seq``; rankers by number, ``known`` the largest."""

    seq: int
    known: int
    behind: dict[int, int]  # rankers whose newest snapshot holds only up to this event

    def pack(self) -> bytes:
        """As bytes."""
        return msgspec.json.encode(self)

    def start(self, ranker: int, folded: int, newest: int) -> int:
        """The event after which a ranker's log has to be read, if it is folded up to ``folded``.

        ``newest`` is its newest snapshot. Where that could not be read, nothing is known.
        """
        if ranker > self.known:  # made since
            return max(folded, self.seq)
        return max(folded, self.behind.get(ranker, self.seq)) if folded >= newest > 0 else folded


def unpack(stored: bytes | None) -> Checkpoint | None:
    """What was packed; None when there is none, or none that can be read: then snapshots say for themselves."""
    try:
        return None if stored is None else msgspec.json.decode(stored, type=Checkpoint)
    except msgspec.MsgspecError:
        return None


def split(starts: dict[int, int]) -> tuple[int, list[int]]:
    """Where to begin reading for all rankers, and the few that are so far behind that they are read alone."""
    order = sorted(starts, key=lambda ranker: starts[ranker])
    alone = 0
    for i in range(min(ALONE, len(order) - 1)):
        if starts[order[i + 1]] - starts[order[i]] > FAR:
            alone = i + 1
    return (starts[order[alone]] if order else 0), order[:alone]
