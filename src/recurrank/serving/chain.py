"""The chain: every event carries a digest of the event before it and of its own fields, so that nothing can be changed unseen.

    digest(n) = BLAKE2b(digest(n - 1), every field of event n, what event n says about the rows beside the log)

The last part is kept with the digest, since those rows may be deleted one day: of SERVED the slate's id, of
LEARNED the status that the slate's row has from then on, of CREATED the ranker's row and its catalogue (digests of them).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from recurrank.serving.events import Event, Kind
from recurrank.serving.trial import erased, has_trial

SIZE = 16
START = bytes(SIZE)
"""Before the first event that is chained."""

REPLACED = "replaced"
"""The store's note about events that were replaced since they were chained (``erase.py``)."""

_FIELDS = struct.Struct("<16sqqqqdII")


def link(before: bytes, event: Event, claim: bytes = b"") -> bytes:
    """An event's link: its digest, then what it says about the rows beside the log."""
    seq, ranker, kind, served, clicks, payload, at = event
    payload = _lasting(kind, payload)
    fields = _FIELDS.pack(before, seq, ranker, kind, served, at, len(clicks), len(payload))
    return blake2b(b"".join((fields, clicks, payload, claim)), digest_size=SIZE).digest() + claim


def follows(before: bytes, event: Event, mark: bytes, notes: dict[int, bytes]) -> bool:
    """Whether an event has the link ``mark`` after the event with the digest ``before``.

    ``notes`` are those of :func:`replaced`: of the events that were not written as they are now.
    """
    return link(before, event, mark[SIZE:]) == mark or (event.seq in notes and replaced(event, mark) == notes[event.seq])


def replaced(event: Event, mark: bytes) -> bytes:
    """What is noted about an event that has taken the place of the one that the link ``mark`` was made for."""
    return link(mark[:SIZE], event, mark[SIZE:])[:SIZE]


def unpack_notes(stored: bytes | None) -> dict[int, bytes]:
    """Events that were replaced, and what :func:`replaced` says about them."""
    return {} if stored is None else msgspec.msgpack.decode(stored, type=dict[int, bytes])


def _lasting(kind: int, payload: bytes) -> bytes:
    """What a payload's digest is made of: for a slate, what stays of it when its subject is erased (``trial.py``)."""
    if kind != Kind.SERVED or not has_trial(payload):
        return payload
    try:
        return erased(payload)
    except ValueError:  # it was altered
        return payload


def links(before: bytes, events: list[Event], claims: list[bytes]) -> list[bytes]:
    """The links of events that follow one another."""
    result = []
    for event, claim in zip(events, claims, strict=True):
        result.append(link(before, event, claim))
        before = result[-1][:SIZE]
    return result


_DIGEST = 8
"""Bytes that stand for a slate's id in the links of older versions."""


def slate_mark(slate: str) -> bytes:
    """What stands for a slate's id in the link of its SERVED event: the id, of another length than a digest."""
    name = slate.encode()
    return name + (b"\0\0" if len(name) == _DIGEST - 1 else b"\0")


def slate_of(claim: bytes) -> str | None:
    """The slate's id, from what the link of its SERVED event says; None where an older version wrote it."""
    return None if len(claim) == _DIGEST or not claim.endswith(b"\0") else _text(claim)


def _text(claim: bytes) -> str | None:
    try:
        return claim.rstrip(b"\0").decode()
    except UnicodeDecodeError:  # the log was altered
        return None


def slate_digest(slate: str) -> bytes:
    """What stood for a slate's id in the links of older versions."""
    return blake2b(slate.encode(), digest_size=_DIGEST).digest()


def digest_in(claim: bytes) -> bytes:
    """The digest of a slate's id, from what the link of its SERVED event says."""
    name = slate_of(claim)
    return claim if name is None else slate_digest(name)


def seal(fields: Iterable[tuple[Any, ...]]) -> bytes:
    """One digest for a set of events as they are stored, in whichever order they come."""
    total = 0
    for row in fields:
        lasting = (*row[:5], _lasting(row[2], row[5]), *row[6:])
        total += int.from_bytes(blake2b(repr(lasting).encode(), digest_size=SIZE).digest(), "big")
    return (total % (1 << 8 * SIZE)).to_bytes(SIZE, "big")


def ranker_mark(number: int, name: str, digest: str, positions: int) -> bytes:
    """What stands for a ranker's row, as it stays after the ranker is deleted, in the link of its CREATED event."""
    return blake2b(repr((number, name, digest, positions)).encode(), digest_size=SIZE).digest()


def catalogue_mark(config: bytes, parts: Iterable[bytes]) -> bytes:
    """The same for what is deleted with it."""
    whole = blake2b(struct.pack("<q", len(config)) + config, digest_size=SIZE)
    for part in parts:
        whole.update(part)
    return whole.digest()
