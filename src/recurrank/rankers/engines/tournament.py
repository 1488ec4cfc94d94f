"""The arm of largest index of each of K bandits, exactly, from about 2 sqrt(L) numbers per round.

An index grows with time. In some coordinate x of time it is a line or lies below one,

    index(x)  <=  base + rise x,

with equality for UCB1 (x = sqrt(c log t)) and a tangent for KL-UCB, whose index is concave in x = log t + 3 log log t. Arms
are kept in blocks of about sqrt(L). If from now to some x ahead one line of a block is clearly above the others, which needs
to be seen only at both ends, that arm leads its block till then, whatever happens elsewhere. If not, the block still stays
below the chord between its highest values at both ends. Arms of equal counts have equal lines; the first of them leads.

So a choice compares the lines of the blocks, and computes indices only where lines are too close to tell. An observation
changes one arm, hence one block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Counts, Floats, Ints
from recurrank._compiled import hot, inner, rare
from recurrank.rankers.engines.tracking import Changes, no_changes, touch

LEVEL, X, AHEAD, MARGIN = 0, 1, 2, 3
UNSEEN = 1e300
"""The index of an arm that was never chosen."""
LOW_BITS = 2**16 - 1
TRACKED = "seen", "clicks", "base", "rise"
SLACK = 1e-10
"""More, relative to 1 + index, than rounding and the overwritten low bits change."""


class Arms(NamedTuple):
    """K bandits of L arms in B blocks of S each; what fills up the last block is never chosen."""

    seen: Counts  # (K, B, S) how often each arm was chosen
    clicks: Counts  # (K, B, S) and rewarded
    base: Floats  # (K, B, S) its line
    rise: Floats  # (K, B, S)
    changes: Changes  # of these four, which copies track: ``TRACKED``
    block_base: Floats  # (K, B) the line that a block stays below
    block_rise: Floats  # (K, B)
    leader: Ints  # (K, B) the best arm of a block, or -1 if that may change
    # (4,) What the index depends on, x, x when all blocks are to be played anew, and by how much lines may be too high,
    # relative to 1 - index where that is positive: never growing.
    times: Floats


def in_blocks(items: int) -> tuple[int, int]:
    """B and S: as many blocks as there are arms in each, or nearly so."""
    size = math.isqrt(items - 1) + 1
    return -(-items // size), size


def no_arms(bandits: int, items: int) -> Arms:
    """Before any feedback."""
    blocks, size = in_blocks(items)
    shape = bandits, blocks, size
    base = np.full(shape, UNSEEN)
    base.reshape(bandits, -1)[:, items:] = -1.0
    return Arms(
        seen=np.zeros(shape, np.int32),
        clicks=np.zeros(shape, np.int32),
        base=base,
        rise=np.zeros(shape),
        changes=no_changes(base.size),
        block_base=np.zeros((bandits, blocks)),
        block_rise=np.zeros((bandits, blocks)),
        leader=np.zeros((bandits, blocks), np.int64),
        times=np.zeros(4),
    )


@inner
def _highest(base: Floats, rise: Floats, x: float) -> int:
    """The highest line at x, and the first of those that are equally high.

    Positive floats are ordered as their bits are. The last 16 bits, 1.5e-11 of a value, are overwritten by the number from
    the end: so it takes one maximum of integers, which the processor computes several at a time.
    """
    high, last = 0, len(base) - 1
    for i in range(len(base)):
        bits = np.float64(base[i] + rise[i] * x).view(np.int64)
        high = max(high, int(bits & ~LOW_BITS) | (last - i))
    return int(last - (high & LOW_BITS))


@inner
def _less(value: float, margin: float) -> float:
    """Clearly below an index; concave, so what is below it at both ends of a line is so between them."""
    return value - SLACK * (1 + value) - margin * max(1 - value, 0.0)


def tournament(
    index: Callable[[int, int, float], float],
    line: Callable[[int, int, float, float], tuple[float, float]],
    reaches: Callable[[int, int, float, float], bool],
) -> tuple[Callable[[Arms, int], int], Callable[[Arms, int, int, bool], None], Callable[[Arms, int, int], None]]:
    """Compiled functions for bandits with some index, that read the time from ``arms.times``.

        best(arms, k) -> item                the arm of largest index of bandit k
        observe(arms, k, item, clicked)      one more reward of an arm, or none; after it, its block is to be played
        play(arms, k, b)                     the line of block b, and its leader

    Args:
        index: ``index(seen, clicks, level)``, the index of an arm that was seen.
        line: ``line(seen, clicks, level, hint)``, base and rise of a line that it stays below from now on, and is close to;
            the hint is what it may be close to.
        reaches: ``reaches(seen, clicks, level, q)``, whether it is at least q; asked where q is only a little below the line.

    """

    @hot
    def play(arms: Arms, k: int, b: int) -> None:
        base, rise, x, ahead, margin = arms.base[k, b], arms.rise[k, b], arms.times[X], arms.times[AHEAD], arms.times[MARGIN]
        first = _highest(base, rise, x)
        first_base, first_rise = base[first], rise[first]
        now, then = first_base + first_rise * x, first_base + first_rise * ahead
        low, low_then = _less(now, margin), _less(then, margin)
        rivals = 0
        for i in range(len(base)):
            close = (base[i] + rise[i] * x >= low) | (base[i] + rise[i] * ahead >= low_then)
            rivals += close & ((base[i] != first_base) | (rise[i] != first_rise))
        if rivals == 0:
            arms.block_base[k, b], arms.block_rise[k, b], arms.leader[k, b] = first_base, first_rise, b * len(base) + first
            return
        last = _highest(base, rise, ahead)
        then = base[last] + rise[last] * ahead
        slope = (then - now) / (ahead - x) if ahead > x else 0.0
        arms.block_base[k, b], arms.block_rise[k, b], arms.leader[k, b] = now - slope * x + SLACK * (1 + then), slope, -1

    @hot
    def best(arms: Arms, k: int) -> int:
        base, rise, leader, level, x = arms.block_base[k], arms.block_rise[k], arms.leader[k], arms.times[LEVEL], arms.times[X]
        first = _highest(base, rise, x)
        first_base, first_rise, item = base[first], rise[first], leader[first]
        low = _less(first_base + first_rise * x, arms.times[MARGIN])
        rivals = 0
        for b in range(len(base)):
            differs = (base[b] != first_base) | (rise[b] != first_rise) | (leader[b] < 0)
            rivals += (base[b] + rise[b] * x >= low) & differs
        if rivals == 0:
            i = item - first * arms.base.shape[2]
            seen, clicks = arms.seen[k, first, i], arms.clicks[k, first, i]
            if seen == 0 or reaches(seen, clicks, level, low):
                return int(item)
        return contest(arms, k, first)

    @rare
    def contest(arms: Arms, k: int, top: int) -> int:
        """The best arm, from the indices of all that may be it; the block ``top`` comes first, to set a high bar."""
        blocks, size, level, x = arms.leader.shape[1], arms.base.shape[2], arms.times[LEVEL], arms.times[X]
        winner, bar, bar_seen, bar_clicks, bar_base, bar_rise = -1, 0.0, -1, -1, -1.0, 0.0
        for turn in range(blocks + 1):
            b = top if turn == 0 else turn - 1
            if turn > 0 and (b == top or arms.block_base[k, b] + arms.block_rise[k, b] * x < _less(bar, 0.0)):
                continue
            base, rise, seen, clicks = arms.base[k, b], arms.rise[k, b], arms.seen[k, b], arms.clicks[k, b]
            for i in range(size):
                if base[i] + rise[i] * x < _less(bar, 0.0):
                    continue
                item = b * size + i
                if (seen[i] == bar_seen and clicks[i] == bar_clicks) or (base[i] == bar_base and rise[i] == bar_rise):
                    base[i], rise[i], winner = bar_base, bar_rise, min(item, winner)  # the same index
                    touch(arms.changes, k * blocks * size + item)
                    continue
                value = UNSEEN
                if seen[i] > 0:
                    base[i], rise[i] = line(seen[i], clicks[i], level, base[i] + rise[i] * x)
                    touch(arms.changes, k * blocks * size + item)
                    if base[i] + rise[i] * x < _less(bar, 0.0):
                        continue
                    value = index(seen[i], clicks[i], level)
                if winner < 0 or value > bar or (value == bar and item < winner):
                    winner, bar, bar_seen, bar_clicks, bar_base, bar_rise = item, value, seen[i], clicks[i], base[i], rise[i]
            play(arms, k, b)
        return winner

    @hot
    def observe(arms: Arms, k: int, item: int, clicked: bool) -> None:
        b = item // arms.base.shape[2]
        i = item - b * arms.base.shape[2]
        touch(arms.changes, (k * arms.base.shape[1] + b) * arms.base.shape[2] + i)
        arms.seen[k, b, i] += 1
        arms.clicks[k, b, i] += clicked
        before = arms.base[k, b, i] + arms.rise[k, b, i] * arms.times[X]
        line_now = line(arms.seen[k, b, i], arms.clicks[k, b, i], arms.times[LEVEL], before)
        arms.base[k, b, i], arms.rise[k, b, i] = line_now

    return best, observe, play
