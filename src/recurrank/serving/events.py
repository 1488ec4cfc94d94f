"""Events: what the log consists of, and slates as bytes."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Ints


class Kind(IntEnum):
    """What happened. The numbers are on disk: never change them."""

    CREATED = 1  # a ranker
    SERVED = 2  # a slate: the payload has it
    REPORTED = 3  # clicks on a slate, more to come
    LEARNED = 4  # a slate's clicks, all of them
    DROPPED = 5  # a slate whose answer never came
    DELETED = 6  # a ranker


class Event(NamedTuple):
    """A line of the log.

    Attributes:
        seq: its number in the log, which has no gaps.
        ranker: the ranker's number.
        kind: what happened, a :class:`Kind` as its number.
        served: for what happens to a slate, the seq of the event that served it.
        clicks: the positions clicked, one bit per position.
        payload: the slate, of SERVED, LEARNED and DROPPED as the store returns them (it is stored once).
        at: the server's wall clock, for people; nothing depends on it.

    """

    seq: int
    ranker: int
    kind: int
    served: int
    clicks: bytes
    payload: bytes
    at: float


def pack_slates(items: Any, marks: Ints, used: Ints) -> list[bytes]:
    """Of each slate its items as int32, then the marks in use as int64. Shapes (n, K), (n, K, 2) and (n,)."""
    shown, explored = items.astype("<i4", copy=False), marks.astype("<i8", copy=False)
    return [a.tobytes() + m[:n].tobytes() for a, m, n in zip(shown, explored, used.tolist(), strict=True)]


def unpack_items(payload: bytes, positions: int) -> tuple[int, ...]:
    """Only the items of a packed slate."""
    return struct.unpack_from(f"<{positions}i", payload)


def pack_clicks(positions: int, clicked: list[int]) -> bytes:
    """One bit per position."""
    bits = bytearray((positions + 7) // 8)
    for position in clicked:
        bits[position >> 3] |= 1 << (position & 7)
    return bytes(bits)


def unpack_clicks(clicks: bytes, positions: int) -> Bools:
    """One boolean per position; no bytes mean no clicks."""
    if not clicks:
        return np.zeros(positions, np.bool_)
    bits = np.unpackbits(np.frombuffer(clicks, np.uint8), count=positions, bitorder="little")
    return bits.astype(np.bool_)


def joined(one: bytes, other: bytes) -> bytes:
    """Clicks of two reports together."""
    if not one or not other:
        return one or other
    return bytes(a | b for a, b in zip(one, other, strict=True))
