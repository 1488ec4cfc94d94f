"""Events of the log, and the packed format of slates and clicks."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
import numpy as np

from recurrank._arrays import Bools, Ints
from recurrank.serving import chances
from recurrank.serving.trial import bare, trial_of


class Kind(IntEnum):
    """What happened. The numbers are on disk: never change them."""

    CREATED = 1  # a ranker was created
    SERVED = 2  # a slate was served; it is the payload
    REPORTED = 3  # clicks on a slate were reported; more may come
    LEARNED = 4  # a slate ended, with all of its clicks
    DROPPED = 5  # a slate ended without any report
    DELETED = 6  # a ranker was deleted
    ITEMS = 7  # a ranker's items were added, changed or removed: the payload says which (changes.py)
    RULES = 8  # the rules of all of a ranker's slates were replaced: the payload has them
    ROLLOUT = 9  # a ranker's mode was set, its brake has stopped it, or it was released: the payload has it (experiment.py)


CHANGES = (Kind.ITEMS, Kind.RULES, Kind.ROLLOUT)
"""Kinds of events that change how a ranker's slates are drawn: their payload is not a slate."""


class Event(NamedTuple):
    """An event of the log.

    Attributes:
        seq: its number in the log; numbers have no gaps.
        ranker: the ranker's number.
        kind: what happened, the number of a :class:`Kind`.
        served: for events about a served slate, the seq of the event that served it.
        clicks: the positions clicked, one bit per position; then, if reported, the positions seen.
        payload: for SERVED, LEARNED and DROPPED as the store returns them, the slate (stored once) with its trial
            (trial.py); for CHANGES, the change.
        at: the server's wall clock, for people; nothing depends on it.

    """

    seq: int
    ranker: int
    kind: int
    served: int
    clicks: bytes
    payload: bytes
    at: float


def pack_slates(items: Any, marks: Ints, used: Ints, probable: chances.Chances | None = None) -> list[bytes]:
    """Pack each slate: items as int32, the marks in use as int64, probabilities. Shapes (n, K), (n, K, 2) and (n,)."""
    shown, explored = items.astype("<i4", copy=False), marks.astype("<i8", copy=False)
    last = [b""] * len(items) if probable is None else chances.pack(probable, used)
    return [a.tobytes() + m[:n].tobytes() + p for a, m, n, p in zip(shown, explored, used.tolist(), last, strict=True)]


def slate_size(payload: Any, positions: int) -> int:
    """Bytes of the items and marks of a packed slate; -1 for what cannot be a slate of so many positions.

    A trial does not count (``trial.bare``).
    """
    if type(payload) is not bytes:
        return -1
    try:
        payload = bare(payload)
    except ValueError:
        return -1
    if is_request(payload):
        return len(payload) if shown_in(payload, positions) <= positions else -1
    marks = chances.marks_size(payload, 4 * positions)
    return 4 * positions + marks if 0 <= marks <= 16 * positions and marks & 15 == 0 else -1


def unpack_chances(payload: bytes, positions: int) -> chances.Logged:
    """The probabilities of a slate; None for those that the log does not have."""
    payload = bare(payload)
    if is_request(payload):
        shown = unpack_request(payload)
        return chances.completed(shown.propensity, shown.joint)
    return chances.unpack(payload[slate_size(payload, positions) :], positions)


def unpack_items(payload: bytes, positions: int) -> tuple[int, ...]:
    """The items of a packed slate."""
    return struct.unpack_from(f"<{positions}i", bare(payload))


class ShownRequest(msgspec.Struct, array_like=True):
    """A slate that answers a request, with all that learning needs, whatever becomes of its items.

    The fields' order is on disk; new ones go to the end, with defaults. In the log it follows a 32-bit number, minus its number
    of positions: the first item of any other slate is not negative.
    """

    names: list[str]
    features: bytes  # one row per position, little-endian
    single: bool  # whether these are 32-bit numbers, which are used if that loses nothing
    pinned: list[int]
    segment: str | None
    done: int
    change: float
    candidates: int
    propensity: list[float | None] | None = None
    joint: float | None = None

    def rows(self) -> bytes:
        """The features as 64-bit numbers, concatenated."""
        return np.frombuffer(self.features, "<f4").astype("<f8").tobytes() if self.single else self.features


_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(ShownRequest).decode


def pack_request(shown: ShownRequest) -> bytes:
    """The slate of a request as bytes."""
    return struct.pack("<i", -len(shown.names)) + _pack(shown)


def unpack_request(payload: bytes) -> ShownRequest:
    """The slate that was packed; ValueError for other bytes."""
    try:
        shown = _unpack(memoryview(bare(payload))[4:])
    except msgspec.MsgspecError as error:
        raise ValueError(f"slate: not one of a request ({error})") from error
    if len(shown.names) != shown_in(payload, 0):
        raise ValueError("slate: it names other items than it has positions")
    return shown


def is_request(payload: bytes) -> bool:
    """Whether a packed slate answers a request. The first four bytes are enough."""
    return len(payload) >= 4 and payload[3] >= 0x80


def shown_in(payload: bytes, positions: int) -> int:
    """Number of positions that a packed slate fills: its own, or else the ranker's. The first four bytes are enough."""
    # the fourth byte also has the flag of a trial; the other three are enough for the number of positions
    return (1 << 24) - int.from_bytes(payload[:3], "little") if is_request(payload) else positions


def names_in(payload: bytes, positions: int, ids: Sequence[str]) -> list[str]:
    """The ids of the items that a packed slate shows; ``ids`` are those of the ranker's first catalogue.

    If items have changed since, the slate itself has the ids.
    """
    if is_request(payload):
        return unpack_request(payload).names
    return trial_of(payload).names or [ids[item] for item in unpack_items(payload, positions)]


def names_of(event: Event, positions: int, ids: Sequence[str]) -> list[str]:
    """The ids of the items that an event's slate shows; none if it is not about a slate."""
    if event.kind in CHANGES or not event.payload:
        return []
    return names_in(event.payload, positions, ids)


def pack_clicks(positions: int, clicked: Sequence[int]) -> bytes:
    """Clicked positions as one bit per position."""
    bits = bytearray((positions + 7) // 8)
    for position in clicked:
        bits[position >> 3] |= 1 << (position & 7)
    return bytes(bits)


def unpack_clicks(clicks: bytes, positions: int) -> Bools:
    """One boolean per position; no bytes mean no clicks."""
    if not clicks:
        return np.zeros(positions, np.bool_)
    bits = np.unpackbits(np.frombuffer(clicks, np.uint8, (positions + 7) // 8), count=positions, bitorder="little")
    return bits.astype(np.bool_)


def unpack_seen(clicks: bytes, positions: int, shown: int) -> list[bool] | None:
    """Which of the shown positions were on the screen; None if that was not reported."""
    width = (positions + 7) // 8
    return unpack_clicks(clicks[width:], positions)[:shown].tolist() if len(clicks) == 2 * width else None


def joined(one: bytes, other: bytes) -> bytes:
    """Clicks and seen positions of two reports, combined."""
    if not one or not other:
        return one or other
    return bytes(a | b for a, b in itertools.zip_longest(one, other, fillvalue=0))


def screen_bits(clicks: bytes, positions: int) -> bytes:
    """Clicked positions, then seen ones, one bit per position each; all positions were seen unless reported otherwise."""
    width = (positions + 7) // 8
    return clicks if len(clicks) == 2 * width else (clicks or bytes(width)) + b"\xff" * width


def clicks_fit(clicks: Any, positions: int) -> bool:
    """Whether these can be the clicks of an event: empty, one bit per position, or two with the seen positions."""
    width = (positions + 7) // 8
    return type(clicks) is bytes and len(clicks) in (0, width, 2 * width)
