"""Optimism without arrays of logarithms: the K largest indices, exactly, computing only the few that matter.

Many algorithms show the K items of largest index, an upper confidence bound that grows with time (through f(t), such as
log t) for every item, seen or not. Computing all L of them each round is what makes published code slow. Every such
index is a concave function of f, so its value and slope at some earlier f0 bound it now:

    value(f0)  <=  index(f)  <=  value(f0) + (f - f0) slope(f0),

and an item whose upper bound stays below the K-th best index computed so far cannot be shown. Nor need all bounds be
looked at each round: a look at all of them keeps the items that could come near the K-th best index before f has grown by
a little, and while that index stays above what the others can reach, only these few are looked at. The choice is exactly
that of computing all; ties go to the smaller item number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import hot

NEAR, CHOICES, MANY = 0, 1, 2
BELOW, UNTIL, MARGIN, LOOKED = 0, 1, 2, 3
STAY = 40
"""Choices from one look at all items to the next, if all goes well."""
STEEP = 1e290
"""A slope that bounds nothing (but times zero is zero)."""


class Beliefs(NamedTuple):
    """What is known of each item, and the bounds on its index. An algorithm's state holds one of these."""

    seen: Ints  # (L,) observations
    clicks: Ints  # (L,) clicks among them
    value: Floats  # (L,) the index when it was last computed; infinite for items never seen
    slope: Floats  # (L,) its slope in f then
    when: Floats  # (L,) f then
    near: Ints  # (L,) the first of these, as many as counts says, may be chosen before the next look at all
    inside: Ints  # (L,) 1 for these
    reach: Floats  # (4,) what the others stay below, until which f, the margin that set it, and f at the last look at all
    counts: Ints  # (3,) how many are near, choices since the last look at all, and how many near ask for another
    best: Ints  # (K,) the last choice, best first
    score: Floats  # (K,) its indices
    clock: Ints  # (1,) slates served


def no_beliefs(items: int, positions: int) -> Beliefs:
    """Before any feedback."""
    return Beliefs(
        seen=np.zeros(items, np.int64),
        clicks=np.zeros(items, np.int64),
        value=np.full(items, np.inf),
        slope=np.zeros(items),
        when=np.zeros(items),
        near=np.zeros(items, np.int64),
        inside=np.zeros(items, np.int64),
        reach=np.array([np.inf, -1.0, 0.01, 0.0]),
        counts=np.zeros(3, np.int64),
        best=np.arange(positions),
        score=np.zeros(positions),
        clock=np.zeros(1, np.int64),
    )


@hot
def observe(beliefs: Beliefs, item: int, clicked: bool) -> None:
    """One more observation of an item: its index is unknown until it is computed again."""
    beliefs.seen[item] += 1
    beliefs.clicks[item] += clicked
    beliefs.value[item], beliefs.when[item] = np.inf, -1.0
    if beliefs.inside[item] == 0:  # an answer to an old slate can bring anything near
        beliefs.inside[item] = 1
        beliefs.near[beliefs.counts[NEAR]] = item
        beliefs.counts[NEAR] += 1


@hot
def insert(best: Ints, score: Floats, count: int, item: int, index: float) -> int:
    """Put an item into a list of the best so far, sorted by index and then by number; how long the list is now."""
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


def selector(index: Callable[..., tuple[float, float]], same: Callable[..., bool]) -> Callable[[Any, Beliefs, float], None]:
    """A compiled ``choose(state, beliefs, f)`` for an index ``index(state, item, f) -> (value, slope)``.

    ``same(state, a, b)`` tells that two items have the same statistics and so the same index. ``choose`` leaves the K best
    items in ``beliefs.best`` and their indices in ``beliefs.score``.
    """

    @hot
    def refresh(state: Any, beliefs: Beliefs, item: int, f: float) -> float:
        value, slope = index(state, item, f)
        beliefs.value[item], beliefs.slope[item], beliefs.when[item] = value, slope, f
        return value

    @hot
    def best_near(state: Any, beliefs: Beliefs, f: float) -> None:
        """The best of the items that are near; the last choice sets a high bar for all others."""
        value, slope, when, best = beliefs.value, beliefs.slope, beliefs.when, beliefs.best
        bar = np.inf
        for k in range(len(best)):
            bar = min(bar, refresh(state, beliefs, best[k], f))
        count = 0
        for n in range(beliefs.counts[NEAR]):
            item = beliefs.near[n]
            if value[item] + (f - when[item]) * slope[item] >= bar:
                # Equal to the last of a full list, and behind it by number: it would lose the tie.
                if count == len(best) and item > best[count - 1] and same(state, item, best[count - 1]):
                    continue
                computed = value[item] if when[item] == f else refresh(state, beliefs, item, f)
                count = insert(best, beliefs.score, count, item, computed)
                if count == len(best):
                    bar = max(bar, beliefs.score[count - 1])

    @hot
    def look_at_all(state: Any, beliefs: Beliefs, f: float) -> None:
        """Choose among all items, and keep those that may be chosen before the next such look."""
        items, reach, counts = len(beliefs.value), beliefs.reach, beliefs.counts
        for item in range(items):
            beliefs.near[item] = item
        counts[NEAR] = items
        best_near(state, beliefs, f)
        bar = beliefs.score[len(beliefs.score) - 1]
        # Until f has grown by what it grew in some tens of choices; a margin as wide as keeps the near ones few.
        ahead = STAY * (f - reach[LOOKED]) / max(counts[CHOICES], 1)
        reach[LOOKED], reach[UNTIL] = f, f + ahead
        reach[MARGIN] = min(2 * reach[MARGIN], 1.0) if counts[CHOICES] < STAY else reach[MARGIN]
        few = 6 * len(beliefs.best) + items // 16
        while True:
            counts[NEAR] = 0
            for item in range(items):
                most = beliefs.value[item] + (f + ahead - beliefs.when[item]) * beliefs.slope[item]
                counts[NEAR] += most >= bar - reach[MARGIN]
            if counts[NEAR] <= few or reach[MARGIN] < 1e-9:
                break
            reach[MARGIN] /= 2
        reach[BELOW] = bar - reach[MARGIN]
        counts[NEAR], counts[CHOICES] = 0, 0
        for item in range(items):
            most = beliefs.value[item] + (f + ahead - beliefs.when[item]) * beliefs.slope[item]
            beliefs.inside[item] = 1 if most >= reach[BELOW] else 0
            if beliefs.inside[item]:
                beliefs.near[counts[NEAR]] = item
                counts[NEAR] += 1
        counts[MANY] = 2 * counts[NEAR] + 32

    @hot
    def choose(state: Any, beliefs: Beliefs, f: float) -> None:
        if f > beliefs.reach[UNTIL] or beliefs.counts[NEAR] > beliefs.counts[MANY]:
            look_at_all(state, beliefs, f)
        else:
            best_near(state, beliefs, f)
            if not beliefs.score[len(beliefs.score) - 1] > beliefs.reach[BELOW]:
                look_at_all(state, beliefs, f)
        beliefs.counts[CHOICES] += 1

    return choose


@hot
def same_counts(state: Any, a: int, b: int) -> bool:
    """Whether two items have been seen and clicked equally often."""
    seen, clicks = state.beliefs.seen, state.beliefs.clicks
    return bool(seen[a] == seen[b] and clicks[a] == clicks[b])


@hot
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
    if q - p < 1e-12:
        return STEEP
    return q * (1 - q) / (seen * (q - p))
