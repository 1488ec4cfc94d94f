"""States of rankers as data: every array by name, for saving, and copies that share what never changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from recurrank.rankers.engines.tracking import COUNT, Changes, copied_changes, no_changes, renew


def flatten(state: Any, without: tuple[str, ...], prefix: str = "state") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Every array of a state with a name, states within states included, ``without`` these fields."""
    for name in type(state)._fields:
        part = getattr(state, name)
        if name in without or isinstance(part, Changes):
            continue
        if isinstance(part, tuple):
            yield from flatten(part, without, f"{prefix}.{name}")
        else:
            yield f"{prefix}.{name}", part


def unflatten(like: Any, shared: tuple[str, ...], arrays: dict[str, np.ndarray[Any, Any]], prefix: str = "state") -> Any:
    """A state of the same shape as ``like``, of the arrays that :func:`flatten` named, with its ``shared`` fields."""
    kind = type(like)
    parts = []
    for name in kind._fields:
        part, path = getattr(like, name), f"{prefix}.{name}"
        if name in shared:
            parts.append(part)
        elif isinstance(part, Changes):
            parts.append(no_changes(part.about[COUNT]))
        elif isinstance(part, tuple):
            parts.append(unflatten(part, shared, arrays, path))
        else:
            parts.append(arrays[path].astype(part.dtype, copy=False))  # counts had 64 bits in older versions
    return kind(*parts)


def copied(state: Any, shared: tuple[str, ...], into: Any = None, tracked: tuple[str, ...] = ()) -> Any:
    """A state with arrays of its own but for the ``shared`` fields, in the memory of ``into`` where that has room.

    The result is ``into`` itself where all of it has. Of ``tracked`` tables, which have a field ``changes`` next to them,
    only what differs is copied there.
    """
    parts, changes = [], []
    for index, name in enumerate(type(state)._fields):
        part, room = state[index], None if into is None else into[index]
        if name in shared:
            parts.append(part)
        elif isinstance(part, Changes):
            changes.append(index)
            parts.append(part)
        elif isinstance(part, tuple):
            parts.append(copied(part, shared, room, tracked))
        elif room is None or room.shape != part.shape or room.dtype != part.dtype:
            parts.append(part.copy())
        else:
            if name in tracked:
                renew(room, into.changes, part, state.changes)
            else:
                np.copyto(room, part)
            parts.append(room)
    for index in changes:  # after the tables have been copied
        parts[index] = copied_changes(state[index], None if into is None else into[index])
    return made_of(type(state), parts, into)


def made_of(kind: type[Any], parts: list[Any], into: Any) -> Any:
    """A state of these parts; ``into`` itself where they are its own."""
    same = into is not None and all(part is own for part, own in zip(parts, into, strict=True))
    return into if same else kind(*parts)


def finite(state: Any) -> Any:
    """The state; ValueError unless all that it has learned is finite."""
    if not all(np.isfinite(part).all() for part in (state.moments, state.sums, state.theta)):
        raise ValueError("saved ranker: it has learned from features that were too large to add up; learn anew")
    return state
