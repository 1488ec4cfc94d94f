"""Events: what the log consists of, and slates as bytes."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints


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


CERTAIN, COMMON, SINGLE = 4, 8, 12
"""How many bytes beyond a multiple of 16 the probabilities of a slate take, and so how they are written."""


class Chances(NamedTuple):
    """How probable the items of n slates were at their positions, and the slates as a whole. Shapes (n, K) and (n,)."""

    marginal: Floats
    joint: Floats


def pack_slates(items: Any, marks: Ints, used: Ints, chances: Chances | None = None) -> list[bytes]:
    """Of each slate its items as int32, the marks in use as int64, and its probabilities. Shapes (n, K), (n, K, 2) and (n,)."""
    shown, explored = items.astype("<i4", copy=False), marks.astype("<i8", copy=False)
    last = [b""] * len(items) if chances is None else _pack_chances(chances)
    return [a.tobytes() + m[:n].tobytes() + p for a, m, n, p in zip(shown, explored, used.tolist(), last, strict=True)]


def _pack_chances(chances: Chances) -> list[bytes]:
    """Nothing but a 1 where all is certain; the joint and one marginal in single precision where all marginals are the same.

    Otherwise the joint in single precision, a bit for each position whose marginal is not that of the position above, these
    marginals in half precision, and how long all of it is (16 bits), after zeros up to 12 bytes beyond a multiple of 16.
    """
    joint, single = chances.joint.astype("<f4"), chances.marginal.astype("<f4")
    with np.errstate(under="ignore"):
        half = chances.marginal.astype("<f2")
    new = np.ones(half.shape, np.bool_)
    new[:, 1:] = half[:, 1:] != half[:, :-1]
    bits = np.packbits(new, axis=1, bitorder="little")
    packed = []
    for i, different in enumerate(new.sum(axis=1).tolist()):
        if different == 1:
            packed.append(joint[i].tobytes() + (single[i, 0].tobytes() if joint[i] != 1 else b""))
        else:
            body = joint[i].tobytes() + bits[i].tobytes() + half[i][new[i]].tobytes()
            size = SINGLE + (max(0, len(body) + 2 - SINGLE) + 15) // 16 * 16
            packed.append(body + bytes(size - 2 - len(body)) + size.to_bytes(2, "little"))
    return packed


def slate_size(payload: Any, positions: int) -> int:
    """How many bytes of a packed slate are items and marks; -1 for what cannot be a slate of so many positions."""
    if type(payload) is not bytes:
        return -1
    kind = (len(payload) - 4 * positions) & 15
    if kind == SINGLE:
        kind = int.from_bytes(payload[-2:], "little")
        if kind & 15 != SINGLE:
            return -1
    size = len(payload) - kind
    marks = size - 4 * positions
    return size if 0 <= marks <= 16 * positions and marks & 15 == 0 and kind & 3 == 0 else -1


def unpack_chances(payload: bytes, positions: int) -> tuple[list[float | None] | None, float | None]:
    """The marginal probability of each position and the joint one; None where the log has none of them."""
    packed = payload[slate_size(payload, positions) :]
    if not packed:
        return None, None
    joint = struct.unpack_from("<f", packed)[0]
    if len(packed) <= COMMON:
        return [struct.unpack_from("<f", packed, len(packed) - 4)[0]] * positions, joint
    width = (positions + 7) // 8
    new = np.unpackbits(np.frombuffer(packed, np.uint8, width, 4), count=positions, bitorder="little")
    half = np.frombuffer(packed, "<f2", int(new.sum()), 4 + width)
    return half[np.cumsum(new, dtype=np.int64) - 1].astype(float).tolist(), joint


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
