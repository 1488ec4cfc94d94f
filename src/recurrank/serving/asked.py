"""A visitor's request for a slate, and the slate that answers it as it is logged."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Floats
from recurrank._compiled import loop
from recurrank.rankers.request import Answered
from recurrank.serving.changes import NO_RULES, Stocked
from recurrank.serving.events import ShownRequest, pack_request


@dataclass(frozen=True)
class PackedRows:
    """Features of candidates as bytes; the ranker's dimension decides whether these are 32- or 64-bit numbers."""

    packed: bytes
    count: int

    def __len__(self) -> int:
        return self.count

    def rows(self, dim: int) -> Any:
        """One row per candidate."""
        for kind in ("<f4", "<f8"):
            if len(self.packed) == self.count * dim * np.dtype(kind).itemsize:
                return np.frombuffer(self.packed, kind).reshape(self.count, dim)
        raise ValueError(
            f"features: {len(self.packed):,} bytes for {self.count:,} candidates of {dim:,} features; give 4 or 8 per number"
        )


class Asked(NamedTuple):
    """A request: candidates by id or with features, the visitor's context and segment, and rules."""

    candidates: Sequence[str] | None = None
    features: Any = None  # (n, d), or PackedRows
    context: Sequence[float] | None = None
    segment: str | None = None
    exclude: Sequence[str] = ()
    pin: Mapping[int, str] = {}
    positions: int | None = None
    explore: float = 1.0
    baseline: Sequence[str] | None = None  # the order that would be shown without the ranker
    subject: str | None = None  # the person the slate is for

    @property
    def plain(self) -> bool:
        """Whether the request has no candidates, context or rules."""
        whole = self.candidates is None and self.features is None and self.context is None and self.segment is None
        return whole and not self.exclude and not self.pin and self.positions is None and self.explore == 1

    def count(self, items: int) -> int:
        """Number of candidates; ``items`` if the request names none."""
        if self.candidates is not None:
            return len(self.candidates)
        return items if self.features is None else len(self.features)

    def under(self, stocked: Stocked, positions: int) -> Asked:
        """The same request with the ranker's rules applied, as far as its candidates allow; its own pins come first.

        Raises ValueError for a pinned item that the rules exclude.
        """
        rules, most = stocked.rules, positions if self.positions is None else self.positions
        if rules is NO_RULES or rules == NO_RULES:
            return self
        banned = set(rules.exclude)
        for item in self.pin.values():
            if item in banned:
                raise ValueError(f"pin: {item!r} is excluded by the rules of this ranker; pin another one")
        here: Container[Any] = stocked.stock.index if self.features is None else ()
        if self.candidates is not None:
            here = set(self.candidates)
        taken, out = set(self.pin.values()), banned.union(self.exclude)
        highest = min(most, self.count(len(stocked.stock)) - sum(item in here for item in out))
        pins = {
            position: item
            for position, item in rules.pin.items()
            if item in here and item not in out and item not in taken and position < highest
        }
        return self._replace(
            exclude=[*self.exclude, *rules.exclude], pin={**pins, **self.pin}, positions=most,
            explore=min(self.explore, rules.explore),
        )  # fmt: skip


def packed(shown: Answered, foreign: bool = False) -> bytes:
    """The slate of a request as it is logged. An order that others chose (``foreign``) teaches at all positions."""
    chances = None if foreign else shown.propensity
    return pack_request(
        ShownRequest(
            shown.names, *packed_rows(shown.features), [] if foreign else shown.pinned, shown.segment, shown.done,
            shown.change, shown.candidates, None if chances is None else chances.tolist(), None if foreign else shown.joint,
        )
    )  # fmt: skip


def packed_rows(rows: Floats) -> tuple[bytes, bool]:
    """Features as bytes, and whether these are in single precision, which is used if it loses nothing."""
    short = np.empty(rows.shape, np.float32)
    if narrowed(rows, short):
        return short.astype("<f4", copy=False).tobytes(), True
    return np.ascontiguousarray(rows, "<f8").tobytes(), False


@loop
def narrowed(rows: Floats, short: Any) -> bool:
    """Copy the rows to ``short`` in single precision; False, and incomplete, if that loses anything."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            short[i, j] = rows[i, j]
            if np.float64(short[i, j]) != rows[i, j]:
                return False
    return True
