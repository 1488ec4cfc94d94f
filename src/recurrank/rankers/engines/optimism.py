"""Optimism without arrays of logarithms: the K largest indices, exactly, computing only the few that matter.

Many algorithms show the K items of largest index, an upper confidence bound that grows with time (through f(t), such as
log t) for every item, seen or not. Computing all L of them each round is what makes published code slow. Every such
index is a concave function of f, so its value and slope at some earlier f0 bound it now:

    value(f0)  <=  index(f)  <=  value(f0) + (f - f0) slope(f0).

Items are put in order by these bounds; only where they overlap are indices computed. Nor are all bounds looked at each
round. A look at all keeps the items that could come near the K-th best index before f has grown by a little, in steps by
how near. A step takes part in the choice only when the K-th best index has come down to it, and while that index stays
above what all others can reach, nothing else is looked at. Items with the same statistics have the same index: those that
tie with the K-th best, often hundreds, wait in a row, by item index, where one that is not chosen stands for all behind it.
The choice is exactly that of computing all; ties go to the smaller item index.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import hot, inner, rare

BELOW, UNTIL, MARGIN, LOOKED, BAR, LAST = 0, 1, 2, 3, 4, 5
PART, ROW, CHOICES, STEP, ENDS = 0, 1, 2, 3, 4
AWAY, TAKES_PART, TIED, FELL = 0, 1, 2, 3
STEPS = 64
"""Number of steps in which near items wait."""
STAY = 40
"""Choices from one look at all items to the next, unless bounds fail before."""
CROWD = 16
"""Items that take part, per position, from which a ranker that only learns sorts them."""
STEEP = 1e290
"""A slope that bounds nothing (but times zero is zero)."""
ROUNDING = 1e-12
"""Bounds closer than this decide nothing, since they are sums of rounded numbers."""


class Beliefs(NamedTuple):
    """The statistics of each item, and the bounds on its index. An algorithm's state holds one of these."""

    seen: Ints  # (L,) observations
    clicks: Ints  # (L,) clicks among them
    value: Floats  # (L,) the index when it was last computed; infinite for items never seen
    slope: Floats  # (L,) its slope in f then
    when: Floats  # (L,) f then; -1 for items observed since
    near: Ints  # (3 L,) those that take part, first the K best in order; from L the steps, up to 2 L the row of ties; scratch
    inside: Ints  # (L,) AWAY or on a step; TAKES_PART; TIED, in the row; FELL, it took part since the last look at all
    reach: Floats  # (6,) what those away stay below; until which f; their margin; f at the last look; its bar; the last bar
    counts: Ints  # (4 + STEPS,) how many take part, the row's begin, choices since the last look, the next step, steps' ends
    best: Ints  # (K,) the last choice, best first
    score: Floats  # (K,) its indices, for algorithms that keep them
    clock: Ints  # (1,) slates served


def no_beliefs(items: int, positions: int) -> Beliefs:
    """Before any feedback."""
    return Beliefs(
        seen=np.zeros(items, np.int64),
        clicks=np.zeros(items, np.int64),
        value=np.full(items, np.inf),
        slope=np.zeros(items),
        when=np.zeros(items),
        near=np.zeros(3 * items, np.int64),
        inside=np.zeros(items, np.int64),
        reach=np.array([np.inf, -1.0, 0.01, 0.0, np.inf, np.inf]),
        counts=np.array([0, 2 * items, 0, STEPS] + STEPS * [0]),
        best=np.arange(positions),
        score=np.zeros(positions),
        clock=np.zeros(1, np.int64),
    )


@inner
def observe(beliefs: Beliefs, item: int, clicked: bool) -> None:
    """One more observation of an item: its index is unknown until it is computed again."""
    beliefs.seen[item] += 1
    beliefs.clicks[item] += clicked
    beliefs.when[item] = -1.0
    if beliefs.inside[item] != TAKES_PART:  # an answer to an old slate can bring anything near
        beliefs.inside[item] = TAKES_PART
        beliefs.near[beliefs.counts[PART]] = item
        beliefs.counts[PART] += 1


@inner
def crowded(beliefs: Beliefs) -> bool:
    """Whether so many items were observed since the last choice that every copy would have to sort them.

    Only then does a ranker that learns what its copies have served make a choice of its own, which it does not show.
    """
    return bool(beliefs.counts[PART] > CROWD * len(beliefs.best))


@hot
def insert(best: Ints, score: Floats, count: int, item: int, index: float) -> int:
    """Put an item into a list of the best so far, sorted by index and then by item; return its new length."""
    size = len(best)
    if count == size:
        if index < score[size - 1] or (index == score[size - 1] and item > best[size - 1]):
            return count
        count -= 1
    k = count
    while k > 0 and (score[k - 1] < index or (score[k - 1] == index and best[k - 1] > item)):
        best[k], score[k] = best[k - 1], score[k - 1]
        k -= 1
    best[k], score[k] = item, index
    return count + 1


@inner
def most(beliefs: Beliefs, item: int, f: float) -> float:
    """An upper bound on the index."""
    return float(beliefs.value[item] + (f - beliefs.when[item]) * beliefs.slope[item])


@inner
def narrow(beliefs: Beliefs, bar: float) -> None:
    """Set the margin below the bar, as wide as keeps the near items few."""
    reach, items, size = beliefs.reach, len(beliefs.value), len(beliefs.best)
    row = 2 * items - beliefs.counts[ROW]
    reach[BAR], reach[BELOW] = bar, bar
    if math.isinf(bar):
        return
    for _ in range(40):
        reach[BELOW], count = bar - reach[MARGIN], 0
        for item in range(items):
            count += most(beliefs, item, reach[UNTIL]) >= reach[BELOW] and beliefs.inside[item] == AWAY
        if count > 6 * size + items // 4 and reach[MARGIN] > 1e-9:
            reach[MARGIN] /= 2
        elif count + row < size and reach[MARGIN] < 1.0:
            reach[MARGIN] *= 4
        else:
            return


@inner
def step_of(beliefs: Beliefs, item: int) -> int:
    """Where a near item waits: step 0 has all from the bar up, step s what is up to bar - (s - 1) margin / (STEPS - 1)."""
    bar, bound = beliefs.reach[BAR], most(beliefs, item, beliefs.reach[UNTIL])
    return 0 if bound >= bar else min(1 + int((bar - bound) * ((STEPS - 1) / beliefs.reach[MARGIN])), STEPS - 1)


@inner
def spread(beliefs: Beliefs) -> None:
    """Sort those that are near into steps, by counting."""
    near, reach, counts, items = beliefs.near, beliefs.reach, beliefs.counts, len(beliefs.value)
    end = 2 * items
    for item in range(items):  # without a branch, which would be guessed wrong often
        near[end] = item
        end += (beliefs.inside[item] == AWAY) & (most(beliefs, item, reach[UNTIL]) >= reach[BELOW])
    for step in range(STEPS):
        counts[ENDS + step] = 0
    for n in range(2 * items, end):
        step = step_of(beliefs, near[n])
        if step + 1 < STEPS:
            counts[ENDS + step + 1] += 1
    counts[ENDS] = items
    for step in range(1, STEPS):
        counts[ENDS + step] += counts[ENDS + step - 1]
    for n in range(2 * items, end):  # each step's end moves from where the step begins to where it ends
        step = step_of(beliefs, near[n])
        near[counts[ENDS + step]] = near[n]
        counts[ENDS + step] += 1
    counts[STEP] = 0


def selector(index: Callable[..., tuple[float, float]], same: Callable[..., bool]) -> Callable[[Any, Beliefs, float], None]:
    """A compiled ``choose(state, beliefs, f)`` for an index ``index(state, item, f) -> (value, slope)``.

    ``same(state, a, b)`` tells whether two items have the same statistics and so the same index. ``choose`` leaves the K best
    items in ``beliefs.best``.
    """

    @inner
    def refresh(state: Any, beliefs: Beliefs, item: int, f: float) -> None:
        beliefs.value[item], beliefs.slope[item] = index(state, item, f)
        beliefs.when[item] = f

    @inner
    def before(state: Any, beliefs: Beliefs, a: int, b: int, f: float) -> bool:
        """Whether the index of a is larger than that of b, or equal and a is smaller."""
        value, when = beliefs.value, beliefs.when
        if value[a] > most(beliefs, b, f) + ROUNDING:
            return True
        if value[b] > most(beliefs, a, f) + ROUNDING:
            return False
        if not same(state, a, b):
            if when[a] != f:
                refresh(state, beliefs, a, f)
            if when[b] != f:
                refresh(state, beliefs, b, f)
            if value[a] != value[b]:
                return bool(value[a] > value[b])
        return a < b

    @inner
    def take(state: Any, beliefs: Beliefs, item: int, f: float) -> None:
        """Add an item to the active list: in order if it is one of the K best so far, else behind them."""
        near, last, k = beliefs.near, len(beliefs.best) - 1, beliefs.counts[PART]
        beliefs.inside[item] = TAKES_PART
        beliefs.counts[PART] += 1
        if k > last:
            if not before(state, beliefs, item, near[last], f):
                near[k] = item
                return
            near[k] = near[last]
            k = last
        while k > 0 and before(state, beliefs, item, near[k - 1], f):
            near[k] = near[k - 1]
            k -= 1
        near[k] = item

    @inner
    def settle(state: Any, beliefs: Beliefs, f: float) -> int:
        """Sort the active list again, without the items that fell below the bound of all the others.

        Those that fell well below the last choice are put aside, and counted: they are added when most others are better.
        """
        near, items, counts, reach = beliefs.near, len(beliefs.inside), beliefs.counts, beliefs.reach
        part, low, aside = counts[PART], reach[LAST] - reach[MARGIN] / 8, 0
        counts[PART] = 0
        for n in range(part):
            item = near[n]
            if beliefs.when[item] < 0:
                refresh(state, beliefs, item, f)
            if most(beliefs, item, reach[UNTIL]) < reach[BELOW]:
                beliefs.inside[item] = FELL
            elif most(beliefs, item, f) < low:
                near[2 * items + aside] = item
                aside += 1
            else:
                take(state, beliefs, item, f)
        return aside

    @inner
    def admit(state: Any, beliefs: Beliefs, f: float) -> None:
        """Add the waiting items that may be among the K best to the active list."""
        near, inside, value, reach, counts = beliefs.near, beliefs.inside, beliefs.value, beliefs.reach, beliefs.counts
        last, items = len(beliefs.best) - 1, len(inside)
        while counts[ROW] < 2 * items:
            item = near[counts[ROW]]
            if inside[item] == TIED:
                if counts[PART] > last and not before(state, beliefs, item, near[last], f):
                    break
                take(state, beliefs, item, f)
            counts[ROW] += 1
        done = True
        for step in range(counts[STEP], STEPS):
            top = reach[BAR] - (step - 1) * reach[MARGIN] / (STEPS - 1)
            if step > 0 and counts[PART] > last and top < value[near[last]] - ROUNDING:
                break
            begin = counts[ENDS + step - 1] if step > 0 else items
            for n in range(begin, counts[ENDS + step]):
                if inside[near[n]] == AWAY:
                    if counts[PART] > last and most(beliefs, near[n], f) < value[near[last]] - ROUNDING:
                        done = False  # it keeps waiting
                    else:
                        take(state, beliefs, near[n], f)
            counts[STEP] += done

    @inner
    def sure(state: Any, beliefs: Beliefs, f: float) -> bool:
        """Whether the K best of the active list are the K best of all."""
        last, value, least = len(beliefs.best) - 1, beliefs.value, beliefs.reach[BELOW] + ROUNDING
        if beliefs.counts[PART] <= last:
            return False
        if value[beliefs.near[last]] < least:  # an old bound
            refresh(state, beliefs, beliefs.near[last], f)
        return bool(value[beliefs.near[last]] >= least)

    @inner
    def line_up(state: Any, beliefs: Beliefs, tied: int) -> None:
        """Clear the active list; items that tie with one wait in the row: equal statistics, or equal and final indices."""
        value, slope, inside, counts = beliefs.value, beliefs.slope, beliefs.inside, beliefs.counts
        counts[PART], counts[ROW] = 0, 2 * len(inside)
        for item in range(len(inside) - 1, -1, -1):
            inside[item] = AWAY
            if same(state, item, tied) or (value[item] == value[tied] and slope[item] == 0.0 and slope[tied] == 0.0):
                inside[item] = TIED
                counts[ROW] -= 1
                beliefs.near[counts[ROW]] = item

    @rare
    def look_at_all(state: Any, beliefs: Beliefs, f: float) -> None:
        """Choose among all items, and keep those that may be chosen before the next such look."""
        near, reach, counts, last = beliefs.near, beliefs.reach, beliefs.counts, len(beliefs.best) - 1
        # Until f has grown by what it will in some tens of choices, unless the last look was good for far fewer.
        reach[UNTIL] = f + min(STAY / max(counts[CHOICES], 1), 3.0) * (f - reach[LOOKED])
        if counts[CHOICES] < STAY:
            reach[MARGIN] = min(2 * reach[MARGIN], 1.0)
        reach[LOOKED], counts[CHOICES] = f, 0
        bar, tied, tries = reach[BELOW], near[last], 0
        while True:
            tries += 1
            # The K-th best of all is not below the K-th best of some.
            if counts[PART] > last:
                bar = beliefs.value[near[last]]
            line_up(state, beliefs, tied)
            narrow(beliefs, bar)
            spread(beliefs)
            admit(state, beliefs, f)
            # With all taking part the choice is right too, only slow: it ends so if bars fail again and again.
            if sure(state, beliefs, f) and (bar > -np.inf or tries > 4):
                break
            bar = -np.inf  # fewer than K are that near: let all take part, then set a bar

    @inner
    def choose(state: Any, beliefs: Beliefs, f: float) -> None:
        near, reach, items = beliefs.near, beliefs.reach, len(beliefs.inside)
        aside = settle(state, beliefs, f)
        admit(state, beliefs, f)
        for n in range(aside):
            take(state, beliefs, near[2 * items + n], f)
        if not sure(state, beliefs, f) or f > reach[UNTIL] or beliefs.counts[CHOICES] >= STAY:
            look_at_all(state, beliefs, f)
        beliefs.counts[CHOICES] += 1
        for k in range(len(beliefs.best)):
            beliefs.best[k] = near[k]
        reach[LAST] = beliefs.value[near[len(beliefs.best) - 1]]

    return choose


@inner
def same_counts(state: Any, a: int, b: int) -> bool:
    """Whether two items have been seen and clicked equally often."""
    seen, clicks = state.beliefs.seen, state.beliefs.clicks
    return bool(seen[a] == seen[b] and clicks[a] == clicks[b])


@rare
def kl_upper(p: float, level: float) -> float:
    """The largest q in [p, 1] with kl(p, q) <= level, kl being the divergence of Bernoulli laws.

    Newton's method from the right of the solution, where kl(p, .) is convex and increasing: it never passes it. It starts
    from the smaller of two upper bounds. With v the largest x (1 - x) between p and q, kl(p, q) >= (q - p)^2 / 2v; and
    kl(p, q) >= -H(p) - (1 - p) log(1 - q).
    """
    if p >= 1.0:
        return 1.0
    if p <= 0.0:
        return 1.0 - math.exp(-level)
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    q = p + math.sqrt(level / 2)  # v = 1/4
    if p >= 0.5:
        q = p + math.sqrt(2 * p * (1 - p) * level)
    elif q < 0.5:
        q = p + math.sqrt(2 * q * (1 - q) * level)
    if q > 0.9:
        q = min(q, 1.0 - math.exp(-(level + entropy) / (1 - p)))
    if q >= 1.0:  # closer to 1 than a float can be
        return 1.0
    for _ in range(40):
        gap = -entropy - p * math.log(q) - (1 - p) * math.log(1 - q) - level
        step = gap * q * (1 - q) / (q - p) if q > p else 0.0
        q -= max(step, 0.0)
        if step <= 1e-9 * (1 - q):  # the next would be the square of it
            break
    return q


@hot
def kl_slope(p: float, q: float, seen: int) -> float:
    """D q / d f where seen * kl(p, q) = f."""
    if q >= 1.0:  # it cannot grow
        return 0.0
    if q - p < 1e-12:
        return STEEP
    return q * (1 - q) / (seen * (q - p))
