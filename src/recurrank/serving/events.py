"""Events: what the log consists of, and slates as bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
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
    ITEMS = 7  # a ranker's items were added, changed or removed: the payload says which (changes.py)
    RULES = 8  # the rules of all of a ranker's slates were replaced: the payload has them


class Event(NamedTuple):
    """A line of the log.

    Attributes:
        seq: its number in the log, which has no gaps.
        ranker: the ranker's number.
        kind: what happened, a :class:`Kind` as its number.
        served: for what happens to a slate, the seq of the event that served it.
        clicks: the positions clicked, one bit per position.
        payload: the slate, of SERVED, LEARNED and DROPPED as the store returns them (it is stored once); of ITEMS and RULES
            what changed.
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
    if is_request(payload):
        return len(payload) if shown_in(payload, positions) <= positions else -1
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
    if is_request(payload):
        shown = unpack_request(payload)
        return shown.propensity, shown.joint
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


class ShownRequest(msgspec.Struct, array_like=True):
    """A slate that answers a request: all that learning needs of what was shown, whatever becomes of the items.

    The fields' order is on disk; new ones go to the end, with defaults. In the log it follows a negative number of 32 bits,
    minus how many positions it fills, which the first item of another slate cannot be.
    """

    names: list[str]
    features: bytes  # one row per position, little-endian
    single: bool  # whether these are 32-bit numbers, which they are where that loses nothing
    pinned: list[int]
    segment: str | None
    done: int
    change: float
    candidates: int
    propensity: list[float | None] | None = None
    joint: float | None = None

    def rows(self) -> bytes:
        """The features as 64-bit numbers, end to end."""
        return np.frombuffer(self.features, "<f4").astype("<f8").tobytes() if self.single else self.features


_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(ShownRequest).decode


def pack_request(shown: ShownRequest) -> bytes:
    """The slate of a request as bytes."""
    return struct.pack("<i", -len(shown.names)) + _pack(shown)


def unpack_request(payload: bytes) -> ShownRequest:
    """The slate that was packed; ValueError for bytes that are none."""
    try:
        shown = _unpack(memoryview(payload)[4:])
    except msgspec.MsgspecError as error:
        raise ValueError(f"slate: not one of a request ({error})") from error
    if len(shown.names) != shown_in(payload, 0):
        raise ValueError("slate: it names other items than it has positions")
    return shown


def is_request(payload: bytes) -> bool:
    """Whether a packed slate answers a request. Its first four bytes are enough to tell."""
    return len(payload) >= 4 and payload[3] >= 0x80


def shown_in(payload: bytes, positions: int) -> int:
    """How many positions a packed slate fills: those of the ranker, or those that it says. Four bytes are enough to tell."""
    return -int.from_bytes(payload[:4], "little", signed=True) if is_request(payload) else positions


def names_in(payload: bytes, positions: int, ids: Sequence[str]) -> list[str]:
    """The ids of the items that a packed slate shows."""
    if is_request(payload):
        return unpack_request(payload).names
    return [ids[item] for item in unpack_items(payload, positions)]


def names_of(event: Event, positions: int, ids: Sequence[str]) -> list[str]:
    """The ids of the items that an event's slate shows; none where it is not about a slate."""
    if event.kind in (Kind.ITEMS, Kind.RULES) or not event.payload:
        return []
    return names_in(event.payload, positions, ids)


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
