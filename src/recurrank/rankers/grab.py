"""GRAB: Gauthier, Gaudel, Fromont, Lompo, *Parametric Graph for Unimodal Ranking Bandit* (ICML 2021).

| paper                        | code                                                                           |
|------------------------------|--------------------------------------------------------------------------------|
| T_{i,k}(t), rho_hat_{i,k}(t) | ``State.seen``, ``State.clicks / State.seen`` (0 where nothing was seen)       |
| L(t), the leader             | ``State.leader``: the K items on K positions with the largest sum of rho_hat   |
| b_{i,k}(t)                   | ``State.bound``: max { p : T kl(rho_hat, p) <= log T }, 1 where nothing was seen |
| pi, the order of positions   | by falling rho_hat of the leader: ``_order``                                   |
| N_pi(L(t)), the neighbours   | two positions that follow each other in pi exchanged, or another item at the last of pi |
| gamma                        | ``period``: every so many rounds of a leader, the leader itself is shown       |

Otherwise the leader or that neighbour is shown of which the sum of b is largest. Guarantee: regret O(L log(T) / Delta) under
the position-based model. Neither the examination probabilities nor their order are known to it. It uses no features.

*The leader* is an assignment, and each round changes K of its numbers. It is still the best if no cycle of exchanges gains: the
position a takes the item of b, b that of c, and so on, where one of them may take the best item that is not shown. That is a
graph of K + 1 nodes; potentials p with p_b >= p_a + gain(a, b) prove that there is none, and those of the last round nearly
do. Where a cycle gains, it is made. Equal sums: every rho_hat has a fixed number below 10^-7 added to it.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

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


class State(NamedTuple):
    seen: Ints  # (K, L) T
    clicks: Ints  # (K, L)
    value: Floats  # (K, L) rho_hat, ties broken
    bound: Floats  # (K, L) b
    changes: Changes  # of these four
    leader: Ints  # (K,)
    place: Ints  # (L,) the leader's position of an item, -1 for others
    spare: Ints  # (K,) the item of largest value at each position that the leader does not show; -1 if it shows all
    potential: Floats  # (K + 1,)
    before: Ints  # (K + 1,) the node before each on its best path
    order: Ints  # (K,) pi; scratch
    kept: Floats  # (K,) scratch
    counts: Ints  # (2,) rounds of this leader; gamma
    level: Floats  # (1,) log T


def tie_breaks(items: int, positions: int) -> Floats:
    """What is added to each rho_hat."""
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
    best, first = 0.0, -1
    for n in range(size - 1):
        k, m = order[n], order[n + 1]
        gain = bound[k, leader[m]] + bound[m, leader[k]] - bound[k, leader[k]] - bound[m, leader[m]]
        if gain > best + SLACK:
            best, first = gain, n
    last = order[size - 1]
    item = _highest_other(state, bound[last])
    if item >= 0 and bound[last, item] > best + bound[last, leader[last]] + SLACK:
        slate.items[last] = item
    elif first >= 0:
        k, m = order[first], order[first + 1]
        slate.items[k], slate.items[m] = leader[m], leader[k]


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    positions = len(slate.items)
    for k in range(len(clicks)):
        item, value = slate.items[k], state.value
        touch(state.changes, k * len(state.place) + item)
        state.seen[k, item] += 1
        state.clicks[k, item] += clicks[k]
        mean = state.clicks[k, item] / state.seen[k, item]
        state.bound[k, item] = kl_upper(mean, state.level[0] / state.seen[k, item])
        value[k, item] = mean + _tie(item, k, positions)
        if state.place[item] < 0 and value[k, item] > value[k, state.spare[k]]:
            state.spare[k] = item
        elif item == state.spare[k]:
            _find_spare(state, k)
    state.counts[AGE] += 1
    _improve(state)
    return False


@inner
def _tie(item: int, position: int, positions: int) -> float:
    root = math.sqrt(item * positions + position + 1 + GOLDEN)
    return TIES * (root - math.floor(root))


@inner
def _highest_other(state: State, row: Floats) -> int:
    """The first item of largest number that the leader does not show, -1 if it shows all.

    Floats that are not negative are ordered as their bits are, whose maximum the processor finds several at a time. The
    leader's items are taken out meanwhile.
    """
    kept, leader = state.kept, state.leader
    for k in range(len(leader)):
        kept[k] = row[leader[k]]
        row[leader[k]] = -1.0
    high, item = -1, 0
    for i in range(len(row)):
        high = max(high, int(np.float64(row[i]).view(np.int64)))
    while item < len(row) and np.float64(row[item]).view(np.int64) != high:
        item += 1
    for k in range(len(leader)):
        row[leader[k]] = kept[k]
        kept[k] = 0.0
    return item if item < len(row) else -1


@rare
def _find_spare(state: State, k: int) -> None:
    state.spare[k] = _highest_other(state, state.value[k])


@inner
def _relax(state: State, a: int) -> int:
    """Raise the potentials of the nodes whose item node a could take: p_b >= p_a + gain(a, b); one of those raised, or -1.

    The last node has all items that are not shown. It takes an item for nothing.
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
    nodes = len(state.potential)
    while True:
        changed, passes = 0, 0
        while changed >= 0 and passes <= nodes:
            changed = -1
            for a in range(nodes):
                changed = max(changed, _relax(state, a))
            passes += 1
        if changed < 0:
            return
        _exchange(state, changed)


@rare
def _exchange(state: State, node: int) -> None:
    """Make the cycle of exchanges that lies before a node, and start from potentials of zero again."""
    size, before, taken = len(state.leader), state.before, state.order
    for _ in range(size + 1):
        node = before[node]
    for k in range(size):
        taken[k] = state.leader[k]
    start, through = node, False
    while True:
        a = before[node]
        if a < size:
            taken[a] = state.leader[node] if node < size else state.spare[a]
        through |= a == size
        node = a
        if node == start:
            break
    for k in range(size):
        state.place[state.leader[k]] = -1
    for k in range(size):
        state.leader[k] = taken[k]
        state.place[taken[k]] = k
    if through:
        for k in range(size):
            _find_spare(state, k)
    state.potential[:] = 0.0
    state.counts[AGE] = 0


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
        place = np.full(shape[1], -1)
        place[: shape[0]] = np.arange(shape[0])
        self.state = State(
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
            tie_breaks(shape[1], shape[0]),
            np.ones(shape),
            no_changes(shape[0] * shape[1]),
            np.arange(shape[0]),
            place,
            np.full(shape[0], -1),
            np.zeros(shape[0] + 1),
            np.zeros(shape[0] + 1, np.int64),
            np.zeros(shape[0], np.int64),
            np.zeros(shape[0]),
            np.array([0, gamma]),
            np.array([math.log(self.rounds)]),
        )
        start(self.state)

    def knowledge(self) -> Knowledge:
        """The leader."""
        return Knowledge(leaders=self.state.leader.tolist())


@hot
def start(state: State) -> None:
    """The leader before any click."""
    for k in range(len(state.leader)):
        _find_spare(state, k)
    _improve(state)
    state.counts[AGE] = 0


register(State, GRAB)
