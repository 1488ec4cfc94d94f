"""TopRank's pairs of items: in how many rounds both were clicked, and how many clicks of its own an item needs to beat another.

both_ij is kept in a table of pairs (open addressing), and in a square once the first block is small. The state is TopRank's.
"""

from __future__ import annotations

import math
from typing import Any

from recurrank._arrays import Ints
from recurrank._compiled import inner, loop

CONSTANT = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))
"""The c of sqrt(2 N log(c sqrt(N) / delta))."""
SIZE, FRONT, VERSION, PAIRED, LOGGED, EDGES, EVENTS, LATE, MIXED, SQUARE = range(10)
"""Indices into ``State.counts``."""
EMPTY = -1
"""The key of a free slot of the table."""


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


@inner
def slot(state: Any, i: int, j: int) -> int:
    """The slot of the pair in the table, or the one that it would get."""
    key = min(i, j) * len(state.clicks) + max(i, j)
    at = (key * 0x1E3779B97F4A7C15 >> 20) & (len(state.pair) - 1)
    while state.pair[at] != EMPTY and state.pair[at] != key:
        at = (at + 1) & (len(state.pair) - 1)
    return at


@inner
def count_both(state: Any, i: int, j: int) -> None:
    """One more round in which both were clicked."""
    if len(state.near) > 1:
        row, column = state.column[min(i, j)], state.column[max(i, j)]
        state.near[row, column] += 1
        count = state.near[row, column]
    else:
        at = slot(state, i, j)
        if state.pair[at] == EMPTY:
            state.pair[at] = min(i, j) * len(state.clicks) + max(i, j)
            state.counts[PAIRED] += 1
        state.both[at] += 1
        count = state.both[at]
    state.most_both[i] = max(state.most_both[i], count)
    state.most_both[j] = max(state.most_both[j], count)


@inner
def shared_clicks(state: Any, i: int, j: int) -> int:
    """both_ij."""
    if len(state.near) > 1 and state.column[i] >= 0 and state.column[j] >= 0:
        return int(state.near[state.column[min(i, j)], state.column[max(i, j)]])
    at = slot(state, i, j)
    return int(state.both[at]) if state.pair[at] != EMPTY else 0


@inner
def needed_clicks(state: Any, u: int) -> int:
    """R(u), from the table where that is long enough."""
    if u < len(state.needed):
        return int(state.needed[u])
    return required(u, state.numbers[0], u + int(state.needed[len(state.needed) - 1]) - len(state.needed) + 1)


@loop
def fill_needed(needed: Ints, delta: float) -> None:
    """The table R(u), from 0 on."""
    guess = 1
    for u in range(len(needed)):
        guess = required(u, delta, guess)
        needed[u] = guess


@loop
def rehash(state: Any, bigger: Any) -> None:
    """Copy the pairs of one state into the larger table of another."""
    pair, both = state.pair, state.both
    for at in range(len(pair)):
        if pair[at] != EMPTY:
            i, j = pair[at] // len(state.clicks), pair[at] % len(state.clicks)
            new = slot(bigger, i, j)
            bigger.pair[new], bigger.both[new] = pair[at], both[at]


@loop
def to_square(state: Any, bigger: Any) -> None:
    """Copy both_ij of the first block from the table of pairs into a square."""
    size = 0
    for item in range(len(state.clicks)):  # columns in the order of item indices, like the keys of pairs
        if state.left[item, 0] == 0:
            bigger.column[item] = size
            size += 1
    for at in range(len(state.pair)):
        if state.pair[at] != EMPTY:
            i, j = state.pair[at] // len(state.clicks), state.pair[at] % len(state.clicks)
            if bigger.column[i] >= 0 and bigger.column[j] >= 0:
                bigger.near[bigger.column[i], bigger.column[j]] = state.both[at]
