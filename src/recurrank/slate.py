"""Slates: the items that a ranker shows, and what it records about them until the clicks arrive."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, refuse_masked


@dataclass(frozen=True, eq=False)
class Slate:
    """A ranking that was shown.

    Attributes:
        items: the items from the first position on, as indices in the catalogue; shape (K,).
        marks: what the ranker explored, in its own terms; shape (K, 2). For RecurRank, one row per block: the block's key,
            and which of its explored items is at its first position. A row that starts with -1 ends the list.
        number: how many slates this ranker had served before.
        ranker: the ranker that served it; another one refuses its feedback.
        ids: the ids of the items, in order, where the catalogue has ids; otherwise None.
        propensity: the probability of each item at its position when the slate was drawn; shape (K,). NaN where it has no
            closed form, None if the algorithm does not compute it (:meth:`Ranker.estimate_propensity` estimates it).
        joint: the probability of the whole slate; None if the algorithm does not compute it.
        conditional: the probability of each item given those above it; their product is ``joint``. NaN where unknown.

    """

    items: Ints
    marks: Ints
    number: int
    ranker: str
    ids: tuple[str, ...] | None = None
    propensity: Floats | None = None
    joint: float | None = None
    conditional: Floats | None = None

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.items.tolist() if self.ids is None else self.ids))
        return f"<{type(self).__name__} {self.number} of {self.ranker}: {shown}>"


def as_items(slate: Slate | ArrayLike, items: int, positions: int | None = None) -> Ints:
    """The indices of the items that a slate shows; ValueError unless they are different and exist."""
    shown = np.asarray(slate.items if isinstance(slate, Slate) else slate)
    if shown.ndim != 1 or shown.size == 0 or shown.dtype.kind not in "iu":
        raise ValueError(f"slate: {shown.dtype} of shape {shown.shape}; give a list of item numbers")
    if shown.min() < 0 or shown.max() >= items:
        wrong = shown[(shown < 0) | (shown >= items)][0]
        raise ValueError(f"slate: item {wrong} does not exist; items go from 0 to {items - 1}")
    if len(np.unique(shown)) < len(shown):
        raise ValueError("slate: an item appears twice; a ranking shows each item once")
    if positions is not None and len(shown) > positions:
        raise ValueError(f"slate: {len(shown)} items, but the click model has parameters for {positions} positions")
    return np.ascontiguousarray(shown, dtype=np.int64)


def as_booleans(name: str, values: ArrayLike, positions: int) -> Bools:
    """One boolean per position, for example for the clicks on a slate; ValueError with the field's name for anything else."""
    refuse_masked(name, values)
    try:
        given = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: rows of different lengths; give {positions} booleans") from error
    if given.shape != (positions,):
        raise ValueError(f"{name}: shape is {given.shape}; it should be ({positions},), one boolean per position")
    if given.dtype != np.bool_:
        if given.dtype.kind not in "iuf" or not ((given == 0) | (given == 1)).all():
            raise ValueError(f"{name}: not all are true or false; give one boolean per position")
        given = given.astype(np.bool_)
    return np.ascontiguousarray(given)


def new_id() -> str:
    """An id for a slate, impossible to guess. It begins with the time, so that rows written together are close on disk."""
    return f"{time.time_ns() >> 20:011x}{secrets.token_hex(9)}"
