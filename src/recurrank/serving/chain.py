"""The chain: every event carries a digest of the event before it and of its own fields, so that any change can be detected.

    digest(n) = BLAKE2b(digest(n - 1), every field of event n, the claim of event n)

The claim is what the event says about rows outside the log. It is stored with the digest, since those rows may be deleted:
for SERVED the slate's id, for LEARNED the new status of the slate's row, for CREATED digests of the ranker's row and catalogue.
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
"""The digest before the first chained event."""

REPLACED = "replaced"
"""Name of the store's note about events that were replaced after they were chained (``erase.py``)."""

_FIELDS = struct.Struct("<16sqqqqdII")


def link(before: bytes, event: Event, claim: bytes = b"") -> bytes:
    """An event's link: its digest, then its claim about rows outside the log."""
    seq, ranker, kind, served, clicks, payload, at = event
    payload = _lasting(kind, payload)
    fields = _FIELDS.pack(before, seq, ranker, kind, served, at, len(clicks), len(payload))
    return blake2b(b"".join((fields, clicks, payload, claim)), digest_size=SIZE).digest() + claim


def follows(before: bytes, event: Event, mark: bytes, notes: dict[int, bytes]) -> bool:
    """Whether an event has the link ``mark`` after the event with the digest ``before``.

    ``notes`` has the :func:`replaced` digests of events that were replaced after they were written.
    """
    return link(before, event, mark[SIZE:]) == mark or (event.seq in notes and replaced(event, mark) == notes[event.seq])


def replaced(event: Event, mark: bytes) -> bytes:
    """The note about an event that replaces the one whose link is ``mark``."""
    return link(mark[:SIZE], event, mark[SIZE:])[:SIZE]


def unpack_notes(stored: bytes | None) -> dict[int, bytes]:
    """The :func:`replaced` digests in the note, by event."""
    return {} if stored is None else msgspec.msgpack.decode(stored, type=dict[int, bytes])


def _lasting(kind: int, payload: bytes) -> bytes:
    """The part of a payload that is digested: for a slate, what remains when its subject is erased (``trial.py``)."""
    if kind != Kind.SERVED or not has_trial(payload):
        return payload
    try:
        return erased(payload)
    except ValueError:  # the payload was altered
        return payload


def links(before: bytes, events: list[Event], claims: list[bytes]) -> list[bytes]:
    """The links of consecutive events."""
    result = []
    for event, claim in zip(events, claims, strict=True):
        result.append(link(before, event, claim))
        before = result[-1][:SIZE]
    return result


_DIGEST = 8
"""Bytes of the digest of a slate's id in links of older versions."""


def slate_mark(slate: str) -> bytes:
    """The claim of a SERVED event: the slate's id, padded so that it never has the length of a digest."""
    name = slate.encode()
    return name + (b"\0\0" if len(name) == _DIGEST - 1 else b"\0")


def slate_of(claim: bytes) -> str | None:
    """The slate's id in the claim of its SERVED event; None if an older version wrote that."""
    return None if len(claim) == _DIGEST or not claim.endswith(b"\0") else _text(claim)


def _text(claim: bytes) -> str | None:
    try:
        return claim.rstrip(b"\0").decode()
    except UnicodeDecodeError:  # the log was altered
        return None


def slate_digest(slate: str) -> bytes:
    """The digest of a slate's id, which links of older versions have."""
    return blake2b(slate.encode(), digest_size=_DIGEST).digest()


def digest_in(claim: bytes) -> bytes:
    """The digest of a slate's id, from the claim of its SERVED event."""
    name = slate_of(claim)
    return claim if name is None else slate_digest(name)


def seal(fields: Iterable[tuple[Any, ...]]) -> bytes:
    """One digest for a set of stored events, independent of their order."""
    total = 0
    for row in fields:
        lasting = (*row[:5], _lasting(row[2], row[5]), *row[6:])
        total += int.from_bytes(blake2b(repr(lasting).encode(), digest_size=SIZE).digest(), "big")
    return (total % (1 << 8 * SIZE)).to_bytes(SIZE, "big")


def ranker_mark(number: int, name: str, digest: str, positions: int) -> bytes:
    """First part of the claim of a CREATED event: the ranker's row, as far as it outlives the ranker."""
    return blake2b(repr((number, name, digest, positions)).encode(), digest_size=SIZE).digest()


def catalogue_mark(config: bytes, parts: Iterable[bytes]) -> bytes:
    """Second part of the claim of a CREATED event: the settings and catalogue, which are deleted with the ranker."""
    whole = blake2b(struct.pack("<q", len(config)) + config, digest_size=SIZE)
    for part in parts:
        whole.update(part)
    return whole.digest()
