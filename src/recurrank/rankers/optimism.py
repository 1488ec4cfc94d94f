"""Optimism without arrays of logarithms: the K largest indices, exactly, computing only the few that matter.

Many algorithms show the K items of largest index, an upper confidence bound that grows with time (through f(t), such as
log t) for every item, seen or not. Computing all L of them each round is what makes published code slow. Every such
index is a concave function of f, so its value and slope at some earlier f0 bound it now:

    value(f0)  <=  index(f)  <=  value(f0) + (f - f0) slope(f0),

and an item whose upper bound stays below the K-th best index computed so far cannot be shown. The choice is exactly that
of computing all; ties go to the smaller item number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import hot

STEEP = 1e290
"""A slope that bounds nothing (but times zero is zero)."""


class Beliefs(NamedTuple):
    """What is known of each item, and the bounds on its index. An algorithm's state holds one of these."""

    seen: Ints  # (L,) observations
    clicks: Ints  # (L,) clicks among them
    value: Floats  # (L,) the index when it was last computed; infinite for items never seen
    slope: Floats  # (L,) its slope in f then
    when: Floats  # (L,) f then
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
        best=np.arange(positions),
        score=np.zeros(positions),
        clock=np.zeros(1, np.int64),
    )


@hot
def observe(beliefs: Beliefs, item: int, clicked: bool) -> None:
    """One more observation of an item: its index is unknown until it is computed again."""
    beliefs.seen[item] += 1
    beliefs.clicks[item] += clicked
    beliefs.value[item] = np.inf


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
    def choose(state: Any, beliefs: Beliefs, f: float) -> None:
        value, slope, when, best = beliefs.value, beliefs.slope, beliefs.when, beliefs.best
        # The last choice first: it is likely to be good again, and sets a high bar for all others.
        bar = np.inf
        for k in range(len(best)):
            bar = min(bar, refresh(state, beliefs, best[k], f))
        count = 0
        for item in range(len(value)):
            if value[item] + (f - when[item]) * slope[item] >= bar:
                # Equal to the last of a full list: it would lose the tie.
                if count == len(best) and same(state, item, best[count - 1]):
                    continue
                computed = value[item] if when[item] == f else refresh(state, beliefs, item, f)
                count = insert(best, beliefs.score, count, item, computed)
                if count == len(best):
                    bar = max(bar, beliefs.score[count - 1])

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
    from the smaller of two upper bounds: Pinsker's, and that of  kl(p, q) >= -H(p) - (1 - p) log(1 - q).
    """
    if p >= 1.0:
        return 1.0
    if p <= 0.0:
        return 1.0 - math.exp(-level)
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    q = min(p + math.sqrt(level / 2), 1.0 - math.exp(-(level + entropy) / (1 - p)))
    for _ in range(40):
        gap = -entropy - p * math.log(q) - (1 - p) * math.log(1 - q) - level
        step = gap * q * (1 - q) / (q - p) if q > p else 0.0
        if step <= 1e-15:
            break
        q -= step
    return q


@hot
def kl_slope(p: float, q: float, seen: int) -> float:
    """D q / d f where seen * kl(p, q) = f."""
    if q - p < 1e-12:
        return STEEP
    return q * (1 - q) / (seen * (q - p))
