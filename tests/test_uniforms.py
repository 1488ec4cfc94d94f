"""Numbers made by compiled code against those of NumPy's generator."""

import numpy as np
import pytest

from recurrank._arrays import Floats
from recurrank._compiled import loop
from recurrank._uniforms import AT_ONCE, Uniforms, ahead, nth, uniform


@loop
def taken(rng, several: int, out: Floats) -> None:
    """One number and ``several`` together, in turn."""
    n = 0
    while n < len(out):
        if n + 1 + several > len(out) or several == 0:
            out[n] = uniform(rng)
            n += 1
            continue
        out[n] = uniform(rng)
        first = ahead(rng, several)
        for k in range(several):
            out[n + 1 + k] = nth(rng, first, k)
        n += 1 + several


@pytest.mark.parametrize("several", [0, 1, 10, 511, 512, 513, 1001])
def test_they_are_those_of_the_generator(several):
    rng, count = np.random.Generator(np.random.PCG64(several + 5)), 5 * AT_ONCE + 3
    rng.random(several)  # not from its start
    found, expected = np.empty(count), np.empty(count)
    taken(Uniforms.of(rng, several), several, found)
    taken(rng, several, expected)
    other = np.random.Generator(np.random.PCG64(several + 5))
    other.random(several)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, other.random(count))
