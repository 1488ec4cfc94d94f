"""What a ranker can say about itself, whichever it is: its blocks, its best-known order, and what is certain about them."""

from __future__ import annotations

from typing import NamedTuple


class KnownBlock(NamedTuple):
    """Neighbouring positions, counted from 0, and how many items compete for them; None where the algorithm has no such thing.

    ``closed`` is how many slates had been served when it was finished, None while it is open.
    """

    id: int
    first: int
    width: int
    items: int
    phase: int | None = None
    progress: float | None = None
    parent: int = -1
    opened: int = 0
    closed: int | None = None

    @property
    def certain(self) -> str:
        """What is settled: "place" (its only item), "shown" (which items are shown, not their order) or "no"."""
        return "place" if self.items == 1 else "shown" if self.items == self.width else "no"


class Knowledge(NamedTuple):
    """``leaders`` are the best-known items in order; ``history`` the finished blocks; None where the algorithm has none."""

    blocks: list[KnownBlock] | None = None
    leaders: list[int] | None = None
    history: list[KnownBlock] | None = None
