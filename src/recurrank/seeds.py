"""Random streams, each derived from a seed and the name of its consumer.

People give the same seed to everything. So a seed is not used as it is: each consumer derives its stream from the seed *and
its own name*, and equal seeds give independent streams to a problem, a ranker and its users. The name is hashed into the
spawn key of NumPy's ``SeedSequence``, followed by whatever else distinguishes two streams of one consumer (a split, the round
at which users arrive).

| consumer | draws |
|---|---|
| ``problem`` | features and theta |
| ``items`` | the order of a problem's items |
| ``ranker`` | all random choices of an algorithm |
| ``users``, round | clicks, from that round of the ranker on |
| ``design`` | a volumetric spanner |
| ``assumptions`` | rankings to check a click model on |
| ``views`` | slates of a service |
| ``bootstrap`` | samples of runs, for intervals |
| ``demo`` | invented films and their titles |
"""

from __future__ import annotations

import zlib

import numpy as np

Seed = int | np.random.SeedSequence | None


class Given(np.random.SeedSequence):
    """A sequence used as it is, without the consumer's name, as in version 0.1.0, whose logs must fold to the same states."""


def as_seed(seed: object) -> np.random.SeedSequence:
    """A seed sequence: the given one, one made from a whole number of at least 0, or (for None) a fresh one."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if seed is None:
        return np.random.SeedSequence()
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed: {seed!r} is not a seed; give a whole number of at least 0, or a SeedSequence")
    return np.random.SeedSequence(int(seed))


def sequence(seed: object, consumer: str, *more: int) -> np.random.SeedSequence:
    """The seed sequence of a consumer; ValueError for anything but a seed.

    >>> sequence(3, "ranker").generate_state(1) == sequence(3, "users", 0).generate_state(1)
    array([False])
    """
    root = as_seed(seed)
    if isinstance(root, Given):
        return root
    key = (*root.spawn_key, zlib.crc32(consumer.encode()), *more)
    return np.random.SeedSequence(root.entropy, spawn_key=key, pool_size=root.pool_size)


def stream(seed: object, consumer: str, *more: int) -> np.random.Generator:
    """The random stream of a consumer. A Generator instead of a seed is used as it is."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.Generator(np.random.PCG64(sequence(seed, consumer, *more)))
