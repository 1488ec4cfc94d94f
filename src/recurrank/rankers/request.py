"""A request: the candidates of one visitor and the rules for their slate, checked; and the slate that answers it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_count, as_number, refuse_masked
from recurrank.slate import Slate

LARGEST = 1e30
"""The largest feature, number of a context, or product of both: learning adds up squares of them, and products of such sums."""
Name = Hashable
"""How a request names an item: its id in the catalogue, the id given with its features, or its row."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RequestSlate(Slate):
    """The slate of a request. It carries all that learning needs, even if the items change or leave.

    Attributes:
        items: rows of the features that the request brought, or indices of the catalogue; one per position shown.
        features: those of the items shown, one row per position; shape (positions, d).
        free: False where the item was pinned.
        segment: the segment that the request named, or None.
        done: 0 the best-known order, 1 the order of a sample, 2 a disputed item first.
        change: by how much this changed the account of exploration.
        names: the request's names of the items shown.

    """

    features: Floats
    free: Bools
    segment: str | None
    done: int
    change: float
    names: tuple[Name, ...]

    def pack(self) -> dict[str, Any]:
        """All of it as numbers, strings and bytes: what an event has to hold."""
        return {
            "number": self.number,
            "ranker": self.ranker,
            "items": self.items.tolist(),
            "names": list(self.names),
            "pinned": np.flatnonzero(~self.free).tolist(),
            "segment": self.segment,
            "done": self.done,
            "change": self.change,
            "features": np.ascontiguousarray(self.features, "<f8").tobytes(),
            "propensity": None if self.propensity is None else self.propensity.tolist(),
            "joint": self.joint,
        }

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Self:
        """The slate from what :meth:`pack` returned."""
        items = np.array(packed["items"], np.int64)
        free = np.ones(len(items), np.bool_)
        free[packed["pinned"]] = False
        features = np.frombuffer(packed["features"], "<f8").reshape(len(items), -1).astype(np.float64)
        names, propensity = tuple(packed["names"]), packed.get("propensity")
        return cls(
            items=items, marks=np.full((len(items), 2), -1, np.int64), number=packed["number"], ranker=packed["ranker"],
            ids=ids_of(names), features=features, free=free, segment=packed["segment"], done=packed["done"],
            change=packed["change"], names=names, joint=packed.get("joint"),
            propensity=None if propensity is None else np.array(propensity, np.float64),
        )  # fmt: skip


def ids_of(names: tuple[Name, ...]) -> tuple[str, ...] | None:
    """The names, where they are ids."""
    return cast(tuple[str, ...], names) if {*map(type, names)} <= {str} else None


_COUNTED: Ints = np.arange(10_000)


def counted(many: int) -> Ints:
    """The first ``many`` of 0, 1, 2, ..., read-only. Short arrays are shared: making one lets other threads run in between."""
    return _COUNTED[:many] if many <= len(_COUNTED) else np.arange(many)


class Offered(NamedTuple):
    """The candidates of a request."""

    names: Sequence[Name]  # as the request has them
    items: Ints  # (n,) their numbers in ``slate.items``
    features: Floats  # of these candidates, among others
    rows: Ints  # (n,) their rows of the features

    def with_features(self, features: Floats) -> Offered:
        """The same candidates with other features, one row each."""
        return self._replace(features=features, rows=counted(len(features)))


class Choice(NamedTuple):
    """The candidates at the free positions of a slate."""

    chosen: Ints  # (m,) indices of candidates
    done: int = 0  # see RequestSlate
    marginal: Floats | None = None  # (m,) how probable each was there; None if certain or not told
    joint: float = 1.0  # and all of them


class Answered(NamedTuple):
    """What a request is shown, and all that learning needs of it (see :class:`RequestSlate`)."""

    names: list[Any]
    items: Ints
    features: Floats
    pinned: list[int]  # positions
    segment: str | None
    done: int
    change: float
    propensity: Floats | None
    joint: float | None
    candidates: int  # how many the request had


class Rules(NamedTuple):
    """Which candidates may be shown where: those neither excluded nor pinned, the positions for them, and what is pinned."""

    rows: Ints  # (n,) free candidates, as indices in the request
    slots: Ints  # (m,) positions for them
    pinned: dict[int, int]  # position -> index in the request
    size: int  # positions shown
    all: bool = False  # whether every candidate may stand at every position


def rules(names: Sequence[Name], exclude: Sequence[Name], pin: Mapping[int, Name], positions: int) -> Rules:
    """The rules of a request; a one-line ValueError if they cannot be followed."""
    if not exclude and not pin:
        size = min(positions, len(names))
        return Rules(counted(len(names)), counted(size), {}, size, all=True)
    indices = {name: index for index, name in enumerate(names)}
    out = {indices[name] for name in as_set("exclude", exclude) if name in indices}  # others are left out already
    pinned = _pinned(pin, indices, out, positions)
    taken = out | set(pinned.values())
    rows = np.array([index for index in range(len(names)) if index not in taken], np.int64)
    size = min(positions, len(rows) + len(pinned))
    beyond = [k for k in pinned if k >= size]
    if beyond:
        raise ValueError(f"pin: position {beyond[0]} is beyond the {size} that can be filled; pin a higher one")
    slots = np.array([k for k in range(size) if k not in pinned], np.int64)
    return Rules(rows, slots, pinned, size)


def _pinned(pin: Mapping[int, Name], indices: dict[Name, int], out: set[int], positions: int) -> dict[int, int]:
    as_set("pin", pin.values())
    pinned: dict[int, int] = {}
    for position, name in pin.items():
        if isinstance(position, bool) or not isinstance(position, int | np.integer) or not 0 <= position < positions:
            raise ValueError(f"pin: {position!r} is not a position; give one from 0 to {positions - 1}")
        if name not in indices:
            raise ValueError(f"pin: {name!r} is not among the candidates; pin one of them")
        if indices[name] in out:
            raise ValueError(f"pin: {name!r} is excluded too; pin it or exclude it")
        if indices[name] in pinned.values():
            raise ValueError(f"pin: {name!r} is pinned twice; a slate shows each item once")
        pinned[int(position)] = indices[name]
    return pinned


def as_rows(features: ArrayLike, dim: int, largest: float = sys.float_info.max) -> Floats:
    """The features of a request's candidates: (n, dim) numbers of at most this size."""
    rows = _floats(
        "features", features, f"rows of different lengths or not numbers; give one row of {dim} numbers per candidate"
    )
    if rows.ndim != 2 or rows.shape[1] != dim or not len(rows):
        raise ValueError(f"features: shape is {np.shape(rows)}; it should be (candidates, {dim}), at least one candidate")
    bounded("features", rows, largest)
    return rows if rows.flags.writeable else rows.copy()  # for read-only arrays numba would compile everything again


def as_context(context: ArrayLike | None, size: int) -> Floats:
    """The features of a visitor: ``size`` numbers."""
    if context is None and size == 0:
        return np.zeros(0)
    if context is None:
        raise ValueError(f"context: missing; this ranker was made with a context of {size} numbers")
    if size == 0:
        raise ValueError("context: this ranker was made without one; leave it out")
    vector = _floats("context", context, f"not a list of numbers; give {size}")
    if vector.shape != (size,):
        raise ValueError(f"context: shape is {vector.shape}; it should be ({size},)")
    bounded("context", vector, LARGEST)
    return vector


def _floats(field: str, values: ArrayLike, wrong: str) -> Floats:
    """The values as numbers; ValueError with the message ``wrong`` for anything else, also for complex ones."""
    refuse_masked(field, values)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError("complex")
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{field}: {wrong}") from error


def bounded(field: str, values: Floats, largest: float) -> None:
    """ValueError unless all numbers are of at most this size."""
    if largest_of(values) <= largest:
        return
    where = tuple(np.argwhere(~(np.abs(values) <= largest))[0])
    wrong = f"larger than {largest:g}; give it in another unit" if np.isfinite(values[where]) else "not a finite number"
    raise ValueError(f"{field}[{', '.join(map(str, where))}]: {values[where]} is {wrong}")


def largest_of(values: Floats) -> float:
    """The largest absolute value; NaN if one is NaN, 0 if there are none."""
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def joint(rows: Floats, context: Floats, interactions: str) -> Floats:
    """Features of item and visitor together: (x, c), and all products x_i c_j where interactions are "outer"."""
    if not len(context):
        return rows
    parts = [rows, np.broadcast_to(context, (len(rows), len(context)))]
    if interactions == "outer":
        if (size := largest_of(rows) * largest_of(context)) > LARGEST:
            raise ValueError(f"context: products with features reach {size:g}, more than {LARGEST:g}; give it in another unit")
        parts.append((rows[:, :, None] * context).reshape(len(rows), -1))
    return np.concatenate(parts, axis=1)


def joint_size(dim: int, context: int, interactions: str) -> int:
    """How many joint features there are."""
    return dim + context + (dim * context if interactions == "outer" else 0)


def distinct(field: str, names: Sequence[Name]) -> None:
    """ValueError if a name is repeated."""
    if len(as_set(field, names)) < len(names):
        seen: set[Name] = set()
        for index, name in enumerate(names):
            if name in seen:
                raise ValueError(f"{field}[{index}]: {name!r} is repeated; name each one once")
            seen.add(name)


def as_set(field: str, names: Collection[Name]) -> set[Name]:
    """The different names; ValueError for one that cannot be a name, such as a list."""
    try:
        return set(names)
    except TypeError:
        index, name = next((index, name) for index, name in enumerate(names) if not _is_hashable(name))
        raise ValueError(f"{field}[{index}]: {name!r} is not an id; give strings or numbers") from None


def _is_hashable(name: object) -> bool:
    try:
        hash(name)
    except TypeError:
        return False
    return True


def as_share(field: str, value: float) -> float:
    """A number in [0, 1]."""
    number = as_number(field, value)
    if not 0 <= number <= 1:
        raise ValueError(f"{field}: {value!r} is not a share; give a number from 0 to 1")
    return number


def as_positions(positions: int | None, most: int) -> int:
    """How many positions this request wants, at most the ranker's."""
    if positions is None:
        return most
    number = as_count("positions", positions)
    if number > most:
        raise ValueError(f"positions: {number} is more than the {most} that the ranker was made for")
    return number


def listed(field: str, names: Iterable[Name]) -> list[Name]:
    """Names as a list; ValueError for a single one."""
    given = names.tolist() if isinstance(names, np.ndarray) else names
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(f"{field}: {given!r} is not a list; give the ids of items")
    return list(given)


def as_pins(pin: Mapping[int, Name] | None) -> Mapping[int, Name]:
    """The pinned items by position; ValueError for anything but a mapping."""
    if pin is not None and not isinstance(pin, Mapping):
        raise ValueError(f"pin: {pin!r} is not a mapping; give {{position: item}}, positions counted from 0")
    return pin or {}
