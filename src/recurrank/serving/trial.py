"""What a slate's event says beside the slate: whom it was for, its part in an experiment, the ids of its items.

It follows the slate, with its length in the last four bytes. The fourth byte tells whether it is there: its two highest bits
are equal in a slate alone, whose first number is an item (below 2^30) or a small negative one, and differ where a trial
follows.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Literal

import msgspec

Arm = Literal["", "baseline", "ranker", "interleaved"]
_FLAG = 0x40
SALT = 8
"""Bytes of a salt."""


class Trial(msgspec.Struct, array_like=True, frozen=True):
    """Beside a slate. The fields' order is on disk; new ones go to the end, with defaults.

    Attributes:
        subject: whom the slate was for, where that was said.
        arm: whose order was shown; empty outside an experiment.
        would_show: the ids that the ranker would have shown, in shadow mode.
        credit: of interleaved slates, how probable it is that the ranker contributed the item at each position.
        salt: random, where there is a subject; where the subject was erased, a digest of both, which stands for them.
        names: the ids of what it shows, where items have come or gone, so that an index may have been another item's.
        unit: of the subject, in an experiment: each is compared once. It stays when the subject is erased.

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
    """Without last fields that say nothing, as older versions wrote it: links of the chain are made of these bytes."""
    if trial.unit is not None:
        return _encode(trial)
    fields = [trial.subject, trial.arm, trial.would_show, trial.credit, trial.salt]
    return _encode(fields if trial.names is None else [*fields, trial.names])


def attach(slate: bytes, trial: Trial) -> bytes:
    """A packed slate and what is beside it; names that are beside it already stay there.

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
    """Whether something stands beside the slate. Four bytes are enough to tell."""
    return len(payload) >= 4 and payload[3] >> 6 in (1, 2)


def bare(payload: bytes) -> bytes:
    """The slate alone; ValueError for bytes that cannot be one."""
    if not has_trial(payload):
        return payload
    return payload[:3] + bytes((payload[3] ^ _FLAG,)) + payload[4 : _end(payload)]


def trial_of(payload: bytes) -> Trial:
    """What stands beside the slate; an empty one where nothing does. ValueError for bytes that cannot be one."""
    if not has_trial(payload):
        return NOTHING
    try:
        return _unpack(memoryview(payload)[_end(payload) : -4])
    except msgspec.MsgspecError as error:
        raise ValueError(f"slate: what stands beside it cannot be read ({error})") from error


def erased(payload: bytes) -> bytes:
    """The same without its subject: a digest stands for it, from which it cannot be guessed, since the salt is gone, too.

    The chain is made of this form of every slate (``chain.py``), so that erasing a subject does not break it.

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
    """The same for good: a subject that was written without a salt, as versions before this one did, goes as well.

    The chain was made of that one, so that whoever replaces it has to say so (``chain.replaced``).
    """
    trial = trial_of(payload)
    if trial.subject is None or trial.salt is not None:
        return erased(payload)
    return attach(bare(payload), msgspec.structs.replace(trial, subject=None))


def _end(payload: Any) -> int:
    """Where the slate ends."""
    end = len(payload) - 4 - int.from_bytes(payload[-4:], "little")
    if end < 4:
        raise ValueError("slate: what stands beside it is longer than the whole")
    return end


NOTHING = Trial()
