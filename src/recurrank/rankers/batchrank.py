"""BatchRank: Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvari, Wen,
*Online Learning to Rank in Stochastic Click Models* (ICML 2017).

| paper                                  | code                                                           |
|----------------------------------------|----------------------------------------------------------------|
| batch b, I_b, len(b)                   | a row of ``State.batch``                                       |
| B_{b,l}, stage l_b                     | its segment of ``State.items``; STAGE                          |
| n_{b,l}(d), least: n_min               | SHOWN, plus one for items behind the first PENDING             |
| c_{b,l}(d)                             | ``State.clicks``                                               |
| n_l = ceil(16 Delta_l^-2 log T), Delta_l = 2^-l | ``BatchRank.visits``                                  |
| U(d), L(d): n_l kl(c/n, q) <= log T + 3 log log T | ``kl_bounds``                                       |
| UpdateBatch                            | ``plan``: split after the last k with L(d_k) > max U below, else eliminate |

Each round every batch shows its least shown items, ties at random, in random positions; clicks count for items shown the
least so far. Guarantee: regret O(K^3 L log(T) / Delta) under factored click models. No features.

A batch with as many items as positions goes on to the next stage too when it does not split (docs/deviations.md).
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.engines.optimism import kl_upper
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register

ID, FIRST, WIDTH, START, STOP, PENDING, SHOWN, STAGE, WANTED = 0, 1, 2, 3, 4, 5, 6, 7, 8


class State(NamedTuple):
    batch: Ints  # (B, 9) in the order of positions
    items: Ints  # (M,) the batches' items, those shown least first
    place: Ints  # (L,) where an item is in items
    clicks: Ints  # (L,) in the present stage
    chosen: Ints  # (K,) scratch


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    """DisplayBatch."""
    for b in range(len(state.batch)):
        first, width = state.batch[b, FIRST], state.batch[b, WIDTH]
        start, stop = state.batch[b, START], state.batch[b, STOP]
        fresh = start + state.batch[b, PENDING]
        for k in range(width):  # a random permutation, those shown least first
            at = start + k
            end = fresh if at < fresh else stop
            _swap(state, at, at + int(rng.random() * (end - at)))
            state.chosen[k] = state.items[at]
        for k in range(width):  # random positions
            j = k + int(rng.random() * (width - k))
            state.chosen[k], state.chosen[j] = state.chosen[j], state.chosen[k]
            slate.items[first + k] = state.chosen[k]
            slate.marks[first + k, 0] = state.batch[b, ID]


@hot
def propensity(state: State, before: Floats, slate: Buffer, marginal: Floats) -> float:
    """A batch of n items shows the p shown least, then random others up to its width m, all at random positions."""
    joint = 1.0
    for b in range(len(state.batch)):
        first, width, start = state.batch[b, FIRST], state.batch[b, WIDTH], state.batch[b, START]
        pending, others = state.batch[b, PENDING], state.batch[b, STOP] - start - state.batch[b, PENDING]
        least, rest = min(pending, width), max(width - pending, 0)  # how many of either group are shown
        for k in range(width):
            at = state.place[slate.items[first + k]] - start
            if not 0 <= at < pending + others:
                marginal[first + k] = 0.0
            elif at < pending:
                marginal[first + k] = least / (pending * width)
            else:
                marginal[first + k] = rest / (others * width)
            joint *= (marginal[first + k] > 0) / (width - k)  # their order
        for k in range(least):  # 1 / (n over m) of either group
            joint *= (least - k) / (pending - k)
        for k in range(rest):
            joint *= (rest - k) / (others - k)
    return joint


@inner
def _swap(state: State, a: int, b: int) -> None:
    one, other = state.items[a], state.items[b]
    state.items[a], state.items[b] = other, one
    state.place[one], state.place[other] = b, a


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    """CollectClicks; True when a batch has shown all its items often enough."""
    due = False
    for b in range(len(state.batch)):
        first, start = state.batch[b, FIRST], state.batch[b, START]
        level = state.batch[b, SHOWN]
        for k in range(first, min(first + state.batch[b, WIDTH], len(clicks))):
            item = slate.items[k]
            at, pending = state.place[item], state.batch[b, PENDING]
            if slate.marks[k, 0] != state.batch[b, ID] or not start <= at < start + pending or state.batch[b, SHOWN] > level:
                continue  # of an earlier stage, or shown more often than the least
            state.clicks[item] += clicks[k]
            _swap(state, at, start + pending - 1)
            state.batch[b, PENDING] -= 1
            if state.batch[b, PENDING] == 0:
                state.batch[b, SHOWN] += 1
                state.batch[b, PENDING] = state.batch[b, STOP] - start
        due |= state.batch[b, SHOWN] >= state.batch[b, WANTED]
    return due


def kl_bounds(share: float, level: float) -> tuple[float, float]:
    """The least and the largest q with kl(share, q) <= level."""
    return 1 - kl_upper(1 - share, level), kl_upper(share, level)


class BatchRank(Ranker):
    """BatchRank (Zoghi et al. 2017): batches of items that explore, eliminate and split."""

    name = "batchrank"
    reference = "Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvari, Wen 2017"
    believes = "general click model (factored)"
    uses_features = False
    regret_bound = "O(K^3 L log(T) / Delta)"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = nothing_served
    not_served = (
        "needs the answer to each slate before the next one is shown; here slates are shown meanwhile, "
        "most of their answers are of no use to it, and its regret doubles"
    )
    compiled_propensity = propensity

    state: State

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        exploration: Annotated[float, Option("the 16 in n_l = 16 * 4^l * log T", above=0)] = 16.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        [self.exploration] = self.record(exploration=exploration)
        items = len(self.catalogue)
        self._next_id = 0
        self.state = State(
            batch=np.array([self._row(0, self.positions, 0, items, 0)]),
            items=np.arange(items),
            place=np.arange(items),
            clicks=np.zeros(items, np.int64),
            chosen=np.zeros(self.positions, np.int64),
        )

    def visits(self, stage: int) -> int:
        """n_l = ceil(16 Delta_l^-2 log T)."""
        wanted: float = self.exploration * 4.0 ** min(stage, 50) * math.log(max(self.rounds, 2))
        return max(1, math.ceil(min(wanted, 2.0**52)))

    def _row(self, first: int, width: int, start: int, stop: int, stage: int) -> list[int]:
        self._next_id += 1
        return [self._next_id, first, width, start, stop, stop - start, 0, stage, self.visits(stage)]

    def plan(self) -> None:
        """UpdateBatch, for every batch that is due."""
        log = math.log(max(self.rounds, 3))
        confidence = log + 3 * math.log(log) if log > 1 else log
        rows, items = [], []
        used = 0
        for row in self.state.batch:
            mine = np.sort(self.state.items[row[START] : row[STOP]])
            if row[SHOWN] < row[WANTED]:
                mine = self.state.items[row[START] : row[STOP]]  # as it is, those shown least first
                parts: list[tuple[int, int, Ints, int | None]] = [(int(row[FIRST]), int(row[WIDTH]), mine, None)]
            else:
                parts = self._update(row, mine, confidence)
            for first, width, members, stage in parts:
                end = used + len(members)
                if stage is None:
                    rows.append([*row[:START], used, end, *row[PENDING:]])
                else:
                    rows.append(self._row(first, width, used, end, stage))
                    self.state.clicks[members] = 0
                items.append(members)
                used = end
        flat = np.concatenate(items).astype(np.int64)
        self.state.place[flat] = np.arange(len(flat))
        self.state = self.state._replace(batch=np.array(rows, np.int64), items=flat)
        self.due = False

    def prepare(self) -> None:
        kl_bounds(0.5, 1.0)

    def _update(self, row: Ints, items: Ints, confidence: float) -> list[tuple[int, int, Ints, int | None]]:
        first, width, stage, shown = (int(row[i]) for i in (FIRST, WIDTH, STAGE, SHOWN))
        bounds = np.array([kl_bounds(self.state.clicks[d] / shown, confidence / shown) for d in items])
        order = np.argsort(-bounds[:, 0], kind="stable")
        lower, upper = bounds[order, 0], bounds[order, 1]
        split = 0
        for k in range(1, width):
            if lower[k - 1] > upper[k:].max():
                split = k
        if split:
            return [
                (first, split, np.sort(items[order[:split]]), 0),
                (first + split, width - split, np.sort(items[order[split:]]), 0),
            ]
        kept: Floats = bounds[:, 1] >= lower[width - 1]
        return [(first, width, items[np.flatnonzero(kept)], stage + 1)]

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        values, arrays = super().pack()
        return {**values, "next": self._next_id}, arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        super().unpack(values, arrays)
        self._next_id = values["next"]
        self.due = bool((self.state.batch[:, SHOWN] >= self.state.batch[:, WANTED]).any())


register(State, BatchRank)
