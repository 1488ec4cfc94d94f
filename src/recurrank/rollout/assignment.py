"""Assignment of visitors to arms: a stable share gets the ranker, by a hash.

The arm of a subject depends only on its id, the experiment's name and the share: every server computes the same arm, and so
does a replay. A subject that gets the ranker keeps it when the share grows. Experiments with different names divide the same
subjects independently of each other.
"""

from __future__ import annotations

import functools
import hashlib

from recurrank.rollout.sequence import ArmName

UNITS = 1 << 20
"""Number of units that subjects are hashed into, so that each counts once in a comparison: more than a comparison needs, and
the number of a unit identifies no one."""


def arm_of(subject: str, share: float, experiment: str) -> ArmName:
    """The arm of a subject (a visitor, a session or a slate) when this share of all subjects gets the ranker.

    >>> [arm_of(f"visitor-{n}", 0.5, "spring") for n in range(4)]
    ['baseline', 'ranker', 'ranker', 'ranker']
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; it should be between 0 and 1")
    return "ranker" if _hashed(subject, experiment) < share * 2**64 else "baseline"


def unit_of(subject: str, experiment: str) -> int:
    """The unit of a subject in this experiment, from 0 to ``UNITS - 1``.

    It is independent of the arm, which follows from the other end of the same hash.

    >>> [unit_of(f"visitor-{n}", "spring") for n in range(3)]
    [132909, 393514, 6406]
    """
    return _hashed(subject, experiment) % UNITS


def _hashed(subject: str, experiment: str) -> int:
    if not isinstance(subject, str) or not subject:
        raise ValueError(f"subject is {subject!r}; it should be a text that is not empty, such as the id of a visitor")
    return _digest(subject, experiment)


@functools.lru_cache(1024)  # a request needs both
def _digest(subject: str, experiment: str) -> int:
    # the length keeps ("ab", "c") and ("a", "bc") apart
    text = f"{len(experiment)}:{experiment}{subject}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
