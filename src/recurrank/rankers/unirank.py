"""UniRank: Gauthier, Gaudel, Fromont, *UniRank: Unimodal Bandit Algorithms for Online Ranking* (ICML 2022).

| paper                             | code                                                                        |
|-----------------------------------|-----------------------------------------------------------------------------|
| P = (P_1, ..., P_d)               | an ordered partition: items of P_1 are better than those of P_2, and so on  |
| s_hat_{i,j}(t), T_{i,j}(t)        | (w_ij - w_ji) / T, T = w_ij + w_ji                                          |
| w_ij                              | ``State.wins``: how often i was clicked and j not, both in one set          |
| P_tilde(t), the leader            | ``State.order``, cut at ``State.cuts``                                      |
| s_bar_{j,i}(t) > 0                | ``_evidence(w_ji, w_ij) < level``                                           |
| log t + 3 log log t               | ``_level``                                                                  |

*The leader.* Its first set is the smallest one each of whose items has s_hat > 0 against every item outside; the next is the
same among all others; and so on until K positions are filled. Items of one set cannot be told apart yet.

*Exploration.* Two sets of the leader that follow each other are merged where an item of the second may be better than one of
the first, s_bar > 0; from the top, each set once. The last set takes in one of the items outside instead, the first by falling
e (below) that may be better than one of its own. The items of each set are shown in random order, so that a click on one and
not on another, shown or not, speaks for it.

Which item outside joins the last set, and when, is our reading of the paper: docs/deviations.md says what was taken.

Guarantee (theirs, for their rule): regret O(L log(T) / Delta) under click models that are pseudo-unimodal, among them the
position-based and the cascade model. It uses no features.

*The leader by counting.* Let e_i be how many items i beats (s_hat > 0), less how many beat it. In any set of m items what they
have against each other adds up to 0, so that sum e_i <= m (L - m), with equality just where each beats all others. So the sets
of the leader are the prefixes of the order by falling e at which the sum of e is m (L - m).

*Optimism by a threshold.* s_bar_{j,i} = 2 f - 1, f the largest p with T kl((1 + s_hat_{j,i}) / 2, p) <= log t + 3 log log t.
Where i beats j that is positive just where T kl((1 + s_hat_{j,i}) / 2, 1/2) is below that level.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner, rare
from recurrank.rankers.knowledge import Knowledge
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

SETS, ERA, ROWS, CLOCK, NEXT, KNOWN = 0, 1, 2, 3, 4, 5
"""Indices into ``counts``: sets of the leader, number of leaders so far, rows in use, slates served; the index in the order
of the item that joins the last set (none outside before it may), and up to where ``against`` is known."""
SPAN, WHO = 0, 1
"""Columns of a slate's marks: a position's set as begin (L + 1) + end; era (L + 1) + the item that joined the last set + 1."""
LOG_2 = math.log(2.0)
MOST_ITEMS = 10_000
"""Pairs of more items would take more than 400 MB."""


class State(NamedTuple):
    order: Ints  # (L,) items by falling e
    excess: Ints  # (L,) e
    cuts: Ints  # (K,) where each set of the leader ends
    row: Ints  # (L,) an item's row in wins; -1 before its first click
    wins: NDArray[np.int32]  # (R, L) w
    clicks: Ints  # (L,) of each item; none of its w is larger
    against: Floats  # (L,) by index in the order, outside the leader: the least evidence against joining its last set
    bar: Floats  # (1,) the least of these before NEXT
    hit: Bools  # (L,) scratch
    pick: Ints  # (L + 1,) scratch
    counts: Ints  # (6,)


@inner
def _wins(state: State, i: int, j: int) -> int:
    return int(state.wins[state.row[i], j]) if state.row[i] >= 0 else 0


@inner
def _evidence(a: int, b: int) -> float:
    """T kl(a / T, 1/2) = a log a + b log b + T log(2 / T), T = a + b."""
    if a == 0:
        return b * LOG_2
    total = a + b
    return a * math.log(a) + b * math.log(b) + total * math.log(2.0 / total)


@inner
def _level(t: int) -> float:
    """Log t + 3 log log t, and 0 where that is negative."""
    return math.log(t) + 3 * math.log(math.log(t)) if t > 2 else 0.0


@inner
def _may_be_wrong(state: State, begin: int, middle: int, end: int, level: float) -> bool:
    """Whether an item of one set may be better than one of the set before: s_bar > 0 for some pair."""
    for a in range(begin, middle):
        i = state.order[a]
        for b in range(middle, end):
            j = state.order[b]
            if _evidence(_wins(state, j, i), _wins(state, i, j)) < level:
                return True
    return False


@inner
def _joins(state: State, level: float) -> int:
    """The first item outside the leader that may be better than one of its last set; -1 if there is none.

    The level grows slowly, and evidence changes with clicks on the item that joined: below the bar, items once passed stay so.
    """
    counts, against, last = state.counts, state.against, state.cuts[state.counts[SETS] - 1]
    if counts[KNOWN] < last:
        counts[NEXT], counts[KNOWN], state.bar[0] = last, last, np.inf
    if level > state.bar[0]:
        counts[NEXT], state.bar[0] = last, np.inf
    while counts[NEXT] < len(state.order):
        index = counts[NEXT]
        if index >= counts[KNOWN]:
            against[index] = _least(state, state.order[index], level)
            counts[KNOWN] = index + 1
        if against[index] < level:
            return int(state.order[index])
        state.bar[0] = min(state.bar[0], against[index])
        counts[NEXT] += 1
    return -1


@inner
def _least(state: State, j: int, level: float) -> float:
    """Against an item that could join the last set: the least evidence that one of the set is better, if not below the level.

    The last of the set have the fewest clicks.
    """
    sets, least = state.counts[SETS], np.inf
    a, first = state.cuts[sets - 1], state.cuts[sets - 2] if sets > 1 else 0
    while a > first and least >= level:
        a -= 1
        i = state.order[a]
        least = min(least, _evidence(_wins(state, j, i), _wins(state, i, j)))
    return least


@inner
def _next_set(state: State, number: int, level: float) -> tuple[int, int, int]:
    """The set shown after the leader's first ``number`` ones: how many of these it has, its end, the item that joins or -1."""
    sets, cuts = state.counts[SETS], state.cuts
    begin, end = cuts[number - 1] if number > 0 else 0, cuts[number]
    if number + 1 < sets:
        if _may_be_wrong(state, begin, end, cuts[number + 1], level):
            return 2, cuts[number + 1], -1
    elif end < len(state.order):
        return 1, end, _joins(state, level)
    return 1, end, -1


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    items, size, pick = len(state.order), len(slate.items), state.pick
    state.counts[CLOCK] += 1
    level, number, begin, filled = _level(state.counts[CLOCK]), 0, 0, 0
    while filled < size:
        step, end, joins = _next_set(state, number, level)
        many = end - begin
        for n in range(many):
            pick[n] = state.order[begin + n]
        if joins >= 0:
            pick[many] = joins
            many += 1
        for n in range(min(many, size - filled)):
            if many - n > 1:
                other = n + int(rng.random() * (many - n))
                pick[n], pick[other] = pick[other], pick[n]
            slate.items[filled + n] = pick[n]
            slate.marks[filled + n, SPAN] = begin * (items + 1) + end
            slate.marks[filled + n, WHO] = state.counts[ERA] * (items + 1) + joins + 1
        filled += min(many, size - filled)
        number, begin = number + step, end


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    items, changed = len(state.order), False
    for k in range(len(clicks)):
        state.hit[slate.items[k]] = clicks[k]
    for k in range(len(clicks)):
        if clicks[k]:
            i, span, who = slate.items[k], slate.marks[k, SPAN], slate.marks[k, WHO]
            if state.row[i] < 0:
                state.row[i] = state.counts[ROWS]
                state.counts[ROWS] += 1
            state.clicks[i] += 1
            if who // (items + 1) == state.counts[ERA]:
                for b in range(span // (items + 1), span % (items + 1)):
                    changed |= _win(state, i, state.order[b])
                if who % (items + 1) > 0:
                    changed |= _win(state, i, who % (items + 1) - 1)
            else:  # the sets have changed: of this one, only the items shown are known
                for m in range(len(clicks)):
                    if slate.marks[m, SPAN] == span:
                        changed |= _win(state, i, slate.items[m])
    for k in range(len(clicks)):
        state.hit[slate.items[k]] = False
    if changed:
        _elect(state)
    else:
        _weigh(state, slate.marks[len(clicks) - 1, WHO] % (items + 1) - 1)
    return bool(state.counts[ROWS] + len(clicks) > len(state.wins) and len(state.wins) < items)


@inner
def _win(state: State, i: int, j: int) -> bool:
    """Count a click on i and not on j; whether that changes which beats the other. Reading w_ji is slow and often avoided."""
    if state.hit[j]:
        return False
    row = state.row[i]
    mine = state.wins[row, j]
    state.wins[row, j] = mine + 1
    if mine > state.clicks[j]:
        return False
    other = _wins(state, j, i)
    if mine != other and mine + 1 != other:
        return False
    state.excess[i] += 1
    state.excess[j] -= 1
    return True


@inner
def _weigh(state: State, joined: int) -> None:
    """Forget the evidence against the item that joined the last set, after clicks that did not change the leader."""
    index = state.counts[NEXT]
    if index < state.counts[KNOWN] and state.order[index] == joined:
        state.counts[KNOWN] = index
    else:  # an old answer: any of them may have changed
        state.counts[KNOWN] = -1


@rare
def _elect(state: State) -> None:
    """Elect the leader: items by falling e, cut where the sum of e is m (L - m)."""
    order, excess, size = state.order, state.excess, len(state.cuts)
    for a in range(1, len(order)):
        item, b = order[a], a
        while b > 0 and (excess[order[b - 1]] < excess[item] or (excess[order[b - 1]] == excess[item] and order[b - 1] > item)):
            order[b] = order[b - 1]
            b -= 1
        order[b] = item
    total, sets, m = 0, 0, 0
    while sets == 0 or state.cuts[sets - 1] < size:
        total += excess[order[m]]
        m += 1
        if total == m * (len(order) - m):
            state.cuts[sets] = m
            sets += 1
    state.counts[SETS] = sets
    state.counts[ERA] += 1
    state.counts[KNOWN] = -1


@hot
def served(state: State, slate: Buffer) -> None:
    state.counts[CLOCK] += 1


@hot
def recall(state: State, before: Floats) -> None:
    before[0] = state.counts[CLOCK] + 1


@hot
def propensity(state: State, before: Floats, slate: Buffer, marginal: Floats) -> float:
    """Every item of a set at each of the set's positions with the same probability."""
    size, level, joint, number, begin, filled = len(marginal), _level(int(before[0])), 1.0, 0, 0, 0
    while filled < size:
        step, end, joins = _next_set(state, number, level)
        many = end - begin + (joins >= 0)
        shown = min(many, size - filled)
        for n in range(shown):
            item, inside = slate.items[filled + n], False
            for b in range(begin, end):
                inside |= state.order[b] == item
            marginal[filled + n] = (inside or item == joins) / many
            joint *= (inside or item == joins) / (many - n)
            for m in range(n):
                joint *= slate.items[filled + m] != item
        number, begin, filled = number + step, end, filled + shown
    return joint


class UniRank(Ranker):
    """UniRank (Gauthier, Gaudel, Fromont 2022): sets of items that are not told apart yet, merged where their order is open."""

    name = "unirank"
    reference = "Gauthier, Gaudel, Fromont 2022"
    believes = "pseudo-unimodal: position-based, cascade, others"
    uses_features = False
    regret_bound = "O(L log(T) / Delta)"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_propensity = propensity
    compiled_recall = recall

    def __init__(self, features: Items, positions: int, rounds: int, seed: Seed = None) -> None:
        super().__init__(features, positions, rounds, seed)
        items, size = len(self.catalogue), self.positions
        if items > MOST_ITEMS:
            raise ValueError(f"features: {items:,} items; unirank keeps every pair of them, give at most {MOST_ITEMS:,}")
        cuts = np.zeros(size, np.int64)
        cuts[0] = items
        self.state = State(
            order=np.arange(items),
            excess=np.zeros(items, np.int64),
            cuts=cuts,
            row=np.full(items, -1),
            clicks=np.zeros(items, np.int64),
            wins=np.zeros((min(4 * size + 6, items), items), np.int32),
            against=np.full(items, np.inf),
            bar=np.full(1, np.inf),
            hit=np.zeros(items, np.bool_),
            pick=np.zeros(items + 1, np.int64),
            counts=np.array([1, 0, 0, 0, 0, -1]),
        )

    def plan(self) -> None:
        """Make room for the clicks of more items."""
        state, items = self.state, len(self.catalogue)
        more = np.zeros((min(len(state.wins), items - len(state.wins)), items), np.int32)
        self.state = state._replace(wins=np.vstack([state.wins, more]))

    def knowledge(self) -> Knowledge:
        """The first K items of the leader."""
        return Knowledge(leaders=self.state.order[: self.positions].tolist())


register(State, UniRank)
