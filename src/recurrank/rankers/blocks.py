"""RecurRank's blocks: what each call of Algorithm 1 is made of, while it is open and after."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Floats, Ints


@dataclass
class Block:
    """One call of Algorithm 1: a run of neighbouring positions, and the items that compete for them.

    Algorithm 1 uses only the first m items in order, so the order of the others is not kept.

    Attributes:
        id: its number, in the order of opening.
        key: what slates call it; see ``recurrank.State``.
        phase: ell.
        first: its first position, counted from 0.
        width: m, how many positions it has.
        leaders: the indices of the m items that seem best, in order.
        members: the indices of all items, sorted; None stands for the whole catalogue.
        size: how many items.
        explored: the items that it tries at its first position.
        visits: T(a), how many answers it needs for each of these.
        parent: the id of the block it came from, -1 for the first.
        opened: how many slates had been served when it opened.
        progress: the share of the wanted answers that have come, from 0 to 1; 1 when it explores nothing.

    """

    id: int
    key: int
    phase: int
    first: int
    width: int
    leaders: Ints
    members: NDArray[np.int32] | None
    size: int
    explored: Ints
    visits: Ints
    parent: int
    opened: int
    progress: float = 0.0

    @property
    def items(self) -> NDArray[np.int32]:
        """All items: the leaders in order, then the others by index."""
        members = np.arange(self.size, dtype=np.int32) if self.members is None else self.members
        others = members[~np.isin(members, self.leaders)]
        return np.concatenate([self.leaders.astype(np.int32), others])

    @property
    def positions(self) -> range:
        """Its positions, counted from 0."""
        return range(self.first, self.first + self.width)


@dataclass(frozen=True)
class ClosedBlock:
    """A finished block: enough of it to draw the paper's Figure 1 and to check its lemmas."""

    id: int
    phase: int
    first: int
    width: int
    items: int
    parent: int
    opened: int
    closed: int
    theta: Floats = field(repr=False)


BLOCK_VALUES = ("id", "key", "phase", "first", "width", "size", "parent", "opened")
BLOCK_ARRAYS = ("leaders", "explored", "visits")
CLOSED_VALUES = ("id", "phase", "first", "width", "items", "parent", "opened", "closed")
"""Fields that are saved of blocks, besides their members."""


def packed(members: NDArray[np.int32] | None, catalogue: int) -> np.ndarray[Any, Any]:
    """Nothing for the whole catalogue; one bit per item of the catalogue where that is shorter than four bytes per member."""
    if members is None:
        return np.empty(0, np.uint8)
    if 32 * len(members) <= catalogue:
        return members
    bits = np.zeros(catalogue, np.bool_)
    bits[members] = True
    return np.packbits(bits)


def unpacked(saved: np.ndarray[Any, Any], catalogue: int) -> NDArray[np.int32] | None:
    """The members from what :func:`packed` returned."""
    if saved.dtype != np.uint8:
        return saved
    return np.flatnonzero(np.unpackbits(saved, count=catalogue)).astype(np.int32) if len(saved) else None
