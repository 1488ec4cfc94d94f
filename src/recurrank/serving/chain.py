"""The chain: every event carries a digest of the event before it and of its own fields, so that nothing can be changed unseen.

    digest(n) = BLAKE2b(digest(n - 1), every field of event n, what event n says about the rows beside the log)

The last part is kept with the digest, since those rows may be deleted one day: of SERVED the slate's id (a digest of it), of
LEARNED the status that the slate's row has from then on, of CREATED the ranker's row and its catalogue (digests of them).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b

from recurrank.serving.events import Event

SIZE = 16
START = bytes(SIZE)
"""Before the first event that is chained."""

_FIELDS = struct.Struct("<16sqqqqdII")


def link(before: bytes, event: Event, beside: bytes = b"") -> bytes:
    """An event's link: its digest, then what it says about the rows beside the log."""
    seq, ranker, kind, served, clicks, payload, at = event
    fields = _FIELDS.pack(before, seq, ranker, kind, served, at, len(clicks), len(payload))
    return blake2b(b"".join((fields, clicks, payload, beside)), digest_size=SIZE).digest() + beside


def links(before: bytes, events: list[Event], beside: list[bytes]) -> list[bytes]:
    """The links of events that follow one another."""
    made = []
    for event, says in zip(events, beside, strict=True):
        made.append(link(before, event, says))
        before = made[-1][:SIZE]
    return made


def slate_mark(slate: str) -> bytes:
    """What stands for a slate's id in the link of its SERVED event."""
    return blake2b(slate.encode(), digest_size=8).digest()


def ranker_mark(number: int, name: str, digest: str, positions: int) -> bytes:
    """What stands for a ranker's row, as it stays after the ranker is deleted, in the link of its CREATED event."""
    return blake2b(repr((number, name, digest, positions)).encode(), digest_size=SIZE).digest()


def catalogue_mark(config: bytes, parts: Iterable[bytes]) -> bytes:
    """The same for what is deleted with it."""
    whole = blake2b(struct.pack("<q", len(config)) + config, digest_size=SIZE)
    for part in parts:
        whole.update(part)
    return whole.digest()
