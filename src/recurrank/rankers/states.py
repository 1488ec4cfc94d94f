"""States of rankers as data: every array by name, for saving, and copies that share what never changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def flatten(state: Any, without: tuple[str, ...], prefix: str = "state") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Every array of a state with a name, states within states included, ``without`` these fields."""
    for name in type(state)._fields:
        part = getattr(state, name)
        if name in without:
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
        else:
            if isinstance(part, tuple):
                parts.append(unflatten(part, shared, arrays, path))
            else:
                parts.append(arrays[path].astype(part.dtype, copy=False))  # counts had 64 bits in older versions
    return kind(*parts)


def copied(state: Any, shared: tuple[str, ...], into: Any = None) -> Any:
    """A state with arrays of its own but for the ``shared`` fields, in the memory of ``into`` where that has room."""
    parts = []
    for place, name in enumerate(type(state)._fields):
        part, room = state[place], None if into is None else into[place]
        if name in shared:
            parts.append(part)
        elif isinstance(part, tuple):
            parts.append(copied(part, shared, room))
        elif room is not None and room.shape == part.shape and room.dtype == part.dtype:
            np.copyto(room, part)
            parts.append(room)
        else:
            parts.append(part.copy())
    return type(state)(*parts)
