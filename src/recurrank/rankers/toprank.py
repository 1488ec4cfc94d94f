"""TopRank: Lattimore, Kveton, Li, Szepesvari, *TopRank: A Practical Algorithm for Online Stochastic Ranking* (NIPS 2018).

| paper                                     | code                                                              |
|-------------------------------------------|-------------------------------------------------------------------|
| P_t1, P_t2, ...                           | blocks: items by ``level``, the longest path to them in G         |
| G_t, edges (j, i): "i is better than j"   | ``edges`` (better, worse)                                         |
| C_ti                                      | whether item i was clicked; not displayed counts as not clicked   |
| U_tij = C_ti - C_tj within one block      |                                                                   |
| S_tij = sum U, N_tij = sum |U|            | see below                                                         |
| S >= sqrt(2 N log(c sqrt(N) / delta))     | ``_passes``; c = 4 sqrt(2/pi) / erf(sqrt 2)                       |

Each round every block is shuffled uniformly; only the K places that are displayed are drawn. Guarantee: regret
O(K L log(T) / Delta) and O(sqrt(K^3 L T log T)) under general click models, with delta = 1/T. No features.

How a round costs a few hundred nanoseconds instead of K L operations, without changing one decision. *While the first block
has at least K items*, only its items are displayed, and they have been together from the start. With c_i the clicks of
item i and both_ij the rounds in which i and j were both clicked, let u_i = c_i - both_ij and u_j = c_j - both_ij be the
clicks of one alone. Then S_ij = u_i - u_j, N_ij = u_i + u_j, and i beats j once u_i reaches R(u_j), where

    R(u) = min { x : x - u >= sqrt(2 (x + u) log(c sqrt(x + u) / delta)) },

a table of integers. An edge can only appear from an item clicked this round to one that was not. How many more clicks of
its own an item needs before it can beat *any* other is R(c_j - both_ij) - (c_i - both_ij) at the least: a countdown, and
nothing is looked at before it ends. When it ends, others are visited in the order of their clicks, as long as they can
have the least, which grows with c_j even for the largest both_ij that i has with anybody.

*When the first block gets smaller than K* (``plan`` sees to it once), items can meet again that had been apart, so S and N
are kept for all pairs from then on. They are set up from a log of clicks between partings, by replaying it.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numba
import numpy as np

from recurrank._arrays import Bools, Counts, Floats, Ints
from recurrank._compiled import hot, inner, loop
from recurrank.rankers.options import failure
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register
from recurrank.rankers.states import copied

CONSTANT = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))
SIZE, FRONT, VERSION, PAIRED, LOGGED, EDGES, EVENTS, LATE, MIXED, SQUARE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
EMPTY = -1
LARGEST_SQUARE = 1500
"""Up to this many items the pairs of the first block are kept in a square: 9 MB, and no search for a pair."""


class State(NamedTuple):
    block: Ints  # (L,) the items by block; while not mixed, the first SIZE are the first block
    bounds: Ints  # (L + 1,) where the blocks end, once mixed
    clicks: Ints  # (L,) c_i
    countdown: Ints  # (L,) clicks of its own before an item can beat any other
    most_both: Ints  # (L,) the largest both_ij of an item
    order: Ints  # (L,) the first block from FRONT on, by rising clicks
    place: Ints  # (L,) where an item is in order
    start: Ints  # (M,) start[c]: the first place in order with at least c clicks
    needed: Ints  # (R,) the table R(u)
    pair: Ints  # (H,) keys of pairs i * L + j with i < j, open addressing
    both: Counts  # (H,) their both_ij
    column: Ints  # (L,) an item's place in ``near``, -1 for those that had left the first block before
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


@inner
def threshold(n: float, delta: float) -> float:
    """sqrt(2 N log(c sqrt(N) / delta))."""
    return math.sqrt(2 * n * math.log(CONSTANT * math.sqrt(n) / delta))


@inner
def required(u: int, delta: float, guess: int) -> int:
    """R(u): the least x with x - u >= threshold(x + u); guess must not be above it."""
    x = max(guess, u + 1)
    while True:
        gap = threshold(float(x + u), delta) - (x - u)
        if gap <= 0.0:
            return x
        x += max(1, int(gap / 2))  # x - u - threshold(x + u) grows by less than one a step: never beyond the least


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


@inner
def _inside(block: Ints, first: int, end: int, item: int) -> bool:
    k = first
    while k < end and block[k] != item:
        k += 1
    return k < end


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    """True when something has to be rebuilt: the first block is too small, or a table is full."""
    if slate.marks[0, 0] != state.counts[VERSION]:  # the blocks have changed since: who shared one then is not known
        state.counts[LATE] += 1
        return False
    if state.counts[MIXED]:
        _learn_mixed(state, slate, clicks)
        return False
    for k in range(len(clicks)):
        if clicks[k]:
            _count(state, slate.items[k])
    for k in range(len(clicks)):
        for other in range(k):
            if clicks[k] and clicks[other]:
                _both(state, slate.items[k], slate.items[other])
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
    """One more click: the item moves to the end of those with as many as it had, which then begin those with one more."""
    c = state.clicks[item]
    state.start[c + 1] -= 1
    last = state.start[c + 1]
    place, other = state.place[item], state.order[last]
    state.order[place], state.order[last] = other, item
    state.place[other], state.place[item] = place, last
    state.clicks[item] = c + 1


@inner
def _slot(state: State, i: int, j: int) -> int:
    """Where the pair is, or would be, in the table."""
    key = min(i, j) * len(state.clicks) + max(i, j)
    at = (key * 0x1E3779B97F4A7C15 >> 20) & (len(state.pair) - 1)
    while state.pair[at] != EMPTY and state.pair[at] != key:
        at = (at + 1) & (len(state.pair) - 1)
    return at


@inner
def _both(state: State, i: int, j: int) -> None:
    """One more round in which both were clicked."""
    if len(state.near) > 1:
        row, column = state.column[min(i, j)], state.column[max(i, j)]
        state.near[row, column] += 1
        count = state.near[row, column]
    else:
        at = _slot(state, i, j)
        if state.pair[at] == EMPTY:
            state.pair[at] = min(i, j) * len(state.clicks) + max(i, j)
            state.counts[PAIRED] += 1
        state.both[at] += 1
        count = state.both[at]
    state.most_both[i] = max(state.most_both[i], count)
    state.most_both[j] = max(state.most_both[j], count)


@inner
def _shared(state: State, i: int, j: int) -> int:
    """both_ij."""
    if len(state.near) > 1 and state.column[i] >= 0 and state.column[j] >= 0:
        return int(state.near[state.column[min(i, j)], state.column[max(i, j)]])
    at = _slot(state, i, j)
    return int(state.both[at]) if state.pair[at] != EMPTY else 0


@inner
def _needed(state: State, u: int) -> int:
    """R(u), from the table where that is long enough."""
    if u < len(state.needed):
        return int(state.needed[u])
    return required(u, state.numbers[0], u + int(state.needed[len(state.needed) - 1]) - len(state.needed) + 1)


@inner
def _compare(state: State, item: int) -> None:
    """Edges from this item, and how many clicks of its own it needs before the next one can appear."""
    c, most = state.clicks[item], state.most_both[item]
    least = 1 << 60
    for place in range(state.counts[FRONT], len(state.order)):
        other = state.order[place]
        if other == item:
            continue
        theirs = state.clicks[other]
        shared = min(most, theirs)
        if _needed(state, theirs - shared) - (c - shared) >= least:
            break  # grows with the other's clicks: no later one can be nearer
        if shared > 0:
            shared = _shared(state, item, other)
        need = _needed(state, theirs - shared) - (c - shared)
        if need <= 0:
            state.edges[state.counts[EDGES], 0], state.edges[state.counts[EDGES], 1] = item, other
            state.counts[EDGES] += 1
        else:
            least = min(least, need)
    state.countdown[item] = least


@inner
def _part(state: State, edges: int) -> None:
    """The worse ends of the new edges leave the first block, which is put in the order of item numbers again."""
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
            place, other = state.place[worse], state.order[first]
            state.order[place], state.order[first] = other, worse
            state.place[other], state.place[worse] = place, first
            state.start[c] = first + 1
        state.counts[FRONT] += 1
    size = 0
    for item in range(len(state.clicks)):
        if state.left[item, 0] == 0:
            state.block[size] = item
            size += 1
    state.counts[SIZE] = size
    state.counts[VERSION] += 1


@inner
def _passes(surplus: int, total: int, delta: float) -> bool:
    return surplus > 0 and float(surplus) >= threshold(float(total), delta)


@inner
def _learn_mixed(state: State, slate: Buffer, clicks: Bools) -> None:
    """S and N of every pair in which one was clicked and the other, in the same block, was not."""
    clicked, delta = state.scratch, state.numbers[0]
    for k in range(len(clicks)):
        clicked[slate.items[k]] = clicks[k]
    grown = False
    for k in range(len(clicks)):
        if not clicks[k]:
            continue
        i = slate.items[k]
        b = state.level[i]
        for place in range(state.bounds[b], state.bounds[b + 1]):
            j = state.block[place]
            if clicked[j]:
                continue
            state.surplus[i, j] += 1
            state.surplus[j, i] -= 1
            state.total[i, j] += 1
            state.total[j, i] += 1
            if state.beats[i, j] == 0 and _passes(state.surplus[i, j], state.total[i, j], delta):
                state.beats[i, j] = 1
                grown = True
    for k in range(len(clicks)):
        clicked[slate.items[k]] = 0
    if grown:
        count = 0
        for k in range(len(clicks)):
            if clicks[k]:  # new edges lead from items clicked this round
                state.queue[count] = slate.items[k]
                state.scratch[slate.items[k]] = 1
                count += 1
        arrange(state, count)


@inner
def arrange(state: State, count: int) -> None:
    """Levels as longest paths, starting from the first ``count`` items in the queue; and the items by level and number.

    An item in the queue (marked in scratch) may have raised; what it beats must be below it.
    """
    level, items, queue = state.level, len(state.level), state.queue
    head, waiting = 0, count
    while waiting > 0:
        i = queue[head]
        head, waiting = (head + 1) % items, waiting - 1
        state.scratch[i] = 0
        for j in range(items):
            if state.beats[i, j] and level[j] <= level[i]:
                level[j] = level[i] + 1
                if state.scratch[j] == 0:
                    state.scratch[j] = 1
                    queue[(head + waiting) % items] = j
                    waiting += 1
    bounds = state.bounds
    bounds[:] = 0
    for item in range(items):
        bounds[level[item] + 1] += 1
    for b in range(items):
        bounds[b + 1] += bounds[b]
    for item in range(items - 1, -1, -1):  # from the ends of the blocks down, so that each is in the order of numbers
        bounds[level[item] + 1] -= 1
        state.block[bounds[level[item] + 1]] = item
    for b in range(items):  # what stands at b + 1 is now where block b starts
        bounds[b] = bounds[b + 1]
    bounds[items] = items
    state.counts[VERSION] += 1


@loop
def mix(state: State) -> None:
    """From the first block to all blocks: S and N of every pair as they were when the pair was parted."""
    items = len(state.clicks)
    for e in range(state.counts[EDGES]):
        state.beats[state.edges[e, 0], state.edges[e, 1]] = 1
    clicks, written = state.scratch, 0
    for item in range(items):  # (loops: numba takes seconds to compile the assignment of an array)
        clicks[item] = 0
    last = state.counts[EVENTS] + 1
    for event in range(1, last + 1):  # the last one parts nobody: those still together
        until = state.counts[LOGGED]
        for item in range(items):
            if state.left[item, 0] == event:
                until = state.left[item, 1]
        while written < until:
            clicks[state.log[written, 0]] += state.log[written, 1]
            written += 1
        if event == last:
            for item in range(items):
                clicks[item] = state.clicks[item]
        for i in range(items):
            gone = state.left[i, 0]
            if gone != event and not (gone == 0 and event == last):
                continue
            for j in range(items):
                if j != i and (state.left[j, 0] >= event or state.left[j, 0] == 0):
                    shared = _shared(state, i, j)
                    state.surplus[i, j] = clicks[i] - clicks[j]
                    state.surplus[j, i] = clicks[j] - clicks[i]
                    state.total[i, j] = state.total[j, i] = clicks[i] + clicks[j] - 2 * shared
    state.counts[MIXED] = 1
    for item in range(items):
        state.queue[item] = item
        state.scratch[item] = 1
    arrange(state, items)


@loop
def _fill(needed: Ints, delta: float) -> None:
    guess = 1
    for u in range(len(needed)):
        guess = required(u, delta, guess)
        needed[u] = guess


@loop
def _rehash(state: State, bigger: State) -> None:
    pair, both = state.pair, state.both
    for at in range(len(pair)):
        if pair[at] != EMPTY:
            i, j = pair[at] // len(state.clicks), pair[at] % len(state.clicks)
            place = _slot(bigger, i, j)
            bigger.pair[place], bigger.both[place] = pair[at], both[at]


@loop
def _square(state: State, bigger: State) -> None:
    """both_ij of the first block, from the table of pairs into a square."""
    size = 0
    for item in range(len(state.clicks)):  # columns in the order of item numbers, like the keys of pairs
        if state.left[item, 0] == 0:
            bigger.column[item] = size
            size += 1
    for at in range(len(state.pair)):
        if state.pair[at] != EMPTY:
            i, j = state.pair[at] // len(state.clicks), state.pair[at] % len(state.clicks)
            if bigger.column[i] >= 0 and bigger.column[j] >= 0:
                bigger.near[bigger.column[i], bigger.column[j]] = state.both[at]


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
        _fill(needed, delta)
        slots = 1 << 12
        while 7 * slots < 20 * (self.positions + 1) ** 2:  # room for a slate that is clicked all over
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
        needs: list[tuple[Any, tuple[Any, ...]]] = [(mix, (kind,)), (_rehash, (kind, kind)), (_square, (kind, kind))]
        for function, arguments in needs:
            function.compile(arguments)

    def plan(self) -> None:
        """Make room where a table is nearly full, or go over to keeping all pairs."""
        state = self.state
        room = self.positions + 1
        while 10 * (state.counts[PAIRED] + room * room) > 7 * len(state.pair):
            slots = 2 * len(state.pair)
            bigger = state._replace(pair=np.full(slots, EMPTY), both=np.zeros(slots, np.int32))
            _rehash(state, bigger)
            state = bigger
        if len(state.near) == 1 and state.counts[SIZE] <= state.counts[SQUARE]:
            size = max(2, int(state.counts[SIZE]))
            bigger = state._replace(column=np.full_like(state.column, -1), near=np.zeros((size, size), np.int32))
            _square(state, bigger)
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
        state, items = self.state, len(self.state.clicks)
        never_changed = "column", "needed"
        apart = {
            "log": _beginning(state, into, "log", LOGGED),
            "edges": _beginning(state, into, "edges", EDGES),
            "scratch": np.zeros(items, np.int64) if into is None else into.scratch,  # zero between rounds
        }
        return copied(state, (*never_changed, *apart), into)._replace(**apart)

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
