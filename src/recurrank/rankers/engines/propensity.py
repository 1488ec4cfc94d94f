"""How probable a slate was, for the ways in which algorithms draw one.

A ranker's file has ``propensity(state, before, slate, marginal) -> joint``, compiled: it writes the probability of each item at
its position into ``marginal`` and returns that of the whole slate, for the state in which the slate was drawn. Where drawing
changes what the probabilities depend on, ``recall(state, before)`` has copied that before.

Any slate may be given, even one that the algorithm would never show: its joint probability is 0. NaN stands for a probability
without a known closed form.

``conditional(state, slate, marginal, joint, given)`` writes the probability of each item given those above it; their product is
the joint one. :func:`follows` is for algorithms where these follow from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recurrank._arrays import Floats, Ints
from recurrank._compiled import hot, inner

UNKNOWN = float("nan")
SAME, ROUNDED = 1e-6, 2e-3
"""Relative differences up to these are rounding: of joint probabilities, and of marginal ones (half precision in logs)."""
FIRST, WIDTH = 1, 2
"""Columns of ``state.block``: a block's first position and how many it has."""


@hot
def certain(state: Any, before: Floats, slate: Any, marginal: Floats) -> float:
    """For algorithms that draw nothing at random: the slate that they have shown was certain."""
    for k in range(len(marginal)):
        marginal[k] = 1.0
    return 1.0


@hot
def nothing_to_recall(state: Any, before: Floats) -> None:
    """For algorithms whose probabilities are the same before and after a slate was drawn."""


@hot
def follows(state: Any, slate: Any, marginal: Floats, joint: float, given: Floats) -> None:
    """For algorithms whose conditional probabilities follow from the others, or are not known."""
    given_above(marginal, joint, len(marginal), given)


@inner
def given_above(marginal: Floats, joint: float, size: int, given: Floats) -> bool:
    """The probabilities of a page's first ``size`` items given those above, where they follow from the others; else NaN.

    They do where positions are independent (the joint probability is the product of the marginal ones), where blocks of n
    items are shuffled (1 / n, 1 / (n - 1), ...), and where the first position that is not certain decides all others.
    """
    product, shuffled, begin, items, decided, first = 1.0, 1.0, 0, 1.0, 1.0, True
    for k in range(size):
        product *= marginal[k]
        if k >= begin + items:
            begin = k
        if k == begin:
            items = max(1.0, float(round(1.0 / max(marginal[k], 1e-12))))
        alike = abs(marginal[k] * items - 1.0) <= ROUNDED
        shuffled *= 1.0 / (items - (k - begin)) if alike else 0.0
        if first and marginal[k] < 1.0:
            decided, first = marginal[k], False
    independent = abs(product - joint) <= SAME * joint
    in_blocks = abs(shuffled - joint) <= SAME * joint
    by_one = abs(decided - joint) <= ROUNDED * joint
    known, begin, items, first = joint > 0.0 and (independent or in_blocks or by_one), 0, 1.0, True
    for k in range(size):
        if k >= begin + items:
            begin = k
        if k == begin:
            items = max(1.0, float(round(1.0 / max(marginal[k], 1e-12))))
        if not known:
            given[k] = UNKNOWN
        elif independent:
            given[k] = marginal[k]
        elif in_blocks:
            given[k] = 1.0 / (items - (k - begin))
        else:
            given[k] = joint if first and marginal[k] < 1.0 else 1.0
            first &= marginal[k] >= 1.0
    return known


@inner
def uniform(items: int, slate: Any, marginal: Floats) -> float:
    """The first K of a shuffle of L items: each is at each position with probability 1 / L."""
    joint = 1.0
    for k in range(len(marginal)):
        marginal[k] = 1.0 / items
        joint /= items - k
    return joint


@inner
def exactly(best: Ints, slate: Any) -> bool:
    """Whether the slate shows these items in this order."""
    same = True
    for k in range(len(slate.items)):
        same &= slate.items[k] == best[k]
    return same


@inner
def half_explored(best: Ints, at: int, count: int, explores: bool, slate: Any, marginal: Floats) -> float:
    """Half of the slates show the leaders; the other half one of ``count`` others at position ``at``.

    ``explores`` tells whether the item at that position is one of the others. Without others, all slates show the leaders.
    """
    chance = 0.5 / count if explores else 0.5 if count > 0 else 1.0
    joint = chance
    for k in range(len(marginal)):
        moved = explores and k > at
        if k == at:
            marginal[k] = chance if explores or slate.items[k] == best[k] else 0.0
        elif slate.items[k] == best[k]:
            marginal[k] = 0.5 if k > at and count > 0 else 1.0
        else:
            marginal[k] = 0.5 if k > at and count > 0 and slate.items[k] == best[k - 1] else 0.0
        if not (explores and k == at) and slate.items[k] != best[k - 1 if moved else k]:
            joint = 0.0
    return joint


def one_tried_per_block(share: Callable[..., float]) -> Any:
    """A compiled ``propensity`` for blocks that each draw one item for their first position, with the leaders below it.

    ``share(state, before, slate, b, item)`` is the probability that block b tries this item. Leaders a_0, a_1, ... of the block
    stand in order but for the tried one: with t its index among them, position j >= 1 shows a_(j-1) if t >= j (also where it
    is not among them), else a_j. With F_j = P(t < j), the sum of the shares of a_0, ..., a_(j-1), these have probabilities
    1 - F_j and F_j. Blocks are independent, and the tried item decides all of its block.
    """

    @hot
    def propensity(state: Any, before: Floats, slate: Any, marginal: Floats) -> float:
        items, leaders, joint = slate.items, state.leaders, 1.0
        for b in range(state.block.shape[0]):
            first, end = state.block[b, FIRST], state.block[b, FIRST] + state.block[b, WIDTH]
            tried = items[first]
            marginal[first] = share(state, before, slate, b, tried)
            joint *= marginal[first]
            moved, below = leaders[first] != tried, share(state, before, slate, b, leaders[first])
            for k in range(first + 1, end):
                marginal[k] = 0.0
                if items[k] == leaders[k - 1]:
                    marginal[k] = max(0.0, 1.0 - below)
                elif items[k] == leaders[k]:
                    marginal[k] = min(1.0, below)
                if items[k] != leaders[k - 1 if moved else k]:
                    joint = 0.0
                moved &= leaders[k] != tried
                below += share(state, before, slate, b, leaders[k])
        return joint

    return propensity


@hot
def by_tried_items(state: Any, slate: Any, marginal: Floats, joint: float, given: Floats) -> None:
    """The ``conditional`` of the same blocks: what each block tries is drawn, and decides what stands below it."""
    items, leaders = slate.items, state.leaders
    for b in range(state.block.shape[0]):
        first, end = state.block[b, FIRST], state.block[b, FIRST] + state.block[b, WIDTH]
        given[first], moved = marginal[first], leaders[first] != items[first]
        for k in range(first + 1, end):
            given[k] = 1.0 if items[k] == leaders[k - 1 if moved else k] else 0.0
            moved &= leaders[k] != items[first]
