"""Events: what the log consists of, and slates as bytes."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Ints
from recurrank.slate import Slate


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
        seq: its place; the log has no gaps.
        ranker: the ranker's number.
        kind: what happened.
        served: for what happens to a slate, the place of the event that served it.
        clicks: the positions clicked, a bit a position.
        payload: the slate, of SERVED, LEARNED and DROPPED as the store returns them (it is stored once).
        at: the server's wall clock, for people; nothing depends on it.

    """

    seq: int
    ranker: int
    kind: Kind
    served: int
    clicks: bytes
    payload: bytes
    at: float


def pack_slate(slate: Slate) -> bytes:
    """Items as int32, then the marks in use as int64."""
    used = int(np.argmax(slate.marks[:, 0] < 0)) if (slate.marks[:, 0] < 0).any() else len(slate.marks)
    return slate.items.astype("<i4").tobytes() + slate.marks[:used].astype("<i8").tobytes()


def unpack_slate(payload: bytes, positions: int, ranker: str) -> Slate:
    """The slate that was packed, to be learned by ``ranker`` (an identity)."""
    marks: Ints = np.full((positions, 2), -1, np.int64)
    rest = np.frombuffer(payload, "<i8", offset=4 * positions) if len(payload) > 4 * positions else ()
    if len(rest):
        marks[: len(rest) // 2] = np.asarray(rest).reshape(-1, 2)
    return Slate(unpack_items(payload, positions), marks, 0, ranker)


def unpack_items(payload: bytes, positions: int) -> Ints:
    """Only the items of a packed slate."""
    return np.frombuffer(payload, "<i4", count=positions).astype(np.int64)


def pack_clicks(positions: int, clicked: list[int]) -> bytes:
    """A bit a position."""
    bits = bytearray((positions + 7) // 8)
    for position in clicked:
        bits[position >> 3] |= 1 << (position & 7)
    return bytes(bits)


def unpack_clicks(clicks: bytes, positions: int) -> Bools:
    """Booleans a position; no bytes are no clicks."""
    if not clicks:
        return np.zeros(positions, np.bool_)
    bits = np.unpackbits(np.frombuffer(clicks, np.uint8), count=positions, bitorder="little")
    return bits.astype(np.bool_)


def joined(one: bytes, other: bytes) -> bytes:
    """Clicks of two reports together."""
    if not one or not other:
        return one or other
    return bytes(a | b for a, b in zip(one, other, strict=True))
