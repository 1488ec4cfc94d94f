"""The probabilities of a slate whose blocks each try one item, in 64 bits per block.

Such a block shows its tried item first, which has probability s, and leaders below it. Let F_j be the probability that one of
its first j leaders is tried (it grows with j). Position j shows one leader with probability 1 - F_j as long as j <= t, and
another one with F_j below (``rankers/engines/propensity.py``). So probabilities fall and then rise, and the tried item
determines the whole block: given the items above, every position but the first has probability 1.

A block is encoded as one number: the rank of its probabilities among all that a block could have, on one of two grids.

| grid | probabilities | for |
|---|---|---|
| exact | multiples of 1/320; s follows from F where t says so | Balanced, whose tables have 64 or 32 samples and a fifth of balance rounds |
| logarithmic | s on 2^14 levels, the others on as many levels as fit, where they differ from the one above | RecurRank |

On the logarithmic grid p is rounded to one of its neighbours at random, so that 1 / p is unbiased: that is what
estimators sum. Both grids rank nondecreasing sequences l_0 <= l_1 <= ... of levels by sum_i C(l_i + i, i + 1), the
combinatorial number system.
"""  # noqa: E501 (a table)

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Floats, Ints
from recurrank._compiled import apart, inner

WIDEST = 15
"""Most positions of a block that is encoded."""
EXACT = 320
"""Steps of the exact grid."""
LEVELS = 4096
"""Most levels of the logarithmic grid."""
TRIED, TRIED_OCTAVES = 1 << 14, 24.0
"""Levels of a tried item's probability, and the octaves that they span."""
OCTAVES = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 14.0])
"""Choices for the octaves that the other levels span."""
COARSEST = 0.25
"""Largest step between two levels, in octaves; a coarser block is not encoded."""
WORD, SHORT = (1 << 63) - 1, 1 << 54
"""Number of values of the word of a block; and of the short word, which leaves room for the number of its block."""

NONE = WORD
"""The word of an unused block."""


def _ways() -> Ints:
    """By n and N, the number of nondecreasing sequences of n levels out of N: C(N + n - 1, n)."""
    table = np.zeros((WIDEST + 2, LEVELS + 1), np.int64)
    table[0] = 1
    for n in range(1, WIDEST + 2):
        total = 0
        for size in range(1, LEVELS + 1):
            total = min(WORD, total + int(table[n - 1, size]))  # C(N+n-1, n) = C(N+n-2, n) + C(N+n-2, n-1)
            table[n, size] = total
    return table


WAYS = _ways()


def _sizes() -> Ints:
    """By width, the codes of all narrower blocks on the exact grid: t, F_1, F_2, ..., and perhaps s as another point."""
    total, starts = 0, [0, 0]
    for m in range(1, WIDEST + 1):
        total = min(WORD, total + (m - 1) * int(WAYS[m - 1, EXACT + 1]) + int(WAYS[m, EXACT + 1]))
        starts.append(total)
    return np.array(starts)


NARROWER = _sizes()


@inner
def rank_of(levels: Ints, begin: int, end: int, ways: Ints) -> int:
    """The rank of levels[begin:end], which are nondecreasing."""
    rank = 0
    for i in range(end - begin):
        rank += ways[i + 1, levels[begin + i]]
    return rank


@inner
def levels_of(rank: int, levels: Ints, begin: int, end: int, ways: Ints) -> None:
    """The reverse of :func:`rank_of`: write the levels of this rank."""
    for i in range(end - begin - 1, -1, -1):
        low, high = 0, LEVELS
        while high - low > 1:
            middle = (low + high) // 2
            if ways[i + 1, middle] <= rank:
                low = middle
            else:
                high = middle
        levels[begin + i] = low
        rank -= ways[i + 1, low]


@inner
def exact_code(p: Floats, levels: Ints, ways: Ints) -> int:
    """The code of a block on the exact grid; -1 if it is not on the grid. ``p`` begins with s."""
    m, code = len(p), NARROWER[len(p)]
    if NARROWER[m + 1] == WORD:
        return -1
    for k in range(m):
        if abs(p[k] * EXACT - round(p[k] * EXACT)) > 1e-6:
            return -1
    s = round(p[0] * EXACT)
    for t in range(m - 1, -1, -1):
        fits, above = True, 0
        for j in range(1, m):
            k = round(p[j] * EXACT)
            levels[j - 1] = EXACT - k if j <= t else k
            fits &= levels[j - 1] >= above
            above = levels[j - 1]
        if t == m - 1:
            levels[m - 1] = above + s
            if fits and levels[m - 1] <= EXACT:
                return int(code + t * ways[m - 1, EXACT + 1] + rank_of(levels, 0, m, ways))
        elif fits and levels[t] - (levels[t - 1] if t else 0) == s:
            return int(code + t * ways[m - 1, EXACT + 1] + rank_of(levels, 0, m - 1, ways))
    return -1


@inner
def exact_block(code: int, p: Floats, levels: Ints, ways: Ints) -> int:
    """Write the probabilities of a block to ``p``; returns its number of positions."""
    m = 1
    while m < min(WIDEST, len(p)) and code >= NARROWER[m + 1]:
        m += 1
    code -= NARROWER[m]
    t = min(m - 1, code // ways[m - 1, EXACT + 1]) if m > 1 else 0
    free = t == m - 1  # s is a point of its own
    levels_of(code - t * ways[m - 1, EXACT + 1], levels, 0, m if free else m - 1, ways)
    for j in range(1, m):
        p[j] = (EXACT - levels[j - 1] if j <= t else levels[j - 1]) / EXACT
    before = levels[t - 1] if t else 0
    p[0] = (levels[t] - before) / EXACT
    return m


@inner
def rooms(positions: int, count: int, short: bool) -> tuple[int, int]:
    """Number of codes of one of ``count`` blocks: on the exact grid, which come first, and on the logarithmic one."""
    limit = SHORT // count if short and count > 1 else WORD
    exact = min(NARROWER[min(positions, WIDEST) + 1], limit // 3 * 2)
    return exact, limit - exact


@inner
def levels_within(space: float, falling: int, rising: int, ways: Ints) -> int:
    """The most levels N for which ``space`` codes suffice for so many falling and rising values."""
    low, high = 0, LEVELS
    while high - low > 1:
        middle = (low + high) // 2
        if float(ways[falling, middle]) * float(ways[rising, middle]) <= space:
            low = middle
        else:
            high = middle
    return low


@inner
def level(p: float, octaves: float, levels: int, chance: float) -> int:
    """The level of a probability, rounded at random so that 1 / p is unbiased."""
    step = octaves / (levels - 1)
    lower = min(levels - 2, int(-math.log2(p) / step))
    above, below = 2.0 ** (lower * step), 2.0 ** ((lower + 1) * step)  # of 1 / p
    return lower + int(chance < (1.0 / p - above) / (below - above))


@inner
def log_code(p: Floats, positions: int, limit: int, chance: float, levels: Ints, ways: Ints) -> int:
    """The code of a block on the logarithmic grid, below ``limit``; -1 if it does not fit."""
    m, runs, falling, least, above = len(p), 0, 0, 1.0, 1.0
    subset = 0  # the rank of the positions whose probability is not that of the one above
    for j in range(1, m):
        if p[j] != above:
            if p[j] < above and falling == runs:
                falling += 1
            elif p[j] < above:
                return -1  # it falls after it has risen
            runs += 1
            subset += ways[runs, j - runs]  # C(j - 1, runs)
            above = p[j]
            least = min(least, above)
    if not (p[0] > 2.0**-TRIED_OCTAVES and least >= 2.0 ** -OCTAVES[-1]):
        return -1
    reach = 0
    while least < 2.0 ** -OCTAVES[reach]:
        reach += 1
    # digits, the least first: positions, runs, subset, falling, s, reach, and the values
    unit, code = 1, 0
    for digit, radix in (
        (m - 1, positions),
        (runs, m),
        (subset, max(1, ways[runs, m - runs])),
        (falling, runs + 1),
        (level(p[0], TRIED_OCTAVES, TRIED, chance), TRIED),
        (reach, len(OCTAVES)),
    ):
        code += unit * digit
        unit *= radix
    size = levels_within(limit / unit, falling, runs - falling, ways)
    if runs == 0:
        return code if unit < limit else -1
    if size < 2 or OCTAVES[reach] / (size - 1) > COARSEST:
        return -1
    run, above = 0, 1.0
    for j in range(1, m):
        if p[j] != above:
            above = p[j]
            found = level(above, OCTAVES[reach], size, chance)
            levels[run] = found if run < falling else size - 1 - found
            run += 1
    values = rank_of(levels, 0, falling, ways) * ways[runs - falling, size] + rank_of(levels, falling, runs, ways)
    return int(code + unit * values)


@inner
def log_block(code: int, positions: int, limit: int, p: Floats, levels: Ints, ways: Ints) -> int:
    """The reverse of :func:`log_code`; returns the number of positions of the block."""
    m = code % positions + 1
    unit, code = positions, code // positions
    runs, unit, code = code % m, unit * m, code // m
    radix = max(1, ways[runs, m - runs])
    subset, unit, code = code % radix, unit * radix, code // radix
    falling, unit, code = code % (runs + 1), unit * (runs + 1), code // (runs + 1)
    p[0], unit, code = 2.0 ** (-(code % TRIED) * TRIED_OCTAVES / (TRIED - 1)), unit * TRIED, code // TRIED
    octaves, unit, code = OCTAVES[code % len(OCTAVES)], unit * len(OCTAVES), code // len(OCTAVES)
    for j in range(1, m):
        p[j] = -1.0
    size = levels_within(limit / unit, falling, runs - falling, ways)
    for run in range(runs, 0, -1):  # which positions are new: the largest j with C(j - 1, run) <= subset
        j = run
        while j + 1 < m and ways[run, j + 1 - run] <= subset:
            j += 1
        subset -= ways[run, j - run]
        p[j] = float(run)  # for now, the number of its run
    if runs:
        levels_of(code // ways[runs - falling, size], levels, 0, falling, ways)
        levels_of(code % ways[runs - falling, size], levels, falling, runs, ways)
    above = 1.0
    for j in range(1, m):
        if p[j] > 0:
            run = int(p[j]) - 1
            found = levels[run] if run < falling else size - 1 - levels[run]
            above = 2.0 ** (-found * octaves / (size - 1))
        p[j] = above
    return m


@apart
def encode(
    marginal: Floats,
    conditional: Floats,
    used: Ints,
    chance: Floats,
    ways: Ints,
    words: Ints,
    last: Ints,
    done: NDArray[np.bool_],
) -> None:
    """Encode n slates: ``words[i, b]`` is the word of block b, ``last[i]`` the block whose word is the short one.

    A block begins at a position with a probability below 1 given the items above, and ends before the next such position.
    There are at most ``used`` blocks, the marks in use, fewer if a block has only one item left to try; ``NONE`` fills the
    rest. ``done`` says which slates could be encoded.
    """
    positions = marginal.shape[1]
    levels = np.zeros(WIDEST + 1, np.int64)
    begins = np.zeros(positions + 1, np.int64)
    for i in range(len(marginal)):
        count, fine = 0, True
        for k in range(positions):
            if conditional[i, k] < 1.0:
                begins[count] = k
                count += 1
                fine &= marginal[i, k] == conditional[i, k]
            fine &= marginal[i, k] > 0.0 and conditional[i, k] > 0.0 and (count > 0 or marginal[i, k] == 1.0)
        begins[count] = positions
        done[i] = fine and 0 < count <= used[i]
        if not done[i]:
            continue
        last[i] = 0
        for b in range(count):
            if begins[b + 1] - begins[b] < begins[last[i] + 1] - begins[last[i]]:
                last[i] = b
            done[i] &= begins[b + 1] - begins[b] <= WIDEST
        for b in range(count, used[i]):
            words[i, b] = NONE
        for b in range(count):
            if done[i]:
                exact, other = rooms(positions, used[i], b == last[i])
                p = marginal[i, begins[b] : begins[b + 1]]
                words[i, b] = exact_code(p, levels, ways)
                if not 0 <= words[i, b] < exact:
                    code = log_code(p, positions, other, chance[i], levels, ways)
                    words[i, b] = exact + code
                    done[i] &= 0 <= code < other


@apart
def decode(words: Ints, last: int, positions: int, ways: Ints) -> tuple[Floats, Floats]:
    """The marginal and the conditional probabilities of a slate from its blocks' words."""
    levels, found = np.zeros(WIDEST + 1, np.int64), np.ones((len(words), positions))
    widths = np.zeros(len(words), np.int64)
    for b in range(len(words)):
        exact, other = rooms(positions, len(words), b == last)
        if words[b] == NONE:
            widths[b] = 0
        elif words[b] < exact:
            widths[b] = exact_block(words[b], found[b], levels, ways)
        else:
            widths[b] = log_block(words[b] - exact, positions, other, found[b], levels, ways)
    marginal, conditional = np.ones(positions), np.ones(positions)
    first = positions - widths.sum()
    for b in range(len(words)):
        for j in range(widths[b]):
            if 0 <= first + j < positions:
                marginal[first + j] = found[b, j]
        if 0 <= first < positions and widths[b] > 0:
            conditional[first] = found[b, 0]
        first += widths[b]
    return marginal, conditional
