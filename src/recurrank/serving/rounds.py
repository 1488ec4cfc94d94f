"""Many rounds in one compiled call: draw slates ahead, and fold events; compiled once for all rankers.

A round called from Python costs tens of microseconds, most of them for entering compiled code; a request has no more time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recurrank._addresses import call
from recurrank._arrays import Ints
from recurrank._compiled import inner, loop
from recurrank.rankers.dispatch import Buffer, Drawing, Folding, Round
from recurrank.serving.chances import Chances
from recurrank.serving.events import Kind
from recurrank.serving.tally import Tally, tally_round

SERVED, LEARNED, DROPPED = int(Kind.SERVED), int(Kind.LEARNED), int(Kind.DROPPED)
COUNT_ONLY = 16
"""Added to the kind of an event that is counted, but does not reach the ranker."""
DUE, STRANGE = 1, 2
GONE = -(1 << 31)
"""Stands for an item that was removed, or changed since it was shown."""


@loop
def draw(
    drawing: Drawing,
    drawn: Round,
    rng: np.random.Generator,
    items: Any,
    marks: Ints,
    used: Ints,
    chances: Chances,
    catalogue: Ints,
    share: float,
    certain: bool,
) -> None:
    """Draw as many slates as ``items`` has rows; ``used`` gets the number of valid rows of each slate's marks.

    A ``share`` of them is drawn uniformly from all slates of these items of the catalogue. ``certain`` says that the algorithm
    itself draws nothing at random, and cannot tell the probability of a slate that it did not rank.
    """
    slate, positions = drawn.slate, len(drawn.slate.items)
    for i in range(len(items)):
        call(drawing.recall)
        uniform = share > 0.0 and rng.random() < share
        if certain or not uniform:
            call(drawing.rank)
        for k in range(positions):
            items[i, k] = slate.items[k]
        if uniform:
            shuffle(rng, slate, catalogue)
        call(drawing.tell)
        call(drawing.tell_given)
        if share > 0.0:
            mix(drawn, items[i], len(catalogue), share, certain)
        chances.joint[i] = drawn.joint[0]
        used[i] = positions
        for k in range(positions):
            items[i, k] = slate.items[k]
            chances.marginal[i, k], chances.given[i, k] = drawn.marginal[k], drawn.given[k]
        for k in range(positions):
            if slate.marks[k, 0] < 0:
                used[i] = k
                break
            marks[i, k, 0], marks[i, k, 1] = slate.marks[k, 0], slate.marks[k, 1]


@inner
def shuffle(rng: np.random.Generator, slate: Buffer, catalogue: Ints) -> None:
    """Fill the slate with distinct items, drawn uniformly; no position is marked as explored."""
    for k in range(len(slate.items)):
        again = True
        while again:
            slate.items[k], again = catalogue[int(rng.random() * len(catalogue))], False
            for above in range(k):
                again |= slate.items[above] == slate.items[k]
    slate.marks[0, 0] = -1


@inner
def mix(drawn: Round, ranked: Any, catalogue: int, share: float, certain: bool) -> None:
    """Turn the probabilities of a slate under the algorithm into those under its mixture with uniform slates."""
    slate, marginal, given = drawn.slate, drawn.marginal, drawn.given
    same, uniform, own, above = True, share, 1.0 - share, 1.0
    for k in range(len(slate.items)):
        same &= slate.items[k] == ranked[k]
        uniform /= catalogue - k
        if certain:
            marginal[k] = 1.0 if slate.items[k] == ranked[k] else 0.0
            given[k] = 1.0 if same else 0.0
        marginal[k] = share / catalogue + (1 - share) * marginal[k]
        if own > 0.0:  # given impossible items above, it is undefined, and not needed
            own *= given[k]
        given[k] = (uniform + own) / above  # of the items down to here, over those above
        above = uniform + own
    if certain:
        drawn.joint[0] = 1.0 if same else 0.0
    drawn.joint[0] = uniform + (1 - share) * drawn.joint[0]


@loop
def fold(
    folding: Folding,
    answer: Round,
    kinds: Any,
    words: Any,
    ends: Ints,
    bits: Any,
    start: int,
    counts: Ints,
    shown: Ints,
    clicked: Ints,
    at: Ints,
    tally: Tally,
    why: Ints,
) -> int:
    """Fold events from ``start`` on, until one makes a decision due or is invalid; returns the number of events done.

    ``words`` are the slates of all events, concatenated, as 32-bit numbers: items, then marks, two words per number; ``ends``
    are the ends of the slates. ``bits`` has one row per event: a bit per position clicked, then one per position seen. ``why``
    gets the reason to stop before the end. From the first GONE item on, an answer is counted but teaches nothing.
    """
    slate, positions, why[0] = answer.slate, len(answer.clicks), 0
    for i in range(start, len(kinds)):
        begin = ends[i - 1] if i > 0 else 0
        for k in range(positions):
            item = words[begin + k]
            if not 0 <= item < len(shown) and item != GONE:
                why[0] = STRANGE
                return i
            slate.items[k] = item
        used = (ends[i] - begin - positions) // 4
        for k in range(used):
            for j in range(2):
                low, high = words[begin + positions + 4 * k + 2 * j], words[begin + positions + 4 * k + 2 * j + 1]
                slate.marks[k, j] = (np.int64(high) << 32) | (np.int64(low) & 0xFFFFFFFF)
        if used < positions:
            slate.marks[used, 0] = -1
        kind, reaches = kinds[i] % COUNT_ONLY, kinds[i] < COUNT_ONLY
        if kind == SERVED:
            if reaches:
                call(folding.served)
            counts[0] += 1
        elif kind == DROPPED:
            if reaches:
                call(folding.drop)
            counts[2] += 1
        else:
            seen, until, width = 0, positions, bits.shape[1] // 2
            for k in range(positions):
                click = (bits[i, k >> 3] >> (k & 7)) & 1
                visible = click | ((bits[i, width + (k >> 3)] >> (k & 7)) & 1)
                if (visible == 0 or slate.items[k] == GONE) and k < until:
                    until = k  # positions below were not seen, or in an unknown order
                answer.clicks[k] = click == 1
                seen += click
                at[k] += click
                if slate.items[k] != GONE:
                    shown[slate.items[k]] += visible
                    clicked[slate.items[k]] += click
            tally_round(tally, counts[1], seen, slate.items)
            counts[1] += 1
            counts[3] += seen
            answer.answered[0] = until
            if reaches and until == 0:
                call(folding.drop)
            elif reaches and call(folding.learn) == 1:
                why[0] = DUE
                return i + 1
    return len(kinds)
