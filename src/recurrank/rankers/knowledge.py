"""What any ranker can say about itself: its blocks, its best-known order, and what is certain about them."""

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


class Coefficient(NamedTuple):
    """What a feature does to the attraction, with an interval of two standard deviations; the constant has the feature -1."""

    feature: int
    value: float
    low: float
    high: float


class Examination(NamedTuple):
    """How often a position is looked at, relative to the first; None if nothing was seen. ``segment`` is None if not named."""

    segment: str | None
    position: int
    without_click_above: float | None
    after_click_above: float | None


class Knowledge(NamedTuple):
    """``leaders`` are the best-known items in order; ``history`` the finished blocks; None where the algorithm has none.

    ``coefficients``, ``examination`` and ``guard`` are what a ranker of requests knows: about features, about how positions are
    looked at, and the factor by which data from lower positions are down-weighted (1: not at all), without and with a click
    above.
    """

    blocks: list[KnownBlock] | None = None
    leaders: list[int] | None = None
    history: list[KnownBlock] | None = None
    coefficients: list[Coefficient] | None = None
    examination: list[Examination] | None = None
    guard: tuple[float, float] | None = None
