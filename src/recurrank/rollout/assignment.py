"""Who gets the ranker: a stable share of the visitors, by a hash.

The arm of a subject follows from its id, the experiment's name and the share alone: every server gives the same answer, and a
replay repeats it. A subject that has the ranker keeps it when the share grows. Experiments with other names divide the same
subjects independently of each other.
"""

from __future__ import annotations

import hashlib

from recurrank.rollout.sequence import ArmName


def arm_of(subject: str, share: float, experiment: str) -> ArmName:
    """The arm of a subject (a visitor, a session or a slate) when this share of all subjects gets the ranker.

    >>> [arm_of(f"visitor-{n}", 0.5, "spring") for n in range(4)]
    ['baseline', 'ranker', 'ranker', 'ranker']
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; it should be between 0 and 1")
    # the length keeps ("ab", "c") and ("a", "bc") apart
    text = f"{len(experiment)}:{experiment}{subject}".encode()
    point = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    return "ranker" if point < share * 2**64 else "baseline"
