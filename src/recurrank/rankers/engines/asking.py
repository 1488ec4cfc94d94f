"""Which items RecurRank's blocks explore, in proportion to the answers that are missing; and late or lost answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import hot, inner, natural
from recurrank.rankers.blocks import Block
from recurrank.rankers.engines.propensity import FIRST, one_tried_per_block
from recurrank.rankers.ranker import Buffer

STRIDE = 16
"""How many explored items have their shares summed at once."""
KEY, START, STOP = 0, 3, 4
"""Indices into a row of ``State.block``."""


class Feedback(NamedTuple):
    """What became of the explored positions of all slates answered so far.

    ``learned`` counted; ``surplus`` came after enough had; ``late`` came after their block had closed.
    """

    learned: int
    surplus: int
    late: int


class State(NamedTuple):
    """All blocks at once. B blocks; E explored items, those of one block next to each other.

    The state and slates identify a block by its *key*, a digest of its positions, items and ancestors. Copies of a ranker
    that diverged (a restored one, and the one that crashed after it was saved) therefore ignore each other's blocks.
    """

    leaders: Ints  # (K,) the first m items of each block, in order, at the block's positions
    block: Ints  # (B, 5) key, first position, width m, and where its explored items start and stop
    explored: Ints  # (E,) items
    short: Ints  # (E,) answers still missing of T(a)
    out: Ints  # (E,) slates that explore this item and are not answered yet
    left: Ints  # (E,) max(short - out, 0): answers that are still to be requested
    clicks: Ints  # (E,) clicks among the answers
    open: Ints  # (B,) sum over the block of left
    missing: Ints  # (B,) sum over the block of short
    counts: Ints  # (3,) answers learned, surplus, late


def assembled(blocks: list[Block], carried: dict[int, tuple[Ints, Ints, Ints]], counts: Feedback) -> State:
    """The blocks as a state, with what is carried over of those that go on."""
    table = np.zeros((len(blocks), 5), np.int64)
    start = 0
    for b, block in enumerate(blocks):
        stop = start + len(block.visits)
        table[b] = (block.key, block.first, block.width, start, stop)
        start = stop
    columns = [
        carried.get(block.id, (block.visits, np.zeros_like(block.visits), np.zeros_like(block.visits))) for block in blocks
    ]
    short, out, clicks = (np.concatenate([column[i] for column in columns]) for i in range(3))
    left = np.maximum(short - out, 0)
    return State(
        leaders=np.concatenate([block.leaders for block in blocks]),
        block=table,
        explored=np.concatenate([block.explored for block in blocks]),
        short=short,
        out=out,
        left=left,
        clicks=clicks,
        open=np.array([left[row[START] : row[STOP]].sum() for row in table], np.int64),
        missing=np.array([short[row[START] : row[STOP]].sum() for row in table], np.int64),
        counts=np.array(counts, np.int64),
    )


@inner
def draw(state: State, rng: np.random.Generator, b: int) -> int:
    """An explored item of block b, drawn in proportion to the answers still to be requested; -1 if the block explores none.

    When all missing answers have been requested but have not come, some may be lost: they are requested again.
    """
    start, stop = state.block[b, START], state.block[b, STOP]
    if start == stop:
        return -1
    again = state.open[b] == 0
    share = state.short if again else state.left
    at = int(rng.random() * (state.missing[b] if again else state.open[b]))
    while start + STRIDE <= stop:  # long strides first, each summed in a few instructions
        several = 0
        for e in range(start, start + STRIDE):
            several += share[natural(e)]
        if at < several:
            break
        at -= several
        start += STRIDE
    entry, below = start, 0
    for e in range(start, min(start + STRIDE, stop)):  # all of them: leaving early costs more, in mispredicted branches
        below += share[natural(e)]
        entry += below <= at
    if not again:
        state.left[entry] -= 1
        state.open[b] -= 1
    state.out[entry] += 1
    return int(entry)


@inner
def row_of(state: State, block: int, guess: int) -> int:
    """The row of the block with this key, most likely the guess; -1 if it is closed."""
    if guess < len(state.open) and state.block[guess, KEY] == block:
        return guess
    for b in range(len(state.open)):
        if state.block[b, KEY] == block:
            return b
    return -1


@inner
def asked(state: State, slate: Buffer, i: int) -> tuple[int, int]:
    """The row of the block that made the i-th mark of a slate, and the explored item that it names; -1 if that is closed."""
    b = row_of(state, slate.marks[i, 0], i)
    if b < 0 or not 0 <= slate.marks[i, 1] < state.block[b, STOP] - state.block[b, START]:
        return -1, -1
    return b, state.block[b, START] + slate.marks[i, 1]


@inner
def answered(state: State, b: int, entry: int) -> None:
    """One outstanding slate fewer: if its item lacks answers, one more is to be requested."""
    if state.out[entry] > 0:
        state.out[entry] -= 1
        if state.short[entry] > state.out[entry]:
            state.left[entry] += 1
            state.open[b] += 1


@hot
def served(state: State, slate: Buffer) -> None:
    """What ``rank`` does to the state when it draws this slate."""
    for i in range(len(slate.marks)):
        if slate.marks[i, 0] < 0:
            break
        b, entry = asked(state, slate, i)
        if b >= 0:
            if state.short[entry] > state.out[entry]:
                state.left[entry] -= 1
                state.open[b] -= 1
            state.out[entry] += 1


@hot
def drop(state: State, slate: Buffer) -> None:
    """The reverse of :func:`served`, for a slate whose answer will not come."""
    for i in range(len(slate.marks)):
        if slate.marks[i, 0] < 0:
            break
        b, entry = asked(state, slate, i)
        if b >= 0:
            answered(state, b, entry)


@hot
def recall(state: State, before: Floats) -> None:
    """Remember how many answers were still to be requested in each block."""
    for b in range(len(state.open)):
        before[b] = state.open[b]


@inner
def share(state: State, before: Floats, slate: Buffer, b: int, item: int) -> float:
    """The probability with which :func:`draw` took this item for block b: its share of the answers still to be requested."""
    start, stop = state.block[b, START], state.block[b, STOP]
    if start == stop:
        return 1.0 if state.leaders[state.block[b, FIRST]] == item else 0.0
    for e in range(start, stop):
        if state.explored[e] == item:
            if before[b] == 0:
                return float(state.short[e] / state.missing[b])
            drawn = before[b] > state.open[b] and item == slate.items[state.block[b, FIRST]]
            return float((state.left[e] + drawn) / before[b])
    return 0.0


propensity = one_tried_per_block(share)
