"""PIE: Combes, Magureanu, Proutiere, Laroche,
*Learning to Rank: Regret Lower Bounds and Efficient Algorithms* (SIGMETRICS 2015).

| paper                                       | code                                                           |
|---------------------------------------------|----------------------------------------------------------------|
| theta_hat_i(n), t_i(n)                      | ``clicks / seen``, ``seen``                                    |
| L(n) = (j_1, ..., j_L), the leaders         | the K items of largest theta_hat, in order                     |
| b_i(n) = max { q : t_i kl(theta_hat_i, q) <= log n + 4 log log n } | ``Bounds``                              |
| B(n)                                        | items that do not lead, with b_i(n) >= theta_hat of the last leader |
| PIE(l)                                      | with probability 1/2, a random item of B(n) at position l       |

Users read from the top and stop at the first click; items down to it are observed. Parsimonious: apart from one position,
leaders are shown. The exploring position l is the last one by default, which costs least when clicks at all positions count
the same. Guarantee: regret O(L log(T)) under the cascade model, asymptotically optimal constants. No features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner, rare
from recurrank.rankers.cascade_ucb import kl_level
from recurrank.rankers.engines.divergence import kl
from recurrank.rankers.engines.optimism import insert
from recurrank.rankers.engines.propensity import half_explored
from recurrank.rankers.engines.scores import best_of
from recurrank.rankers.engines.tournament import in_blocks
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

AT, CLOCK = 0, 1
MOST = 1 - 1e-12
"""Stands for 1, where a divergence is infinite."""
SLACK = 1e-9
"""More than rounding changes a bound."""


class Leaders(NamedTuple):
    """The K items of largest mean."""

    best: Ints  # (K,) in order
    score: Floats  # (K,) their means
    old: Ints  # (K,) scratch: the previous ones
    others: Floats  # (1,) an upper bound on the means of all others


class Bounds(NamedTuple):
    """Limits of every upper confidence bound b, in blocks; what fills up the last block is never explored.

    least <= b <= max(floor, base + rise f), now and, as long as the item is not observed again, for every larger f.
    """

    least: Floats  # (B, S)
    base: Floats  # (B, S)
    rise: Floats  # (B, S)
    floor: Floats  # (B, S)
    inside: Ints  # (B,) how many of B(n) are in each block


class State(NamedTuple):
    leaders: Leaders
    bounds: Bounds
    seen: Ints  # (L,)
    clicks: Ints  # (L,)
    mean: Floats  # (L,) theta_hat; 0 for items never seen
    constants: Floats  # (1,) the 4 of log n + 4 log log n
    settings: Ints  # (2,) l - 1, and slates served


def no_leaders(positions: int) -> Leaders:
    """Before any feedback."""
    return Leaders(np.arange(positions), np.zeros(positions), np.zeros(positions, np.int64), np.full(1, np.inf))


def no_bounds(items: int) -> Bounds:
    """Before any feedback: anything is possible."""
    shape = in_blocks(items)
    base = np.full(shape, 2.0)
    base.reshape(-1)[items:] = -1.0
    return Bounds(np.full(shape, -1.0), base, np.zeros(shape), np.full(shape, -1.0), np.zeros(shape[0], np.int64))


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    state.settings[CLOCK] += 1
    lead(state.mean, state.leaders)
    for k in range(len(slate.items)):
        slate.items[k] = state.leaders.best[k]
    if rng.random() < 0.5:
        return
    level, bar = kl_level(state.settings[CLOCK], state.constants[0]), state.leaders.score[len(slate.items) - 1]
    count = explorable(state, level, bar)
    if count > 0:
        place_at(slate, state.settings[AT], member(state.bounds, bar, int(rng.random() * count)))


@hot
def propensity(state: State, before: Floats, slate: Buffer, marginal: Floats) -> float:
    """Half of the slates are the leaders in order, the others have one of B(n) at position l, if there is any."""
    level, bar = kl_level(state.settings[CLOCK], state.constants[0]), state.leaders.score[len(slate.items) - 1]
    count, tried = explorable(state, level, bar), slate.items[state.settings[AT]]
    explores = count > 0 and not leading(state.leaders, tried) and inside(state.bounds, bar, tried)
    return half_explored(state.leaders.best, state.settings[AT], count, explores, slate, marginal)


@hot
def served(state: State, slate: Buffer) -> None:
    state.settings[CLOCK] += 1


@inner
def lead(mean: Floats, leaders: Leaders) -> None:
    """Sort the leaders again; search for new ones if one of the others may have reached the last of them."""
    best, score, old, size = leaders.best, leaders.score, leaders.old, len(leaders.best)
    for k in range(size):
        old[k] = best[k]
    count = 0
    for k in range(size):
        count = insert(best, score, count, old[k], mean[old[k]])
    if score[size - 1] > leaders.others[0]:
        return
    best_of(mean, best, score)
    leaders.others[0] = -1.0
    for item in range(len(mean)):
        if mean[item] > leaders.others[0] and not leading(leaders, item):
            leaders.others[0] = mean[item]


@inner
def leading(leaders: Leaders, item: int) -> bool:
    found = False
    for k in range(len(leaders.best)):
        found |= leaders.best[k] == item
    return found


@inner
def changed(mean: Floats, leaders: Leaders, bounds: Bounds, item: int) -> None:
    """An item's mean has changed: it may have come up to the leaders, and nothing is known of its bound."""
    if not leading(leaders, item):
        leaders.others[0] = max(leaders.others[0], mean[item])
    forget(bounds, item, 2.0)


@inner
def forget(bounds: Bounds, item: int, most: float) -> None:
    """Know no more of an item's bound than that it is at most ``most``."""
    b = item // bounds.least.shape[1]
    i = item - b * bounds.least.shape[1]
    bounds.least[b, i], bounds.base[b, i], bounds.rise[b, i], bounds.floor[b, i] = -1.0, most, 0.0, -1.0


@inner
def inside(bounds: Bounds, bar: float, item: int) -> bool:
    """Whether an item that does not lead is in B(n), once :func:`explorer`'s function has counted it."""
    b = item // bounds.least.shape[1]
    return bool(bounds.least[b, item - b * bounds.least.shape[1]] >= bar)


@inner
def member(bounds: Bounds, bar: float, number: int) -> int:
    """The item of B(n) with this number, counted from 0 in the order of item indices."""
    b = 0
    while number >= bounds.inside[b]:
        number -= bounds.inside[b]
        b += 1
    i = 0
    while number > 0 or bounds.least[b, i] < bar:
        number -= bounds.least[b, i] >= bar
        i += 1
    return int(b * bounds.least.shape[1] + i)


def explorer(divergence: Callable[..., tuple[float, float]], reaches_one: bool) -> Callable[..., int]:
    """A compiled ``explorable(state, f, bar)``: how many items, other than leaders, have an upper confidence bound >= bar.

    :func:`member` finds them. ``divergence(state, item, q)`` is some Phi(q), convex, and its derivative; the upper
    confidence bound is the largest q <= 1 with Phi(q) <= f, or where Phi is least if there is none. So bar is not above it
    if and only if Phi(bar) <= f or Phi falls at bar: no equation needs to be solved. ``reaches_one`` tells whether it may
    be 1 where Phi is infinite.
    """

    @inner
    def explorable(state: Any, f: float, bar: float) -> int:
        leaders, bounds = state.leaders, state.bounds
        for k in range(len(leaders.best)):
            forget(bounds, leaders.best[k], -1.0)
        total = 0
        for b in range(len(bounds.inside)):
            least, base, rise, floor = bounds.least[b], bounds.base[b], bounds.rise[b], bounds.floor[b]
            inside, possible = 0, 0
            for i in range(len(least)):
                inside += least[i] >= bar
                possible += (least[i] >= bar) | (base[i] + rise[i] * f >= bar - SLACK) | (floor[i] >= bar - SLACK)
            if possible > inside:
                inside = decide(state, b, f, bar)
            bounds.inside[b] = inside
            total += inside
        for k in range(len(leaders.best)):
            forget(bounds, leaders.best[k], 2.0)
        return total

    @rare
    def decide(state: Any, b: int, f: float, bar: float) -> int:
        """Make ``least`` tell which items of a block are inside; return how many."""
        bounds, inside = state.bounds, 0
        least, base, rise, floor = bounds.least[b], bounds.base[b], bounds.rise[b], bounds.floor[b]
        for i in range(len(least)):
            if least[i] < bar and (base[i] + rise[i] * f >= bar - SLACK or floor[i] >= bar - SLACK):
                decide_one(state, b, i, f, bar)
            inside += least[i] >= bar
        return inside

    @inner
    def decide_one(state: Any, b: int, i: int, f: float, bar: float) -> None:
        """Decide one item, with the best bounds that two values of Phi give: tangents are above, chords below."""
        bounds = state.bounds
        item = b * bounds.least.shape[1] + i
        if state.seen[item] == 0 or bar == 0.0:
            bounds.least[b, i] = np.inf if state.seen[item] == 0 else 0.0
            return
        if bar > 1.0:
            bounds.base[b, i], bounds.rise[b, i], bounds.floor[b, i] = 1.0, 0.0, -1.0
            return
        x = min(bar, MOST)
        value, slope = divergence(state, item, x)
        if bar == 1.0 and slope > 0.0 and not reaches_one:
            return
        if slope <= 0.0:
            bounds.least[b, i] = max(bar, turn(state, item, x, MOST)[0])
            return
        bounds.base[b, i], bounds.rise[b, i], bounds.floor[b, i] = x - value / slope, 1 / slope, -1.0
        q = x - (value - f) / slope
        if value <= f:
            bounds.least[b, i] = bar
            q = min(q, MOST)
            high, steep = divergence(state, item, q)
            if high <= f:
                bounds.least[b, i] = max(bar, q)
            else:
                bounds.base[b, i], bounds.rise[b, i] = q - high / steep, 1 / steep
                bounds.least[b, i] = max(bar, x + (f - value) * (q - x) / (high - value) - SLACK)
        elif q <= 0.0 or divergence(state, item, q)[1] <= 0.0:
            bounds.least[b, i], bounds.floor[b, i] = turn(state, item, max(q, 1 - MOST), x)

    @inner
    def turn(state: Any, item: int, low: float, high: float) -> tuple[float, float]:
        """Bisect towards where Phi is least: limits below it, where Phi falls, and above it."""
        if divergence(state, item, low)[1] > 0.0:
            return -1.0, low
        for _ in range(12):
            middle = (low + high) / 2
            if divergence(state, item, middle)[1] <= 0.0:
                low = middle
            else:
                high = middle
        return low, high

    return explorable


@inner
def _divergence(state: State, item: int, q: float) -> tuple[float, float]:
    """T kl(theta_hat, q) and its derivative; theta_hat is where it is least."""
    n, p = state.seen[item], state.mean[item]
    if q <= p:
        return 0.0, 0.0
    return n * kl(p, q), n * (q - p) / (q * (1 - q))


explorable = explorer(_divergence, False)


@inner
def place_at(slate: Buffer, position: int, item: int) -> None:
    """Insert an item at a position: those from there on move down, and the last one out."""
    for k in range(len(slate.items) - 1, position, -1):
        slate.items[k] = slate.items[k - 1]
    slate.items[position] = item


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        item = slate.items[k]
        state.seen[item] += 1
        state.clicks[item] += clicks[k]
        state.mean[item] = state.clicks[item] / state.seen[item]
        changed(state.mean, state.leaders, state.bounds, item)
        if clicks[k]:
            break
    return False


class PIE(Ranker):
    """PIE (Combes et al. 2015), for cascade clicks."""

    name = "pie"
    reference = "Combes, Magureanu, Proutiere, Laroche 2015"
    believes = "cascade"
    learns_any_order = True
    uses_features = False
    regret_bound = "O(L log(T))"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_propensity = propensity

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        explore_at: Annotated[
            int | None,
            Option(
                "l, the position (from 1) that explores, by default the last", least=1, usually=lambda ranker: ranker.positions
            ),
        ] = None,
        exploration: Annotated[float, Option("the 4 in log n + 4 log log n", least=0)] = 4.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        at, exploration = self.record(explore_at=explore_at, exploration=exploration)
        if at > self.positions:
            raise ValueError(f"explore_at: {at} is below the last position; give 1 to {self.positions}")
        items = len(self.catalogue)
        self.state = State(
            leaders=no_leaders(self.positions),
            bounds=no_bounds(items),
            seen=np.zeros(items, np.int64),
            clicks=np.zeros(items, np.int64),
            mean=np.zeros(items),
            constants=np.array([exploration]),
            settings=np.array([at - 1, 0]),
        )


register(State, PIE)
