"""Uniform numbers of a PCG64 generator, the same as ``Generator.random`` gives, computed in batches by compiled code.

A step of PCG64 (O'Neill 2014) is s <- M s + c modulo 2^128; its output is the xor of the two halves of s, rotated by the six
highest bits. Each step waits for the product of the last one, and calling NumPy's function for each number costs as much
again. So four sequences, each of every fourth state, advance side by side here:

    s_{n + 4} = M^4 s_n + (M^3 + M^2 + M + 1) c.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from recurrank._arrays import Floats, Ints
from recurrank._compiled import PART, contributes, inner, natural, rare

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
LANES, WORD, MODULUS = 4, 2**64 - 1, 2**128
AT_ONCE = 512
"""Smallest number of values computed at a time; a multiple of LANES."""
NEXT, STOP = 0, 1
FACTOR, SUMMAND = LANES, LANES + 1


class Uniforms(NamedTuple):
    """The next numbers of a generator, for compiled code; the generator itself does not advance.

    Compiled code takes one with :func:`uniform`, or several with :func:`ahead` and :func:`nth`.
    """

    values: Floats  # (2 N,) holds the values that were computed and not yet taken
    bits: NDArray[np.uint64]  # (N,) outputs of the generator, before they become numbers
    lanes: NDArray[np.uint64]  # (LANES + 2, 2) low and high halves: the next state of each lane, M^4, and the summand
    counts: Ints  # (2,) indices of the next value to take, and of the end of the values

    @classmethod
    def of(cls, rng: np.random.Generator, together: int) -> Uniforms:
        """The next numbers of ``rng``, a PCG64 generator; :func:`ahead` asks for at most ``together``."""
        start: Any = rng.bit_generator.state["state"]
        state, step, factor, summand = start["state"], start["inc"], 1, 0
        halves = []
        for _ in range(LANES):
            state = (MULTIPLIER * state + step) % MODULUS
            factor, summand = MULTIPLIER * factor % MODULUS, (MULTIPLIER * summand + step) % MODULUS
            halves.append((state & WORD, state >> 64))
        halves += [(factor & WORD, factor >> 64), (summand & WORD, summand >> 64)]
        many = max(AT_ONCE, -(-together // LANES) * LANES)
        return cls(np.empty(2 * many), np.empty(many, np.uint64), np.array(halves, np.uint64), np.zeros(2, np.int64))


def _product_and_sum(typing: Any, low: Any, high: Any, by_low: Any, by_high: Any, plus_low: Any, plus_high: Any) -> Any:
    """A product and a sum of 128-bit numbers, each given by its halves."""
    word, long = ir.IntType(64), ir.IntType(128)

    def generate(context: Any, builder: Any, signature: Any, halves: Any) -> Any:
        def number(low: Any, high: Any) -> Any:
            return builder.or_(builder.zext(low, long), builder.shl(builder.zext(high, long), ir.Constant(long, 64)))

        value, factor, summand = (number(*halves[i : i + 2]) for i in (0, 2, 4))
        result = builder.add(builder.mul(value, factor), summand)
        parts = builder.trunc(result, word), builder.trunc(builder.lshr(result, ir.Constant(long, 64)), word)
        return context.make_tuple(builder, signature.return_type, parts)

    pair = cast(Any, types.Tuple)([types.uint64, types.uint64])
    return pair(*6 * [types.uint64]), generate


_multiply_add: Any = intrinsic(_product_and_sum)


@inner
def _output(low: np.uint64, high: np.uint64) -> np.uint64:
    mixed, turn = low ^ high, high >> np.uint64(58)
    return (mixed >> turn) | (mixed << ((np.uint64(64) - turn) & np.uint64(63)))


@rare
def _fill(source: Uniforms) -> None:
    """Compute more values, and put them after those that are left."""
    values, bits, lanes, counts = source.values, source.bits, source.lanes, source.counts
    left = counts[STOP] - counts[NEXT]
    for n in range(left):
        values[n] = values[counts[NEXT] + n]
    a0, a1, b0, b1 = lanes[0, 0], lanes[0, 1], lanes[1, 0], lanes[1, 1]
    c0, c1, d0, d1 = lanes[2, 0], lanes[2, 1], lanes[3, 0], lanes[3, 1]
    m0, m1, s0, s1 = lanes[FACTOR, 0], lanes[FACTOR, 1], lanes[SUMMAND, 0], lanes[SUMMAND, 1]
    for n in range(0, len(bits), LANES):
        bits[natural(n)], bits[natural(n + 1)] = _output(a0, a1), _output(b0, b1)
        bits[natural(n + 2)], bits[natural(n + 3)] = _output(c0, c1), _output(d0, d1)
        a0, a1 = _multiply_add(a0, a1, m0, m1, s0, s1)
        b0, b1 = _multiply_add(b0, b1, m0, m1, s0, s1)
        c0, c1 = _multiply_add(c0, c1, m0, m1, s0, s1)
        d0, d1 = _multiply_add(d0, d1, m0, m1, s0, s1)
    lanes[0, 0], lanes[0, 1], lanes[1, 0], lanes[1, 1] = a0, a1, b0, b1
    lanes[2, 0], lanes[2, 1], lanes[3, 0], lanes[3, 1] = c0, c1, d0, d1
    for n in range(len(bits)):  # the 53 highest bits
        values[natural(left + n)] = np.int64(bits[natural(n)] >> np.uint64(11)) * 2.0**-53
    counts[NEXT], counts[STOP] = 0, left + len(bits)


@inner
def _reserved(source: Uniforms, count: int) -> int:
    """Take the next ``count`` values; return the index of the first."""
    if source.counts[NEXT] + count > source.counts[STOP]:
        _fill(source)
    first = source.counts[NEXT]
    source.counts[NEXT] = first + count
    return int(first)


class _Compiled:
    """The functions in code that takes :class:`Uniforms`."""

    reserved = _reserved


contributes(Uniforms, _Compiled)


def uniform(rng: Any) -> float:
    """The next number in [0, 1): of a generator or, in compiled code, of :class:`Uniforms`."""
    return float(rng.random())


def ahead(rng: Any, count: int) -> int:
    """Reserve the next ``count`` numbers for :func:`nth`; return the index of the first."""
    return 0


def nth(rng: Any, first: int, n: int) -> float:
    """The n-th of the numbers that :func:`ahead` reserved; take each of them once, in order."""
    return float(rng.random())


@overload(uniform, jit_options=PART, strict=False)
def _uniform(rng: Any) -> Any:
    if isinstance(rng, types.NumPyRandomGeneratorType):
        return lambda rng: rng.random()
    return lambda rng: rng.values[natural(_reserved(rng, 1))]


@overload(ahead, jit_options=PART, strict=False)
def _ahead(rng: Any, count: Any) -> Any:
    if isinstance(rng, types.NumPyRandomGeneratorType):
        return lambda rng, count: 0
    return lambda rng, count: _reserved(rng, count)


@overload(nth, jit_options=PART, strict=False)
def _nth(rng: Any, first: Any, n: Any) -> Any:
    if isinstance(rng, types.NumPyRandomGeneratorType):
        return lambda rng, first, n: rng.random()
    return lambda rng, first, n: rng.values[natural(first + n)]
