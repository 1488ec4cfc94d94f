"""TopRank's partial order of all items, once those of several blocks are displayed: S and N of every pair, and levels.

The state is TopRank's.
"""

from __future__ import annotations

from typing import Any

from recurrank._arrays import Bools
from recurrank._compiled import inner, loop
from recurrank.rankers.engines.pairs import EDGES, EVENTS, LOGGED, MIXED, VERSION, shared_clicks, threshold


@inner
def passes(surplus: int, total: int, delta: float) -> bool:
    return surplus > 0 and float(surplus) >= threshold(float(total), delta)


@inner
def learn_mixed(state: Any, slate: Any, clicks: Bools) -> None:
    """Update S and N of every pair in which one was clicked and the other, in the same block, was not."""
    clicked, delta = state.scratch, state.numbers[0]
    for k in range(len(clicks)):
        clicked[slate.items[k]] = clicks[k]
    grown = False
    for k in range(len(clicks)):
        if not clicks[k]:
            continue
        i = slate.items[k]
        b = state.level[i]
        for index in range(state.bounds[b], state.bounds[b + 1]):
            j = state.block[index]
            if clicked[j]:
                continue
            state.surplus[i, j] += 1
            state.surplus[j, i] -= 1
            state.total[i, j] += 1
            state.total[j, i] += 1
            if state.beats[i, j] == 0 and passes(state.surplus[i, j], state.total[i, j], delta):
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
def arrange(state: Any, count: int) -> None:
    """Compute levels as longest paths, from the first ``count`` items in the queue; sort the items by level and index.

    An item in the queue (marked in scratch) may have risen; what it beats must be below it.
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
    for item in range(items - 1, -1, -1):  # from the ends of the blocks down, so that each is in the order of item indices
        bounds[level[item] + 1] -= 1
        state.block[bounds[level[item] + 1]] = item
    for b in range(items):  # the number at b + 1 is now where block b starts
        bounds[b] = bounds[b + 1]
    bounds[items] = items
    state.counts[VERSION] += 1


@loop
def mix(state: Any) -> None:
    """Go from the first block to all blocks: S and N of every pair as they were when the pair was separated."""
    items = len(state.clicks)
    for e in range(state.counts[EDGES]):
        state.beats[state.edges[e, 0], state.edges[e, 1]] = 1
    clicks, written = state.scratch, 0
    for item in range(items):  # (loops: numba takes seconds to compile the assignment of an array)
        clicks[item] = 0
    last = state.counts[EVENTS] + 1
    for event in range(1, last + 1):  # the last one is for pairs that are still together
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
                    shared = shared_clicks(state, i, j)
                    state.surplus[i, j] = clicks[i] - clicks[j]
                    state.surplus[j, i] = clicks[j] - clicks[i]
                    state.total[i, j] = state.total[j, i] = clicks[i] + clicks[j] - 2 * shared
    state.counts[MIXED] = 1
    for item in range(items):
        state.queue[item] = item
        state.scratch[item] = 1
    arrange(state, items)
