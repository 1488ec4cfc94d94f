"""TopRank: Lattimore, Kveton, Li, Szepesvari, *TopRank: A Practical Algorithm for Online Stochastic Ranking* (NIPS 2018).

| paper                                     | code                                                              |
|-------------------------------------------|-------------------------------------------------------------------|
| P_t1, P_t2, ...                           | blocks: items by ``level``, the longest path to them in G         |
| G_t, edges (j, i): "i is better than j"   | ``edges`` (better, worse)                                         |
| C_ti                                      | whether item i was clicked; not displayed counts as not clicked   |
| U_tij = C_ti - C_tj within one block      |                                                                   |
| S_tij = sum U, N_tij = sum |U|            | see below                                                         |
| S >= sqrt(2 N log(c sqrt(N) / delta))     | ``passes``; c = 4 sqrt(2/pi) / erf(sqrt 2)                       |

Each round every block is shuffled uniformly; only the K positions that are displayed are drawn. Guarantee: regret
O(K L log(T) / Delta) and O(sqrt(K^3 L T log T)) under general click models, with delta = 1/T. No features.

How a round costs a few hundred nanoseconds instead of K L operations, without changing one decision. *While the first block
has at least K items*, only its items are displayed, and they have been together from the start. With c_i the clicks of
item i and both_ij the rounds in which i and j were both clicked, let u_i = c_i - both_ij and u_j = c_j - both_ij be the
clicks of one alone. Then S_ij = u_i - u_j, N_ij = u_i + u_j, and i beats j once u_i reaches R(u_j), where

    R(u) = min { x : x - u >= sqrt(2 (x + u) log(c sqrt(x + u) / delta)) },

a table of integers. An edge can only appear from an item clicked this round to one that was not. How many more clicks of
its own an item needs before it can beat *any* other is R(c_j - both_ij) - (c_i - both_ij) at the least: a countdown, and
nothing is looked at before it ends. When it ends, others are visited in the order of their clicks, as long as they can
have the least, which grows with c_j even for the largest both_ij that i has with any item.

*When the first block gets smaller than K* (``plan`` switches over once), items can meet again that had been apart, so S and N
are kept for all pairs from then on. They are set up from a log of clicks between partings, by replaying it.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numba
import numpy as np

from recurrank._arrays import Bools, Counts, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.engines.pairs import (
    EDGES,
    EMPTY,
    EVENTS,
    FRONT,
    LATE,
    LOGGED,
    MIXED,
    PAIRED,
    SIZE,
    SQUARE,
    VERSION,
    count_both,
    fill_needed,
    needed_clicks,
    rehash,
    shared_clicks,
    to_square,
)
from recurrank.rankers.engines.partial_order import learn_mixed, mix
from recurrank.rankers.options import failure
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register
from recurrank.rankers.states import copied, made_of

LARGEST_SQUARE = 1500
"""Up to this many items the pairs of the first block are kept in a square: 9 MB, and no search for a pair."""


class State(NamedTuple):
    block: Ints  # (L,) the items by block; while not mixed, the first SIZE are the first block
    bounds: Ints  # (L + 1,) where the blocks end, once mixed
    clicks: Ints  # (L,) c_i
    countdown: Ints  # (L,) clicks of its own before an item can beat any other
    most_both: Ints  # (L,) the largest both_ij of an item
    order: Ints  # (L,) the first block from FRONT on, by rising clicks
    place: Ints  # (L,) an item's index in ``order``
    start: Ints  # (M,) start[c]: the first index in ``order`` with at least c clicks
    needed: Ints  # (R,) the table R(u)
    pair: Ints  # (H,) keys of pairs i * L + j with i < j, open addressing
    both: Counts  # (H,) their both_ij
    column: Ints  # (L,) an item's index in ``near``, -1 for those that had left the first block before
    near: Counts  # (m, m) both_ij from when the first block is small enough for a square
    base: Ints  # (L,) clicks at the last parting
    log: Counts  # (Q, 2) items and how many clicks they had between two partings
    edges: Ints  # (E, 2) better, worse
    left: Ints  # (L, 2) for items that left the first block: event, and how much of the log had been written
    level: Ints  # (L,) once mixed
    beats: Ints  # (L, L) once mixed: 1 for an edge
    surplus: Ints  # (L, L) S_ij once mixed
    total: Ints  # (L, L) N_ij once mixed
    scratch: Ints  # (L,) zero between rounds
    queue: Ints  # (L,)
    numbers: Floats  # (1,) delta
    counts: Ints  # (10,)


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    items, block = slate.items, state.block
    first, b, size = 0, 0, len(items)
    while first < size:
        end = state.bounds[b + 1] if state.counts[MIXED] else state.counts[SIZE]
        for k in range(first, min(end, size)):
            j = k + int(rng.random() * (end - k))
            block[k], block[j] = block[j], block[k]
            items[k] = block[k]
        first, b = end, b + 1
    slate.marks[0, 0] = state.counts[VERSION]


@hot
def propensity(state: State, before: Floats, slate: Buffer, marginal: Floats) -> float:
    """Blocks are shuffled uniformly: an item of a block of n stands anywhere in it with probability 1 / n."""
    first, b, size, joint = 0, 0, len(slate.items), 1.0
    while first < size:
        end = state.bounds[b + 1] if state.counts[MIXED] else state.counts[SIZE]
        for k in range(first, min(end, size)):
            inside = slate.items[k] == state.block[k] or _inside(state.block, first, end, slate.items[k])
            marginal[k] = 1.0 / (end - first) if inside else 0.0
            joint *= 1.0 / (end - k) if inside else 0.0
        first, b = end, b + 1
    return joint


@hot
def conditional(state: State, slate: Buffer, marginal: Floats, joint: float, given: Floats) -> None:
    """Each position shows one of its block's items that are not above."""
    first, b, size = 0, 0, len(slate.items)
    while first < size:
        end = state.bounds[b + 1] if state.counts[MIXED] else state.counts[SIZE]
        for k in range(first, min(end, size)):
            given[k] = 1.0 / (end - k) if marginal[k] > 0.0 else 0.0
        first, b = end, b + 1


@inner
def _inside(block: Ints, first: int, end: int, item: int) -> bool:
    k = first
    while k < end and block[k] != item:
        k += 1
    return k < end


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    """True when something has to be rebuilt: the first block is too small, or a table is full."""
    if slate.marks[0, 0] != state.counts[VERSION]:  # the blocks have changed since: which items shared one is not known
        state.counts[LATE] += 1
        return False
    if state.counts[MIXED]:
        learn_mixed(state, slate, clicks)
        return False
    for k in range(len(clicks)):
        if clicks[k]:
            _count(state, slate.items[k])
    for k in range(len(clicks)):
        for other in range(k):
            if clicks[k] and clicks[other]:
                count_both(state, slate.items[k], slate.items[other])
    edges = state.counts[EDGES]
    for k in range(len(clicks)):
        if clicks[k]:
            item = slate.items[k]
            state.countdown[item] -= 1
            if state.countdown[item] <= 0:
                _compare(state, item)
    if state.counts[EDGES] > edges:
        _part(state, edges)
    room = len(slate.items) + 1
    return bool(
        state.counts[SIZE] < len(slate.items)
        or (len(state.near) == 1 and state.counts[SIZE] <= state.counts[SQUARE])
        or 10 * (state.counts[PAIRED] + room * room) > 7 * len(state.pair)
        or state.counts[LOGGED] + state.counts[SIZE] > len(state.log)
        or state.counts[EDGES] + room * state.counts[SIZE] > len(state.edges)
        or state.clicks[state.order[len(state.order) - 1]] + 2 >= len(state.start)
    )


@inner
def _count(state: State, item: int) -> None:
    """Count a click: the item moves to the end of those with as many clicks, where those with one more then begin."""
    c = state.clicks[item]
    state.start[c + 1] -= 1
    last = state.start[c + 1]
    index, other = state.place[item], state.order[last]
    state.order[index], state.order[last] = other, item
    state.place[other], state.place[item] = index, last
    state.clicks[item] = c + 1


@inner
def _compare(state: State, item: int) -> None:
    """Add edges from this item; set how many clicks of its own it needs before the next one can appear."""
    c, most = state.clicks[item], state.most_both[item]
    least = 1 << 60
    for index in range(state.counts[FRONT], len(state.order)):
        other = state.order[index]
        if other == item:
            continue
        theirs = state.clicks[other]
        shared = min(most, theirs)
        if needed_clicks(state, theirs - shared) - (c - shared) >= least:
            break  # grows with the other's clicks: no later one can be nearer
        if shared > 0:
            shared = shared_clicks(state, item, other)
        need = needed_clicks(state, theirs - shared) - (c - shared)
        if need <= 0:
            state.edges[state.counts[EDGES], 0], state.edges[state.counts[EDGES], 1] = item, other
            state.counts[EDGES] += 1
        else:
            least = min(least, need)
    state.countdown[item] = least


@inner
def _part(state: State, edges: int) -> None:
    """The worse ends of the new edges leave the first block, which is put in the order of item indices again."""
    state.counts[EVENTS] += 1
    for k in range(state.counts[SIZE]):
        item = state.block[k]
        if state.clicks[item] > state.base[item]:
            entry = state.counts[LOGGED]
            state.log[entry, 0], state.log[entry, 1] = item, state.clicks[item] - state.base[item]
            state.base[item] = state.clicks[item]
            state.counts[LOGGED] += 1
    for e in range(edges, state.counts[EDGES]):
        worse = state.edges[e, 1]
        if state.left[worse, 0] != 0:
            continue
        state.left[worse, 0], state.left[worse, 1] = state.counts[EVENTS], state.counts[LOGGED]
        for c in range(state.clicks[worse], -1, -1):  # down to the front, one number of clicks at a time
            first = max(state.start[c], state.counts[FRONT])
            index, other = state.place[worse], state.order[first]
            state.order[index], state.order[first] = other, worse
            state.place[other], state.place[worse] = index, first
            state.start[c] = first + 1
        state.counts[FRONT] += 1
    size = 0
    for item in range(len(state.clicks)):
        if state.left[item, 0] == 0:
            state.block[size] = item
            size += 1
    state.counts[SIZE] = size
    state.counts[VERSION] += 1


class TopRank(Ranker):
    """TopRank (Lattimore et al. 2018): a partial order of items from clicks, under general click models."""

    name = "toprank"
    reference = "Lattimore, Kveton, Li, Szepesvari 2018"
    believes = "general click model"
    uses_features = False
    regret_bound = "O(K L log(T) / Delta), O(sqrt(K^3 L T log(T)))"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = nothing_served
    compiled_propensity = propensity
    compiled_conditional = conditional

    state: State

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        delta: Annotated[float | None, failure("1/rounds, as in the TopRank paper", lambda ranker: 1 / ranker.rounds)] = None,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        [delta] = self.record(delta=delta)
        items = len(self.catalogue)
        needed = np.zeros(4096, np.int64)
        fill_needed(needed, delta)
        slots = 1 << 12
        while 7 * slots < 20 * (self.positions + 1) ** 2:  # room for a slate with clicks at all positions
            slots *= 2
        counts = np.zeros(10, np.int64)
        counts[SIZE], counts[SQUARE] = items, LARGEST_SQUARE
        self.state = State(
            block=np.arange(items),
            bounds=np.zeros(1, np.int64),
            clicks=np.zeros(items, np.int64),
            countdown=np.full(items, needed[0]),
            most_both=np.zeros(items, np.int64),
            order=np.arange(items),
            place=np.arange(items),
            start=np.append(0, np.full(1 << 12, items)).astype(np.int64),
            needed=needed,
            pair=np.full(slots, EMPTY, np.int64),
            both=np.zeros(slots, np.int32),
            column=np.full(items, -1),
            near=np.zeros((1, 1), np.int32),
            base=np.zeros(items, np.int64),
            log=np.zeros((2 * items, 2), np.int32),
            edges=np.zeros((2 * items + (self.positions + 1) * items, 2), np.int64),
            left=np.zeros((items, 2), np.int64),
            level=np.zeros(1, np.int64),
            beats=np.zeros((1, 1), np.int64),
            surplus=np.zeros((1, 1), np.int64),
            total=np.zeros((1, 1), np.int64),
            scratch=np.zeros(items, np.int64),
            queue=np.zeros(items, np.int64),
            numbers=np.array([delta]),
            counts=counts,
        )
        typeof: Any = numba.typeof
        kind = typeof(self.state)  # what plan() needs is compiled now, not in a later round
        needs: list[tuple[Any, tuple[Any, ...]]] = [(mix, (kind,)), (rehash, (kind, kind)), (to_square, (kind, kind))]
        for function, arguments in needs:
            function.compile(arguments)

    def plan(self) -> None:
        """Make room where a table is nearly full, or go over to keeping all pairs."""
        state = self.state
        room = self.positions + 1
        while 10 * (state.counts[PAIRED] + room * room) > 7 * len(state.pair):
            slots = 2 * len(state.pair)
            bigger = state._replace(pair=np.full(slots, EMPTY), both=np.zeros(slots, np.int32))
            rehash(state, bigger)
            state = bigger
        if len(state.near) == 1 and state.counts[SIZE] <= state.counts[SQUARE]:
            size = max(2, int(state.counts[SIZE]))
            bigger = state._replace(column=np.full_like(state.column, -1), near=np.zeros((size, size), np.int32))
            to_square(state, bigger)
            state = bigger
        if state.counts[LOGGED] + state.counts[SIZE] > len(state.log):
            state = state._replace(log=np.concatenate([state.log, np.zeros_like(state.log)]))
        if state.counts[EDGES] + room * state.counts[SIZE] > len(state.edges):
            state = state._replace(edges=np.concatenate([state.edges, np.zeros_like(state.edges)]))
        if state.clicks[state.order[-1]] + 2 >= len(state.start):
            state = state._replace(start=np.append(state.start, np.full(len(state.start), len(state.order))))
        if state.counts[SIZE] < self.positions and not state.counts[MIXED]:
            items = len(state.clicks)
            square = (items, items)
            state = state._replace(
                bounds=np.zeros(items + 1, np.int64),
                level=np.zeros(items, np.int64),
                beats=np.zeros(square, np.int64),
                surplus=np.zeros(square, np.int64),
                total=np.zeros(square, np.int64),
            )
            mix(state)
        self.state, self.due = state, False

    def _copied(self, into: Any) -> Any:
        """Of two long tables, mostly empty, only the beginnings are copied; three fields need no copy at all."""
        state, items = self._state, len(self._state.clicks)
        never_changed = "column", "needed"
        apart = {
            "log": _beginning(state, into, "log", LOGGED),
            "edges": _beginning(state, into, "edges", EDGES),
            "scratch": np.zeros(items, np.int64) if into is None else into.scratch,  # zero between rounds
        }
        parts = copied(state, (*never_changed, *apart), into)._replace(**apart)
        return made_of(type(state), list(parts), into)

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        super().unpack(values, arrays)
        self.due = bool(self.state.counts[SIZE] < self.positions and not self.state.counts[MIXED])


def _beginning(state: State, into: State | None, name: str, count: int) -> Any:
    """A copy of a table of which only some rows are used and the others zero, in the memory of ``into`` if that has room."""
    table, used = getattr(state, name), state.counts[count]
    room: Any = getattr(into, name, None)
    if into is None or room.shape != table.shape:
        room = np.zeros(table.shape, table.dtype)  # what is not written takes no memory yet
    else:
        room[used : into.counts[count]] = 0
    room[:used] = table[:used]
    return room


register(State, TopRank)
