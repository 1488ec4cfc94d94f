"""BubbleRank: Li, Kveton, Lattimore, Markov, de Rijke, Szepesvari, Zoghi (UAI 2019), Algorithm 1.

*BubbleRank: Safe Online Learning to Re-Rank via Implicit Click Feedback.*

| paper                     | code                                                                      |
|---------------------------|---------------------------------------------------------------------------|
| R_0                       | ``initial``: the catalogue's order, a prior's, or that of given scores    |
| base list R-bar_t         | ``State.base``, its first K items                                         |
| h = (t - 1) mod 2         | ``State.clock``, and in the marks of a slate                              |
| s_t(i, j), n_t(i, j)      | ``State.wins``, ``State.counts``                                           |
| 2 sqrt(n log(1/delta))    | ``_beats``                                                                |
| delta = n^-4              | ``delta``, by default 1 / T^4                                             |

Every round pairs up neighbours of the base list, from the first or from the second position in turn. A pair whose order is not
certain is shown in random order; a click on one of the two and not on the other counts for it. Where a lower item is certainly
better, the two are exchanged for good. So a slate is never further from the base list than one exchange of neighbours.

Guarantee: regret O(K (K + |V_0|) log(T) / Delta) for K items on K positions, V_0 being the pairs in the wrong order in R_0,
under every click model in which examination depends on the position and on what is above (cascade, position-based).

The paper re-ranks K items. With more than K, the position that is left without a neighbour at the end is paired with an item
that is drawn from all that are not on it. That is slow, since delta makes it cautious (measured in ``docs/deviations.md``).
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.engines.tracking import Changes, no_changes, touch
from recurrank.rankers.knowledge import Knowledge
from recurrank.rankers.options import Option, failure
from recurrank.rankers.prior import BelievedBefore
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

PARTNER, PARITY = 0, 1
"""Columns of a slate's marks: the item that could have stood at the last position instead, and (at the first position) h."""
USED, BEATEN = 0, 1

Delta = Annotated[float | None, failure("1/rounds^4", lambda ranker: max(float(ranker.rounds) ** -4, 1e-100))]
Initial = Annotated[
    ArrayLike | None, Option("how good a present ranking takes each item to be; the base list starts in that order", per="item")
]


class State(NamedTuple):
    base: Ints  # (L,) the base list, then all other items
    place: Ints  # (L,) an item's index in it
    row: Ints  # (L,) of the items that have been on the base list, their row in the next two; else L
    wins: NDArray[np.int32]  # (R, L) s of the row's item against every other
    counts: NDArray[np.int32]  # (R, L) n
    changes: Changes  # of these two
    sizes: Ints  # (2,) rows in use; how many items outside the list its last item certainly beats
    clock: Ints  # (1,) t - 1
    level: Floats  # (1,) log(1/delta)


@inner
def _beats(state: State, i: int, j: int) -> bool:
    """Whether s(i, j) > 2 sqrt(n(i, j) log(1/delta)). A pair is in the older row of the two."""
    older = state.row[i] <= state.row[j]
    row, item = (state.row[i], j) if older else (state.row[j], i)
    if row == len(state.row):
        return False
    s = float(state.wins[row, item] if older else -state.wins[row, item])
    return s > 2 * math.sqrt(state.counts[row, item] * state.level[0])


@inner
def _compare(state: State, size: int, i: int, j: int, difference: int) -> None:
    """One more click on just one of the two: s(i, j) += difference, n(i, j) += 1."""
    older = state.row[i] <= state.row[j]
    row, item = (state.row[i], j) if older else (state.row[j], i)
    if row == len(state.row):
        return
    above, below = (i, j) if state.place[i] < state.place[j] else (j, i)
    counted = state.place[above] == size - 1
    beaten = counted and _beats(state, above, below)
    state.wins[row, item] += difference if older else -difference
    state.counts[row, item] += 1
    touch(state.changes, row * len(state.row) + item)
    if counted:
        state.sizes[BEATEN] += int(_beats(state, above, below)) - int(beaten)


@inner
def _exchange(state: State, a: int, b: int) -> None:
    """Exchange the items at indices a and b of the base list."""
    base, place = state.base, state.place
    base[a], base[b] = base[b], base[a]
    place[base[a]], place[base[b]] = a, b


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    size, h = len(slate.items), state.clock[0] % 2
    state.clock[0] += 1
    for k in range(size):
        slate.items[k] = state.base[k]
    slate.marks[size - 1, PARTNER] = -1
    slate.marks[0, PARITY] = h
    for k in range(h, size - 1, 2):
        i, j = slate.items[k], slate.items[k + 1]
        if not _beats(state, i, j) and rng.random() < 0.5:
            slate.items[k], slate.items[k + 1] = j, i
    if (size - h) % 2 == 1 and len(state.base) > size:
        i, j = state.base[size - 1], state.base[size + int(rng.random() * (len(state.base) - size))]
        if not _beats(state, i, j):
            swap = rng.random() < 0.5
            slate.items[size - 1] = j if swap else i
            slate.marks[size - 1, PARTNER] = i if swap else j


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    size, h = len(slate.items), max(slate.marks[0, PARITY], 0)
    before = state.base[size - 1]
    for k in range(h, len(clicks) - 1, 2):
        if clicks[k] != clicks[k + 1]:
            _compare(state, size, slate.items[k], slate.items[k + 1], 1 if clicks[k] else -1)
    partner = slate.marks[size - 1, PARTNER]
    if partner >= 0 and len(clicks) == size and clicks[size - 1]:
        _compare(state, size, slate.items[size - 1], partner, 1)
    # Line 17 of Algorithm 1: neighbours of the base list whose order is certainly wrong
    for k in range(size - 1):
        if _beats(state, state.base[k + 1], state.base[k]):
            _exchange(state, k, k + 1)
    grown = partner >= 0 and _enter(state, size, slate.items[size - 1], partner)
    if before != state.base[size - 1]:
        _count_beaten(state, size)
    return grown


@inner
def _enter(state: State, size: int, shown: int, other: int) -> bool:
    """An outside item that certainly beats the last of the list replaces it; True when no row is left for the next one."""
    inside, outside = (shown, other) if state.place[shown] < state.place[other] else (other, shown)
    if state.place[inside] != size - 1 or state.place[outside] < size or not _beats(state, outside, inside):
        return False
    _exchange(state, size - 1, state.place[outside])
    if state.row[outside] == len(state.row):
        state.row[outside] = state.sizes[USED]
        state.sizes[USED] += 1
    return bool(state.sizes[USED] == len(state.wins) < len(state.row))


@inner
def _count_beaten(state: State, size: int) -> None:
    """How many items outside the list its last item certainly beats."""
    beaten = 0
    for k in range(size, len(state.base)):
        beaten += _beats(state, state.base[size - 1], state.base[k])
    state.sizes[BEATEN] = beaten


@hot
def served(state: State, slate: Buffer) -> None:
    state.clock[0] += 1


@hot
def recall(state: State, before: Floats) -> None:
    before[0] = state.clock[0] % 2


@hot
def propensity(state: State, before: Floats, slate: Buffer, marginal: Floats) -> float:
    size, h, joint, base, items = len(marginal), int(before[0]), 1.0, state.base, slate.items
    for k in range(size):
        marginal[k] = 1.0 * (items[k] == base[k])
    for k in range(h, size - 1, 2):
        if not _beats(state, base[k], base[k + 1]):
            marginal[k] = 0.5 * (items[k] == base[k] or items[k] == base[k + 1])
            marginal[k + 1] = 0.5 * (items[k + 1] == base[k] or items[k + 1] == base[k + 1])
            joint *= 2.0 * (items[k] != items[k + 1])  # the two are certain together
    others = len(base) - size
    if (size - h) % 2 == 1 and others > 0:
        if items[size - 1] == base[size - 1]:
            marginal[size - 1] = 1 - 0.5 * (others - state.sizes[BEATEN]) / others
        elif state.place[items[size - 1]] >= size and not _beats(state, base[size - 1], items[size - 1]):
            marginal[size - 1] = 0.5 / others
    for k in range(size):
        joint *= marginal[k]
    return joint


class BubbleRank(Ranker):
    """BubbleRank (Li et al. 2019): starts from a present order and exchanges neighbours, so that no slate is far from it.

    It re-ranks what is on the page. With more items than positions and no good order to start from, it may lose as much as
    random rankings for 10^5 rounds.
    """

    name = "bubblerank"
    reference = "Li, Kveton, Lattimore, Markov, de Rijke, Szepesvari, Zoghi 2019"
    believes = "general click model"
    uses_features = False
    regret_bound = "O(K (K + |V_0|) log(T) / Delta) for L = K"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_propensity = propensity
    compiled_recall = recall
    tracked = ("wins", "counts")

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        delta: Delta = None,
        initial: Initial = None,
        prior: BelievedBefore = None,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        items = len(self.catalogue)
        [failure_] = self.record(delta=delta)
        rows = min(2 * self.positions + 6, items)
        base = self._first_order(initial, prior)
        place = np.empty(items, np.int64)
        place[base] = np.arange(items)
        row = np.full(items, items)
        row[base[: self.positions]] = np.arange(self.positions)
        self.state = State(
            base,
            place,
            row,
            np.zeros((rows, items), np.int32),
            np.zeros((rows, items), np.int32),
            no_changes(rows * items),
            np.array([self.positions, 0]),
            np.zeros(1, np.int64),
            np.array([math.log(1 / failure_)]),
        )

    def _first_order(self, initial: ArrayLike | None, prior: object) -> Ints:
        """R_0, and all other items behind it."""
        believed = self.record_prior(prior)
        if initial is not None and believed is not None:
            raise ValueError("initial: there is a prior, too; give one of the two")
        if initial is not None:
            [scores] = self.record(initial=initial)
        elif believed is not None:
            scores = np.asarray(self.catalogue.features, np.float64) @ believed.theta()
        else:
            return np.arange(len(self.catalogue))
        return np.argsort(-scores, kind="stable").astype(np.int64)

    def plan(self) -> None:
        """Make room for the comparisons of more items."""
        state, items = self.state, len(self.catalogue)
        more = np.zeros((min(len(state.wins), items - len(state.wins)), items), np.int32)
        wins, counts = np.vstack([state.wins, more]), np.vstack([state.counts, more])
        self.state = state._replace(wins=wins, counts=counts, changes=no_changes(wins.size))

    def knowledge(self) -> Knowledge:
        """The base list."""
        return Knowledge(leaders=self.state.base[: self.positions].tolist())


register(State, BubbleRank)
