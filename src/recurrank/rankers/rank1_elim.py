"""Rank1Elim: Katariya, Kveton, Szepesvari, Vernade, Wen, *Stochastic Rank-1 Bandits* (AISTATS 2017), Algorithm 1; Rank1ElimKL:
the same authors, *Bernoulli Rank-1 Bandits for Click Feedback* (IJCAI 2017).

One item and the position to show it at, when neither attraction nor examination is known: a click has probability u_i v_j.

| paper                              | code                                                                       |
|------------------------------------|----------------------------------------------------------------------------|
| rows i, columns j                  | items, positions of the page                                               |
| n                                  | ``rounds``                                                                 |
| h^U, h^V                           | ``State.row_of``, ``State.column_of``: what stands for what                |
| I, J                               | ``State.rows``, ``State.columns``; how many, in ``State.counts``         |
| sum_j C^U(i, j), sum_i C^V(i, j)   | ``State.row_clicks``, ``State.column_clicks``                              |
| n_l = 4 * 4^l log n                | ``exploration``; 16 for Rank1ElimKL                                        |
| U, L                               | mean -+ sqrt(log n / n_l); Rank1ElimKL: n_l kl(mean, q) <= log n + 3 log log n |
| lines 17-27, elimination           | ``plan``                                                                   |

A sweep over the rows shows every remaining item at one random position, a sweep over the columns one random item at every
remaining position; what is eliminated is replaced by what eliminated it. Guarantee: regret O((L + K) log(T) / (mu Delta)), mu
being the least of the means of u and of v.

A page has K positions, and the paper fills one. Here the others show the best-known items in order, those of the last stage;
their clicks are not used, and the guarantee does not cover them.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.engines.optimism import kl_upper
from recurrank.rankers.knowledge import Knowledge
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

ROWS, COLUMNS, CURSOR, SIDE, FIXED, STAGE, MISSING = 0, 1, 2, 3, 4, 5, 6


class State(NamedTuple):
    row_of: Ints  # (L,) h^U
    column_of: Ints  # (K,) h^V
    rows: Ints  # (L,) I, then unused entries
    columns: Ints  # (K,) J, then unused entries
    row_seen: Ints  # (L,)
    row_clicks: Ints  # (L,)
    column_seen: Ints  # (K,)
    column_clicks: Ints  # (K,)
    order: Ints  # (L,) items by their estimates at the end of the last stage, best first
    scratch: Ints  # (K,)
    counts: Ints  # (7,) |I|, |J|; where the sweep is, over rows (0) or columns (1), its other side; l; answers to come


class KlState(NamedTuple):
    row_of: Ints
    column_of: Ints
    rows: Ints
    columns: Ints
    row_seen: Ints
    row_clicks: Ints
    column_seen: Ints
    column_clicks: Ints
    order: Ints
    scratch: Ints
    counts: Ints


@inner
def fill(state: Any, item: int, position: int, items: Ints) -> None:
    """Show the item at the position, and the best-known others in order around it."""
    n = 0
    for k in range(len(items)):
        if k == position:
            items[k] = item
            continue
        if state.order[n] == item:
            n += 1
        items[k] = state.order[n]
        n += 1


@inner
def _advance(state: Any) -> None:
    counts = state.counts
    counts[CURSOR] += 1
    if counts[CURSOR] >= counts[ROWS if counts[SIDE] == 0 else COLUMNS]:
        counts[CURSOR], counts[SIDE], counts[FIXED] = 0, 1 - counts[SIDE], -1


@hot
def rank(state: Any, rng: np.random.Generator, slate: Buffer) -> None:
    counts = state.counts
    over_rows = counts[SIDE] == 0
    if counts[FIXED] < 0:
        drawn = state.column_of if over_rows else state.row_of
        counts[FIXED] = drawn[int(rng.random() * len(drawn))]
    item = state.rows[counts[CURSOR]] if over_rows else counts[FIXED]
    position = counts[FIXED] if over_rows else state.columns[counts[CURSOR]]
    fill(state, item, position, slate.items)
    slate.marks[0, 0] = position
    slate.marks[0, 1] = counts[SIDE]
    _advance(state)


@hot
def served(state: Any, slate: Buffer) -> None:
    state.counts[FIXED] = -1
    _advance(state)


@hot
def learn(state: Any, slate: Buffer, clicks: Bools) -> bool:
    position = slate.marks[0, 0]
    if position < 0 or position >= len(clicks):  # a slate that it did not rank, or a position that was never seen
        return False
    if slate.marks[0, 1] == 0:
        item = slate.items[position]
        state.row_seen[item] += 1
        state.row_clicks[item] += clicks[position]
    else:
        state.column_seen[position] += 1
        state.column_clicks[position] += clicks[position]
    state.counts[MISSING] -= 1
    return bool(state.counts[MISSING] <= 0)


@hot
def recall(state: Any, before: Floats) -> None:
    before[0] = state.counts[CURSOR]
    before[1] = state.counts[SIDE] + (2 * (state.counts[FIXED] + 1))


@hot
def propensity(state: Any, before: Floats, slate: Buffer, marginal: Floats) -> float:
    """The sum over what could have been drawn for the sweep's other side."""
    cursor, code = int(before[0]), int(before[1])
    side, fixed = code % 2, code // 2 - 1
    drawn = state.column_of if side == 0 else state.row_of
    joint, share = 0.0, 1.0 if fixed >= 0 else 1.0 / len(drawn)
    marginal[:] = 0.0
    for n in range(1 if fixed >= 0 else len(drawn)):
        other = fixed if fixed >= 0 else drawn[n]
        item = state.rows[cursor] if side == 0 else other
        position = other if side == 0 else state.columns[cursor]
        fill(state, item, position, state.scratch)
        same = True
        for k in range(len(marginal)):
            marginal[k] += share * (state.scratch[k] == slate.items[k])
            same &= state.scratch[k] == slate.items[k]
        joint += share * same
    state.scratch[:] = 0  # the state must not depend on this call
    return joint


class Rank1Elim(Ranker):
    """Rank1Elim (Katariya et al. 2017): one item and its position; the rest of the page shows the best-known items."""

    name = "rank1-elim"
    reference = "Katariya, Kveton, Szepesvari, Vernade, Wen 2017"
    believes = "position-based, unknown examination, one position at a time"
    uses_features = False
    regret_bound = "O((L + K) log(T) / (mu Delta)) for one item and its position"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_propensity = propensity
    compiled_recall = recall
    made_of: ClassVar[type[Any]] = State
    constant: float

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        exploration: Annotated[float, Option("the 4 in n_l = 4 * 4^l log n", above=0)] = 4.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        self._begin(exploration)

    def _begin(self, exploration: float) -> None:
        [self.constant] = self.record(exploration=exploration)
        items, size = len(self.catalogue), self.positions
        every, page = np.arange(items), np.arange(size)
        zero, none = np.zeros(items, np.int64), np.zeros(size, np.int64)
        self.state = self.made_of(
            *(every, page, every.copy(), page.copy(), zero, zero.copy(), none, none.copy()),
            *(every.copy(), none.copy(), np.array([items, size, 0, 0, -1, 0, 0])),
        )
        self.state.counts[MISSING] = self.asked(0) * (items + size)

    def asked(self, stage: int) -> int:
        """n_l, how often stage l and those before it ask for every row and column."""
        if stage < 0:
            return 0
        return max(1, math.ceil(min(self.constant * 4.0**stage * math.log(max(self.rounds, 2)), 1e15)))

    def interval(self, clicks: Ints, seen: Ints) -> tuple[Floats, Floats]:
        """L and U: the mean -+ sqrt(log n / n_l)."""
        radius = np.sqrt(math.log(max(self.rounds, 2)) / np.maximum(seen, 1))
        return clicks / np.maximum(seen, 1) - radius, clicks / np.maximum(seen, 1) + radius

    def plan(self) -> None:
        """End a stage: eliminate rows and columns, and ask for three times as many answers again."""
        state, counts = self.state, self.state.counts
        for active, stands, clicks, seen, many in (
            (state.rows, state.row_of, state.row_clicks, state.row_seen, ROWS),
            (state.columns, state.column_of, state.column_clicks, state.column_seen, COLUMNS),
        ):
            low, high = self.interval(clicks, seen)
            remaining = active[: counts[many]]
            best = remaining[np.argmax(low[remaining])]
            stands[high[stands] <= low[best]] = best
            left = np.unique(stands)
            counts[many] = len(left)
            active[: len(left)] = left
        mean = state.row_clicks / np.maximum(state.row_seen, 1)
        state.order[:] = np.argsort(-mean, kind="stable")
        stage = int(counts[STAGE]) + 1
        counts[CURSOR], counts[SIDE], counts[FIXED], counts[STAGE] = 0, 0, -1, stage
        counts[MISSING] = max(1, (self.asked(stage) - self.asked(stage - 1)) * int(counts[ROWS] + counts[COLUMNS]))

    def knowledge(self) -> Knowledge:
        """The best-known items."""
        return Knowledge(leaders=self.state.order[: self.positions].tolist())


class Rank1ElimKL(Rank1Elim):
    """Rank1ElimKL (Katariya et al. 2017): Rank1Elim with the confidence intervals of KL-UCB, for rare clicks."""

    name = "rank1-elim-kl"
    made_of = KlState

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        exploration: Annotated[float, Option("the 16 in n_l = 16 * 4^l log n", above=0)] = 16.0,
    ) -> None:
        Ranker.__init__(self, features, positions, rounds, seed)
        self._begin(exploration)

    def interval(self, clicks: Ints, seen: Ints) -> tuple[Floats, Floats]:
        """L and U: n_l kl(mean, q) <= log n + 3 log log n."""
        log = math.log(max(self.rounds, 3))
        level = log + 3 * math.log(max(log, 1.0))
        pairs = list(zip(clicks / np.maximum(seen, 1), level / np.maximum(seen, 1), strict=True))
        low = np.array([1 - kl_upper(1 - mean, each) for mean, each in pairs])
        return low, np.array([kl_upper(mean, each) for mean, each in pairs])


register(State, Rank1Elim)
register(KlState, Rank1ElimKL)
