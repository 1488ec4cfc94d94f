"""The trial of a slate, stored in the same payload: the slate's subject, its arm in an experiment, the ids of its items.

It follows the slate, with its length in the last four bytes. The two highest bits of the payload's fourth byte tell whether
there is one: they are equal in a bare slate, whose first number is an item (below 2^30) or a small negative number, and differ
if a trial follows.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Literal

import msgspec

Arm = Literal["", "baseline", "ranker", "interleaved"]
_FLAG = 0x40
SALT = 8
"""Size of a salt, in bytes."""


class Trial(msgspec.Struct, array_like=True, frozen=True):
    """What is stored with a slate. The fields' order is on disk; new ones go to the end, with defaults.

    Attributes:
        subject: the person the slate was for, if given.
        arm: whose order was shown; empty outside an experiment.
        would_show: the ids that the ranker would have shown, in shadow mode.
        credit: for interleaved slates, the probability that the ranker contributed the item at each position.
        salt: random bytes if there is a subject; after its erasure, a digest of both.
        names: the ids of the shown items, if items have changed, so that an index may have belonged to another item.
        unit: the subject's unit in an experiment: each is compared once. It stays when the subject is erased.

    """

    subject: str | None = None
    arm: Arm = ""
    would_show: list[str] | None = None
    credit: list[int | float] | None = None
    salt: bytes | None = None
    names: list[str] | None = None
    unit: int | None = None

    @property
    def foreign(self) -> bool:
        """Whether the ranker did not choose this order."""
        return self.arm in ("baseline", "interleaved")


_encode, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Trial).decode


def _pack(trial: Trial) -> bytes:
    """Omit empty last fields, as older versions did: links of the chain are computed from these bytes."""
    if trial.unit is not None:
        return _encode(trial)
    fields = [trial.subject, trial.arm, trial.would_show, trial.credit, trial.salt]
    return _encode(fields if trial.names is None else [*fields, trial.names])


def attach(slate: bytes, trial: Trial) -> bytes:
    """A packed slate with a trial; names that it already has are kept.

    >>> trial_of(attach(bytes(8), Trial("visitor-7"))).subject
    'visitor-7'
    """
    if has_trial(slate):
        slate, trial = bare(slate), msgspec.structs.replace(trial, names=trial_of(slate).names)
    if trial.subject is not None and trial.salt is None:
        trial = msgspec.structs.replace(trial, salt=secrets.token_bytes(SALT))
    packed = _pack(trial)
    return b"".join((slate[:3], bytes((slate[3] ^ _FLAG,)), slate[4:], packed, len(packed).to_bytes(4, "little")))


def has_trial(payload: bytes) -> bool:
    """Whether a trial follows the slate. The first four bytes are enough."""
    return len(payload) >= 4 and payload[3] >> 6 in (1, 2)


def bare(payload: bytes) -> bytes:
    """The slate without its trial; ValueError for malformed bytes."""
    if not has_trial(payload):
        return payload
    return payload[:3] + bytes((payload[3] ^ _FLAG,)) + payload[4 : _end(payload)]


def trial_of(payload: bytes) -> Trial:
    """The trial of a slate, by default an empty one. ValueError for malformed bytes."""
    if not has_trial(payload):
        return NOTHING
    try:
        return _unpack(memoryview(payload)[_end(payload) : -4])
    except msgspec.MsgspecError as error:
        raise ValueError(f"slate: its trial cannot be read ({error})") from error


def erased(payload: bytes) -> bytes:
    """The slate with its subject replaced by a digest, which cannot be inverted by guessing, since the salt is gone too.

    The chain is computed from this form of every slate (``chain.py``), so that erasing a subject does not break it.

    >>> slate = attach(bytes(8), Trial("visitor-7"))
    >>> b"visitor-7" in erased(slate), erased(erased(slate)) == erased(slate)
    (False, True)
    """
    trial = trial_of(payload)
    if trial.subject is None or trial.salt is None:
        return payload
    digest = hashlib.blake2b(trial.subject.encode(), key=trial.salt, digest_size=16).digest()
    return attach(bare(payload), msgspec.structs.replace(trial, subject=None, salt=digest))


def forgotten(payload: bytes) -> bytes:
    """The slate without its subject, even one written without a salt, as older versions did.

    The chain was computed from such a subject, so that its replacement must be noted (``chain.replaced``).
    """
    trial = trial_of(payload)
    if trial.subject is None or trial.salt is not None:
        return erased(payload)
    return attach(bare(payload), msgspec.structs.replace(trial, subject=None))


def _end(payload: Any) -> int:
    """Offset of the end of the slate."""
    end = len(payload) - 4 - int.from_bytes(payload[-4:], "little")
    if end < 4:
        raise ValueError("slate: its trial is longer than the whole")
    return end


NOTHING = Trial()
