"""What a stream of requests is made of, as data; and one request drawn from it, compiled.

Items lie in groups (a cluster, the results of a query); a request draws its candidates from one group. What is examined may
depend on the group, and so may the segment that the request names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import hot, rare

CHOSEN, POPULAR, LISTED = 0, 1, 2
"""How candidates are drawn from a group: uniformly, by their popularity, or all of it, the groups in turn."""
TRIES = 8
"""By popularity, items are drawn one by one, at most TRIES times per candidate; then the rest at once."""


Turn = Callable[[np.random.Generator, int], None]
"""A change with time, made with a random stream and the number of rounds so far."""


@dataclass
class World:
    """Items, their true attraction, and how requests draw from them.

    Attributes:
        features: of the items, one row each; joint features with a context are made by the request.
        attraction: of the items; or one row per context, where there are contexts; or one row per group.
        candidates: n, how many a request has.
        start: the first item of each group.
        size: of each group.
        drawing: one of CHOSEN, POPULAR, LISTED.
        order: the order of groups that come in turn; empty for 0, 1, 2, ...
        popularity: of items, where they are drawn by it.
        leader: an item of every request, or -1.
        patience: one exponent per group, of the examination of positions; empty where all are alike.
        segments: the name that requests of a group give, or None.
        contexts: one row per visitor; empty for none.
        outer: whether joint features have the products of item and context.
        turn: makes changes with time; called with a random stream and the number of rounds so far.
        every: how many rounds lie between two changes.

    """

    features: Floats
    attraction: Floats
    candidates: int
    start: Ints
    size: Ints
    drawing: int = CHOSEN
    order: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    popularity: Floats = field(default_factory=lambda: np.zeros(0))
    leader: int = -1
    patience: Floats = field(default_factory=lambda: np.zeros(0))
    segments: list[str] | None = None
    contexts: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    outer: bool = True
    turn: Turn | None = None
    every: int = 0

    @property
    def dim(self) -> int:
        """How many features a ranker is given, joint ones included."""
        d, c = self.features.shape[1], self.contexts.shape[1]
        return int(d + c + (d * c if self.outer else 0) if c else d)


class Drawn(NamedTuple):
    """A stream and its present request, as compiled code sees them."""

    features: Floats  # (L, d)
    attraction: Floats  # (contexts, groups or 1, L)
    start: Ints
    size: Ints
    items: Ints  # (L,) shuffled within groups as requests are drawn
    drawing: int
    order: Ints  # of the groups, where they come in turn
    popularity: Floats  # (L,)
    cumulative: Floats  # (L,) of popularity
    keys: Floats  # (n,)
    stamp: Ints  # (L,) the last request that drew an item
    leader: int
    contexts: Floats
    outer: bool
    rows: Ints  # (n,) of this request: its candidates
    joint: Floats  # (n, D) their features, where there is a context
    truth: Floats  # (n,) their attraction
    every: Ints  # (n,) 0, 1, 2, ...
    slots: Ints  # (K,) 0, 1, 2, ...
    about: Ints  # (4,) candidates, group, requests so far, context (group, where there are none)


GROUP, COUNT, NUMBER, VISITOR = 1, 0, 2, 3


def drawn(world: World, positions: int) -> Drawn:
    """A stream at its beginning."""
    items = len(world.features)
    count = world.candidates
    cumulative = np.cumsum(world.popularity / world.popularity.sum()) if len(world.popularity) else np.zeros(0)
    return Drawn(
        np.ascontiguousarray(world.features, np.float64),
        np.ascontiguousarray(np.atleast_2d(world.attraction), np.float64),
        np.asarray(world.start, np.int64),
        np.asarray(world.size, np.int64),
        np.arange(items),
        world.drawing,
        world.order if len(world.order) else np.arange(len(world.start)),
        np.asarray(world.popularity, np.float64),
        cumulative,
        np.zeros(count),
        np.full(items, -1, np.int64),
        world.leader,
        np.ascontiguousarray(world.contexts, np.float64),
        world.outer,
        np.zeros(count, np.int64),
        np.zeros((count if world.contexts.size else 0, world.dim)),
        np.zeros(count),
        np.arange(count),
        np.arange(positions),
        np.zeros(4, np.int64),
    )


@hot
def draw(world: Drawn, rng: np.random.Generator) -> None:
    """Draw the next request: its candidates' rows and attraction, and joint features where there is a context."""
    number = world.about[NUMBER]
    group = world.order[number % len(world.order)] if world.drawing == LISTED else int(rng.random() * len(world.start))
    start, size = world.start[group], world.size[group]
    count, first = len(world.rows), 0
    if world.leader >= 0:
        world.rows[0] = world.leader
        first = 1
    if world.drawing == LISTED:
        count = min(count, size)
        for i in range(count):
            world.rows[i] = start + i
    elif world.drawing == CHOSEN:
        count = min(count, size + first)
        wanted = count - first
        left_out = 2 * wanted > size  # then the items left out are drawn, as they are fewer
        for i in range(size - wanted if left_out else wanted):
            j = start + i + int(rng.random() * (size - i))
            world.items[start + i], world.items[j] = world.items[j], world.items[start + i]
        begin = start + size - wanted if left_out else start
        for i in range(wanted):
            world.rows[first + i] = world.items[begin + i]
    else:
        i = first
        for _ in range(TRIES * count):
            if i == count:
                break
            item = min(int(np.searchsorted(world.cumulative, rng.random())), len(world.cumulative) - 1)
            if world.stamp[item] != number and item != world.leader:
                world.stamp[item] = number
                world.rows[i] = item
                i += 1
        if i < count:
            _rest(world, rng, i, number)
    visitor = int(rng.random() * world.contexts.shape[0]) if world.contexts.shape[0] > 0 else group
    for i in range(count):
        world.truth[i] = world.attraction[visitor if world.attraction.shape[0] > 1 else 0, world.rows[i]]
    if world.contexts.shape[0] > 0:
        _join(world, visitor, count)
    world.about[COUNT], world.about[GROUP], world.about[VISITOR] = count, group, visitor
    world.about[NUMBER] += 1


@rare
def _rest(world: Drawn, rng: np.random.Generator, begin: int, number: int) -> None:
    """Draw the candidates from ``begin`` on, as if one by one by popularity from those not drawn yet.

    These are the items with the least -ln(u) / popularity, u uniform, in this order: arrival times of Poisson processes.
    """
    rows, keys, held = world.rows, world.keys, begin
    for item in range(len(world.popularity)):
        if world.stamp[item] == number or item == world.leader:
            continue
        key = -math.log(1 - rng.random()) / world.popularity[item]
        if held < len(rows):
            held += 1
        elif key >= keys[held - 1]:
            continue
        i = held - 1
        while i > begin and keys[i - 1] > key:
            keys[i], rows[i] = keys[i - 1], rows[i - 1]
            i -= 1
        keys[i], rows[i] = key, item


@hot
def _join(world: Drawn, visitor: int, count: int) -> None:
    """Fill in joint features (x, c) and, where they are "outer", all x_i c_j."""
    d, size = world.features.shape[1], world.contexts.shape[1]
    for i in range(count):
        x = world.rows[i]
        for p in range(d):
            world.joint[i, p] = world.features[x, p]
        for q in range(size):
            world.joint[i, d + q] = world.contexts[visitor, q]
        if world.outer:
            for p in range(d):
                for q in range(size):
                    world.joint[i, d + size + p * size + q] = world.features[x, p] * world.contexts[visitor, q]
