"""The probabilities of a slate, as the bytes that follow its items and marks in the log.

| bytes, for K positions and u marks | meaning |
|---|---|
| none | unknown: the algorithm cannot tell, or the slate was logged before probabilities were |
| 4 | 1 in single precision: the slate was certain |
| 8 | the joint probability, and the marginal one of all positions, in single precision |
| 12, 28, ... | the joint one, a bit per position whose marginal differs from that above, these in half precision, the length |
| 8, with last bit 1 | one block that tries one item, as a word of ``block_code.py`` |
| 8 u - 1, two blocks or more | a word per block; the word of the narrowest block comes last and has 56 bits |
| 4 n + 1 | marginal and conditional probabilities, if these do not follow from the others, and the length |

A slate without probabilities has 4 K + 16 u bytes, so that lengths alone tell the first four formats apart; negative numbers
of single precision do not occur. A length is stored in the last two bytes.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import apart
from recurrank.rankers.engines.propensity import given_above
from recurrank.serving.block_code import SHORT, WAYS, decode, encode

CERTAIN, COMMON, SINGLE = 4, 8, 12
"""Bytes beyond a multiple of 16 of the first formats."""
CODED = 0x80
"""Bit of the last byte that tells words of blocks from single precision."""

_random = np.random.default_rng()  # for rounding probabilities; no decision depends on it


class Chances(NamedTuple):
    """Of n slates: the marginal probability of each item at its position, the joint one, and each one given the items above.

    Shapes (n, K), (n,) and (n, K).
    """

    marginal: Floats
    joint: Floats
    given: Floats

    @staticmethod
    def empty(slates: int, positions: int) -> Chances:
        return Chances(np.empty((slates, positions)), np.empty(slates), np.empty((slates, positions)))


class Logged(NamedTuple):
    """The probabilities of a slate in the log; None for those that it does not have."""

    marginal: list[float | None] | None
    joint: float | None
    given: list[float] | None


NOTHING = Logged(None, None, None)


def pack(chances: Chances, used: Ints) -> list[bytes]:
    """The bytes of each slate; ``used`` is its number of marks."""
    marginal, joint, given = chances
    slates, positions = marginal.shape
    words, last = np.zeros((slates, positions), np.int64), np.zeros(slates, np.int64)
    coded, follow = np.zeros((2, slates), np.bool_)
    with np.errstate(under="ignore"):
        half = marginal.astype("<f2")
        _followed(half.astype(np.float64), joint.astype("<f4").astype(np.float64), given, follow)
        encode(marginal, given, used, _random.random((slates,)), WAYS, words, last, coded)
        other = given.astype("<f2")
    single, whole = marginal.astype("<f4"), joint.astype("<f4")
    new = np.ones(half.shape, np.bool_)
    new[:, 1:] = half[:, 1:] != half[:, :-1]
    bits = np.packbits(new, axis=1, bitorder="little")
    packed = []
    for i, different in enumerate(new.sum(axis=1).tolist()):
        if different == 1 and follow[i]:
            packed.append(whole[i].tobytes() + (single[i, 0].tobytes() if whole[i] != 1 else b""))
        elif coded[i]:
            packed.append(_words(words[i, : used[i]].tolist(), int(last[i])))
        else:
            body = whole[i].tobytes() + bits[i].tobytes() + half[i][new[i]].tobytes()
            if follow[i]:
                size = SINGLE + (max(0, len(body) + 2 - SINGLE) + 15) // 16 * 16
            else:
                body += other[i].tobytes()
                size = (len(body) + 2 + 2) // 4 * 4 + 1
            packed.append(body + bytes(size - 2 - len(body)) + size.to_bytes(2, "little"))
    return packed


@apart
def _followed(marginal: Floats, joint: Floats, given: Floats, follow: Any) -> None:
    """Find the slates whose conditional probabilities are unknown, or follow from the others as these are written."""
    derived = np.empty(marginal.shape[1])
    for i in range(len(marginal)):
        given_above(marginal[i], joint[i], len(derived), derived)
        follow[i] = True
        for k in range(len(derived)):
            follow[i] &= np.isnan(given[i, k]) or abs(derived[k] - given[i, k]) <= 2e-3 * given[i, k]


def _words(words: list[int], last: int) -> bytes:
    if len(words) == 1:
        return (words[0] | CODED << 56).to_bytes(8, "little")
    short = words.pop(last)
    whole = b"".join([word.to_bytes(8, "little") for word in words])
    return whole + (last * (SHORT // (len(words) + 1)) + short).to_bytes(7, "little")


def marks_size(payload: bytes, items: int) -> int:
    """Bytes of the marks of a packed slate whose items take ``items`` bytes; -1 for what cannot be a slate."""
    rest = len(payload) - items
    kind = rest & 15
    if kind == 0 or kind == CERTAIN:
        return rest - kind
    if kind == COMMON:
        return rest - kind  # also of one block
    if kind & 3 == 3:
        return (rest + 1) // 24 * 16 if (rest + 1) % 24 == 0 else -1
    size = int.from_bytes(payload[-2:], "little")
    if kind == SINGLE:
        return rest - size if size & 15 == SINGLE else -1
    return rest - size if kind & 3 == 1 and size & 3 == 1 else -1


def unpack(packed: bytes, positions: int) -> Logged:
    """The probabilities that were packed."""
    if not packed:
        return NOTHING
    if len(packed) & 3 == 3 or (len(packed) == COMMON and packed[-1] & CODED):
        return _of_blocks(packed, positions)
    joint = struct.unpack_from("<f", packed)[0]
    if len(packed) <= COMMON:
        return completed([struct.unpack_from("<f", packed, len(packed) - 4)[0]] * positions, joint)
    width = (positions + 7) // 8
    new = np.unpackbits(np.frombuffer(packed, np.uint8, width, 4), count=positions, bitorder="little")
    count = int(new.sum())
    half = np.frombuffer(packed, "<f2", count, 4 + width)
    marginal = half[np.cumsum(new, dtype=np.int64) - 1].astype(float).tolist()
    if len(packed) & 3 == 1:
        given = np.frombuffer(packed, "<f2", positions, 4 + width + 2 * count).astype(float).tolist()
        return Logged(marginal, joint, given)
    return completed(marginal, joint)


def _of_blocks(packed: bytes, positions: int) -> Logged:
    count, last = (len(packed) + 1) // 8, 0
    words = [int.from_bytes(packed[8 * b : 8 * b + 8], "little") for b in range(count)]
    if count == 1:
        words[0] &= (CODED << 56) - 1
    else:
        last, short = divmod(words.pop(), SHORT // count)
        words.insert(last, short)
    marginal, given = decode(np.array(words, np.int64), last, positions, WAYS)
    return Logged(marginal.tolist(), float(given.prod()), given.tolist())


def completed(marginal: list[float | None] | None, joint: float | None) -> Logged:
    """Add the conditional probabilities, if they follow from the others."""
    if marginal is None or joint is None or any(p is None or p != p for p in marginal):
        return Logged(marginal, joint, None)
    given = np.empty(len(marginal))
    known = _follow(np.array(marginal, float), joint, given)
    return Logged(marginal, joint, given.tolist() if known else None)


@apart
def _follow(marginal: Floats, joint: float, given: Floats) -> bool:
    return given_above(marginal, joint, len(marginal), given)
