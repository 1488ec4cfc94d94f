"""Ranked bandits in metric spaces: Slivkins, Radlinski, Gollapudi, *Ranked Bandits in Metric Spaces* (JMLR 2013), RankZoom.

Every position has a bandit of its own, as in Ranked Bandits, that zooms into the part of the catalogue where clicks are.

| paper                          | code                                                                              |
|--------------------------------|-----------------------------------------------------------------------------------|
| D(x, y)                        | ``_distance``: of the features, the longest of which counts as 1; ``lipschitz`` times that |
| active x                       | ``State.active``, the first ``State.many`` of each position                       |
| n_t(x), mu_t(x)                | ``State.seen``, ``clicks / seen``                                                 |
| r_t(x) = sqrt(4 log T / (1 + n_t(x))) | ``_radius``; ``exploration`` is the 4                                      |
| I_t(x) = mu_t(x) + 2 r_t(x)    | ``State.optimism``; the active item of largest index is chosen                       |
| activation rule                | an item that is not within r_t(x) of any active x becomes active: ``_uncover``    |
| the item that is shown already | the position's best active item that is not, else the first such item of the catalogue |

A bandit is rewarded if its own choice was shown and clicked. Guarantee: against (1 - 1/e) of the best ranking, with a regret
that depends on the dimension of the good part of the catalogue instead of L, if |mu(x) - mu(y)| <= D(x, y) whatever is shown
above.

``cover`` has the active item that covers each item, and ``reach`` the distance of the farthest item that each of these covers.
Only when the radius of an active item gets smaller than that are items looked at.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Counts, Floats, Ints
from recurrank._compiled import hot, inner, rare
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.engines.tracking import Changes, no_changes, touch
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register

EXPLORATION, LOG, SCALE = 0, 1, 2


class State(NamedTuple):
    features: Floats  # (L, d)
    active: Ints  # (K, L) active items in the order of their activation, then unused entries
    many: Ints  # (K,) how many of these
    seen: Ints  # (K, L)
    clicks: Ints  # (K, L)
    optimism: Floats  # (K, L) of active items
    reach: Floats  # (K, L) the distance of the farthest item that an active item covers
    changes: Changes  # of these four and ``active``
    cover: Counts  # (K, L) which active item covers an item
    shown: Bools  # (L,) scratch
    numbers: Floats  # (3,) the 4; log T; what distances are multiplied by


@inner
def _radius(state: State, k: int, item: int) -> float:
    return math.sqrt(state.numbers[EXPLORATION] * state.numbers[LOG] / (1 + state.seen[k, item]))


@inner
def _distance(state: State, a: int, b: int) -> float:
    total = 0.0
    for i in range(state.features.shape[1]):
        total += (state.features[a, i] - state.features[b, i]) ** 2
    return float(state.numbers[SCALE]) * math.sqrt(total)


@inner
def _touch(state: State, k: int, item: int) -> None:
    touch(state.changes, k * len(state.features) + item)


@inner
def _activate(state: State, k: int, item: int) -> None:
    _touch(state, k, state.many[k])
    _touch(state, k, item)
    state.active[k, state.many[k]] = item
    state.many[k] += 1
    state.cover[k, item] = item
    state.optimism[k, item] = 2 * _radius(state, k, item)


@inner
def _covered(state: State, k: int, item: int) -> bool:
    """Find the first active item that covers this one."""
    for n in range(state.many[k]):
        x = state.active[k, n]
        distance = _distance(state, x, item)
        if distance <= _radius(state, k, x):
            _touch(state, k, x)
            state.cover[k, item] = x
            state.reach[k, x] = max(state.reach[k, x], distance)
            return True
    return False


@rare
def _uncover(state: State, k: int, x: int) -> None:
    """The radius of x has become smaller: others cover what it does not any more, or it becomes active."""
    radius, reach = _radius(state, k, x), 0.0
    _touch(state, k, x)
    state.reach[k, x] = 0.0
    for item in range(len(state.features)):
        if state.cover[k, item] == x and item != x:
            distance = _distance(state, x, item)
            if distance <= radius:
                reach = max(reach, distance)
            elif not _covered(state, k, item):
                _activate(state, k, item)
    state.reach[k, x] = max(state.reach[k, x], reach)


@hot
def start(state: State) -> None:
    """Cover all items, in the catalogue's order."""
    for k in range(len(state.many)):
        for item in range(len(state.features)):
            if not _covered(state, k, item):
                _activate(state, k, item)


@inner
def _substitute(state: State, k: int) -> int:
    """The position's best active item that is not shown yet; else the first such item."""
    best = -1
    for n in range(state.many[k]):
        x = state.active[k, n]
        if not state.shown[x] and (best < 0 or _better(state, k, x, best)):
            best = x
    while best < 0 or state.shown[best]:
        best += 1
    return best


@inner
def _better(state: State, k: int, a: int, b: int) -> bool:
    return bool(state.optimism[k, a] > state.optimism[k, b] or (state.optimism[k, a] == state.optimism[k, b] and a < b))


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    for k in range(len(slate.items)):
        chosen = state.active[k, 0]
        for n in range(1, state.many[k]):
            if _better(state, k, state.active[k, n], chosen):
                chosen = state.active[k, n]
        slate.marks[k, 0] = chosen
        slate.items[k] = _substitute(state, k) if state.shown[chosen] else chosen
        state.shown[slate.items[k]] = True
    for k in range(len(slate.items)):
        state.shown[slate.items[k]] = False


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        x = slate.marks[k, 0]
        if x < 0:  # a slate that it did not rank
            continue
        _touch(state, k, x)
        state.seen[k, x] += 1
        state.clicks[k, x] += clicks[k] and slate.items[k] == x
        radius = _radius(state, k, x)
        state.optimism[k, x] = state.clicks[k, x] / state.seen[k, x] + 2 * radius
        if state.reach[k, x] > radius:
            _uncover(state, k, x)
    return False


class RankedZooming(Ranker):
    """RankZoom (Slivkins, Radlinski, Gollapudi 2013): a bandit per position that zooms in where clicks are."""

    name = "ranked-zooming"
    reference = "Slivkins, Radlinski, Gollapudi 2013"
    believes = "one bandit per position, similar items have similar clicks"
    uses_features = True
    regret_bound = "against (1 - 1/e) of the best, by zooming dimension"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = nothing_served
    compiled_propensity = certain
    from_catalogue = ("features",)
    tracked = ("active", "seen", "clicks", "optimism", "reach")

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        exploration: Annotated[float, Option("the 4 in r = sqrt(4 log T / (1 + n))", above=0)] = 4.0,
        lipschitz: Annotated[
            float, Option("how much clicks may differ per unit of distance, the longest features having length 1", above=0)
        ] = 1.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        constant, factor = self.record(exploration=exploration, lipschitz=lipschitz)
        matrix = np.ascontiguousarray(self.catalogue.features, np.float64)
        matrix = matrix / np.exp2(np.floor(np.log2(float(np.abs(matrix).max()))))  # squares neither overflow nor vanish
        longest = float(np.sqrt((matrix**2).sum(axis=1)).max())
        shape = self.positions, len(matrix)
        self.state = State(
            matrix,
            np.zeros(shape, np.int64),
            np.zeros(shape[0], np.int64),
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
            np.zeros(shape),
            np.zeros(shape),
            no_changes(shape[0] * shape[1]),
            np.zeros(shape, np.int32),
            np.zeros(shape[1], np.bool_),
            np.array([constant, math.log(max(self.rounds, 2)), factor / longest]),
        )
        start(self.state)


register(State, RankedZooming)
