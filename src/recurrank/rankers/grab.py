"""GRAB: Gauthier, Gaudel, Fromont, Lompo, *Parametric Graph for Unimodal Ranking Bandit* (ICML 2021).

| paper                        | code                                                                           |
|------------------------------|--------------------------------------------------------------------------------|
| T_{i,k}(t), rho_hat_{i,k}(t) | ``State.seen``, ``State.clicks / State.seen`` (0 where nothing was seen)       |
| L(t), the leader             | ``State.leader``: the K items on K positions with the largest sum of rho_hat   |
| b_{i,k}(t)                   | ``State.bound``: max { p : T kl(rho_hat, p) <= log T }, 1 where nothing was seen |
| pi, the order of positions   | by falling rho_hat of the leader: ``_order``                                   |
| N_pi(L(t)), the neighbours   | two positions that follow each other in pi exchanged, or another item at the last of pi |
| gamma                        | ``period``: every so many rounds of a leader, the leader itself is shown       |

Otherwise the leader or the neighbour with the largest sum of b is shown. Guarantee: regret O(L log(T) / Delta) under
the position-based model. It knows neither the examination probabilities nor their order, and uses no features.

*The leader* is an assignment, and each round changes K of its numbers. It is still the best if no cycle of exchanges gains: the
position a takes the item of b, b that of c, and so on, where one of them may take the best item that is not shown. That is a
graph of K + 1 nodes; potentials p with p_b >= p_a + gain(a, b) prove that there is none, and those of the last round nearly
do. Where a cycle gains, it is made, and potentials stay with their items. Equal sums: every rho_hat has a fixed number below
10^-7 added to it.

*Bounds* b take most of the time if each is computed when its counts change, which those of the leader do in nearly all rounds.
Most decisions need only a lower bound of them. Per observation b - rho_hat falls at most as 1 / T does, since

    -log(1 - x) <= x / (1 - x)   =>   T (b - rho_hat) never falls,

so the leader's b after a further observation c is at least (T b + c) / (T + 1). That number is kept, with a minus sign, until a
neighbour could be better than the best one: only then b is computed. The largest b of the other items is found by blocks.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner, rare
from recurrank.rankers.engines.optimism import kl_upper
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.engines.tracking import Changes, no_changes, touch
from recurrank.rankers.knowledge import Knowledge
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register

TIES = 1e-7
GOLDEN = (math.sqrt(5) - 1) / 2
SLACK = 1e-12
"""Gains up to this are rounding."""
AGE, PERIOD = 0, 1
SHIFT = 5
BLOCK = 1 << SHIFT
"""Number of items in a block."""
DERIVED = ("state.most", "state.high", "state.relaxed")
"""Fields that are not saved: computed again, or scratch."""


class State(NamedTuple):
    seen: Ints  # (K, L) T
    clicks: Ints  # (K, L)
    value: Floats  # (K, L) rho_hat, ties broken
    bound: Floats  # (K, L) b; where negative (of the leader), b is at least its absolute value, and not computed
    changes: Changes  # of these four
    leader: Ints  # (K,)
    place: Ints  # (L,) the leader's position of an item, -1 for others
    spare: Ints  # (K,) the item of largest value at each position that the leader does not show; -1 if it shows all
    potential: Floats  # (K + 1,)
    relaxed: Floats  # (K + 1,) those from which other nodes have been raised; scratch
    before: Ints  # (K + 1,) the node before each on its best path
    most: Floats  # (K, blocks) the largest value of a block's items that the leader does not show; -1 if it shows all
    high: Floats  # (K, blocks) the same of b
    order: Ints  # (K,) pi; scratch
    counts: Ints  # (2,) rounds of this leader; gamma
    level: Floats  # (1,) log T


def tie_breaks(items: int, positions: int) -> Floats:
    """The number that is added to each rho_hat."""
    numbers = np.arange(items)[None, :] * positions + np.arange(positions)[:, None] + 1
    return np.asarray(TIES * (np.sqrt(numbers + GOLDEN) % 1.0), np.float64)


@inner
def _order(state: State) -> None:
    """Positions by falling value of the leader's item."""
    order = state.order
    for k in range(len(order)):
        value, j = state.value[k, state.leader[k]], k
        while j > 0 and state.value[order[j - 1], state.leader[order[j - 1]]] < value:
            order[j] = order[j - 1]
            j -= 1
        order[j] = k


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    size, bound, leader, order = len(slate.items), state.bound, state.leader, state.order
    for k in range(size):
        slate.items[k] = leader[k]
    if state.counts[AGE] % state.counts[PERIOD] == 0:
        return
    _order(state)
    last = order[size - 1]
    item = _highest_other(state.place, bound[last], state.high[last])
    alone = bound[last, item] - _bound(state, last, leader[last]) if item >= 0 else -1.0
    best, first = 0.0, -1
    for n in range(size - 1):
        k, m = order[n], order[n + 1]
        both = bound[k, leader[m]] + bound[m, leader[k]]
        if both - abs(bound[k, leader[k]]) - abs(bound[m, leader[m]]) > max(best, alone - 2 * SLACK):
            gain = both - _bound(state, k, leader[k]) - _bound(state, m, leader[m])
            if gain > best + SLACK:
                best, first = gain, n
    if alone > best + SLACK:
        slate.items[last] = item
    elif first >= 0:
        k, m = order[first], order[first + 1]
        slate.items[k], slate.items[m] = leader[m], leader[k]


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        _observe(state, k, slate.items[k], clicks[k])
    state.counts[AGE] += 1
    _improve(state)
    return False


@inner
def _observe(state: State, k: int, item: int, clicked: bool) -> None:
    value, seen = state.value, state.seen[k, item]
    before = value[k, item]
    touch(state.changes, k * len(state.place) + item)
    state.seen[k, item] = seen + 1
    state.clicks[k, item] += clicked
    value[k, item] = state.clicks[k, item] / (seen + 1) + _tie(item, k, len(state.leader))
    if state.leader[k] == item and seen > 0:
        state.bound[k, item] = -(abs(state.bound[k, item]) * seen + clicked) / (seen + 1)
        return
    bound = state.bound[k, item]
    _compute(state, k, item)
    if state.place[item] < 0:
        _renew_block(state.place, state.bound[k], state.high[k], item, bound)
        _renew_block(state.place, value[k], state.most[k], item, before)
        if value[k, item] > value[k, state.spare[k]]:
            state.spare[k] = item
        elif item == state.spare[k]:
            state.spare[k] = _highest_other(state.place, value[k], state.most[k])


@rare
def _compute(state: State, k: int, item: int) -> None:
    seen = state.seen[k, item]
    touch(state.changes, k * len(state.place) + item)
    state.bound[k, item] = kl_upper(state.clicks[k, item] / seen, state.level[0] / seen)


@inner
def _bound(state: State, k: int, item: int) -> float:
    """The bound b, computed if only a lower bound of it is kept."""
    if state.bound[k, item] < 0:
        _compute(state, k, item)
    return float(state.bound[k, item])


@inner
def _highest_other(position: Ints, row: Floats, high: Floats) -> int:
    """The first item of the largest number among those that the leader does not show, -1 if it shows all."""
    best = 0
    for block in range(1, len(high)):
        if high[block] > high[best]:
            best = block
    item = best << SHIFT
    while item < len(row) and (row[item] != high[best] or position[item] >= 0):
        item += 1
    return item if item < len(row) else -1


@inner
def _renew_block(position: Ints, row: Floats, high: Floats, item: int, before: float) -> None:
    """Update a block after an item's number, or whether the leader shows it, has changed."""
    block, now = item >> SHIFT, row[item] if position[item] < 0 else -1.0
    if now >= high[block]:
        high[block] = now
    elif before >= high[block]:
        for i in range(block << SHIFT, min((block + 1) << SHIFT, len(row))):
            now = max(now, row[i] if position[i] < 0 else -1.0)
        high[block] = now


@inner
def _tie(item: int, position: int, positions: int) -> float:
    root = math.sqrt(item * positions + position + 1 + GOLDEN)
    return TIES * (root - math.floor(root))


@inner
def _relax(state: State, a: int) -> int:
    """Raise the potentials of the nodes whose item node a could take: p_b >= p_a + gain(a, b); return one of these, or -1.

    The last node has all items that are not shown. It gains nothing from an item.
    """
    size, potential, changed = len(state.leader), state.potential, -1
    base = potential[a] - (state.value[a, state.leader[a]] if a < size else 0.0)
    for b in range(size + 1):
        item = state.leader[b] if b < size else state.spare[min(a, size - 1)]
        if b != a and item >= 0:
            reached = base + (state.value[a, item] if a < size else 0.0)
            if reached > potential[b] + SLACK:
                potential[b], state.before[b], changed = reached, a, b
    return changed


@inner
def _improve(state: State) -> None:
    """Make cycles of exchanges that gain until there is none."""
    potential, relaxed, nodes = state.potential, state.relaxed, len(state.potential)
    passes = 0
    while True:
        changed = -1
        for a in range(nodes):
            if passes == 0 or potential[a] > relaxed[a]:
                relaxed[a] = potential[a]
                changed = max(changed, _relax(state, a))
        if changed < 0:
            return
        passes += 1
        if passes > 1 and _exchanged(state, changed, passes > nodes):
            passes = 0


@rare
def _exchanged(state: State, node: int, sure: bool) -> bool:
    """Make the cycle of exchanges before a node, if it gains: it must after as many passes as there are nodes.

    Until then ``before`` may hold nodes of earlier rounds.
    """
    size, before, gain = len(state.leader), state.before, 0.0
    for _ in range(size + 1):
        node = before[node]
    start = node
    while True:
        a = before[node]
        if a < size:
            item = state.leader[node] if node < size else state.spare[a]
            gain += state.value[a, item] - state.value[a, state.leader[a]]
        node = a
        if node == start:
            break
    if gain > SLACK or sure:
        _exchange(state, start)
        return True
    return False


@inner
def _exchange(state: State, start: int) -> None:
    """Make the cycle of exchanges before a node. Potentials go with their items."""
    size, before, potential = len(state.leader), state.before, state.potential
    base, node, entered, left = potential[size], start, -1, -1
    item, carried = (state.leader[start] if start < size else -1), potential[start]
    while True:
        a = before[node]
        own, kept = (state.leader[a] if a < size else -1), potential[a]
        if a < size:
            _bound(state, a, own)
            if node == size:
                item = entered = state.spare[a]
            state.leader[a], potential[a] = item, carried
            state.place[item] = a
        else:
            left = item
        item, carried, node = own, kept, a
        if node == start:
            break
    for b in range(size + 1):
        potential[b] -= base
    if entered >= 0:
        _renew_others(state, entered, left)
    state.counts[AGE] = 0


@inner
def _renew_others(state: State, entered: int, left: int) -> None:
    """Update the tables after one item has replaced another among those that the leader shows."""
    state.place[left] = -1
    for k in range(len(state.leader)):
        value, bound = state.value[k], state.bound[k]
        _renew_block(state.place, bound, state.high[k], entered, bound[entered])
        _renew_block(state.place, bound, state.high[k], left, -1.0)
        _renew_block(state.place, value, state.most[k], entered, value[entered])
        _renew_block(state.place, value, state.most[k], left, -1.0)
        if state.spare[k] == entered:
            state.spare[k] = _highest_other(state.place, value, state.most[k])
        elif value[left] > value[state.spare[k]]:
            state.spare[k] = left


class GRAB(Ranker):
    """GRAB (Gauthier et al. 2021): shows the best-known assignment or a promising neighbour of it."""

    name = "grab"
    reference = "Gauthier, Gaudel, Fromont, Lompo 2021"
    believes = "position-based, unknown examination"
    learns_any_order = True
    uses_features = False
    regret_bound = "O(L log(T) / Delta)"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = nothing_served
    compiled_propensity = certain
    tracked = ("seen", "clicks", "value", "bound")

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        period: Annotated[
            int | None,
            Option(
                "gamma, after how many rounds the leader is shown again, by default as many as there are items",
                least=1,
                usually=lambda ranker: len(ranker.catalogue),
            ),
        ] = None,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        [gamma] = self.record(period=period)
        shape = self.positions, len(self.catalogue)
        position = np.full(shape[1], -1)
        position[: shape[0]] = np.arange(shape[0])
        self.state = State(
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
            tie_breaks(shape[1], shape[0]),
            np.ones(shape),
            no_changes(shape[0] * shape[1]),
            np.arange(shape[0]),
            position,
            np.full(shape[0], -1),
            np.zeros(shape[0] + 1),
            np.zeros(shape[0] + 1),
            np.zeros(shape[0] + 1, np.int64),
            np.zeros((shape[0], -(-shape[1] // BLOCK))),
            np.zeros((shape[0], -(-shape[1] // BLOCK))),
            np.zeros(shape[0], np.int64),
            np.array([0, gamma]),
            np.array([math.log(self.rounds)]),
        )
        start(self.state)

    def knowledge(self) -> Knowledge:
        """The leader."""
        return Knowledge(leaders=self.state.leader.tolist())

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """Compute all of b first: saved states must not depend on which were needed."""
        compute_all(self.state)
        values, arrays = super().pack()
        return values, {name: array for name, array in arrays.items() if name not in DERIVED}

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        super().unpack(values, {**arrays, **{name: getattr(self.state, name.removeprefix("state.")) for name in DERIVED}})
        find_high(self.state)


@hot
def compute_all(state: State) -> None:
    """Compute what is missing of b."""
    for k in range(len(state.leader)):
        _bound(state, k, state.leader[k])


@hot
def find_high(state: State) -> None:
    """Find the largest numbers of each block."""
    state.most[:] = state.high[:] = -1.0
    for k in range(len(state.leader)):
        for i in range(len(state.place)):
            _renew_block(state.place, state.value[k], state.most[k], i, -1.0)
            _renew_block(state.place, state.bound[k], state.high[k], i, -1.0)


@hot
def start(state: State) -> None:
    """Find the leader before any click."""
    find_high(state)
    for k in range(len(state.leader)):
        state.spare[k] = _highest_other(state.place, state.value[k], state.most[k])
    _improve(state)
    state.counts[AGE] = 0


register(State, GRAB)
