"""PIE: Combes, Magureanu, Proutiere, Laroche,
*Learning to Rank: Regret Lower Bounds and Efficient Algorithms* (SIGMETRICS 2015).

| paper                                       | code                                                           |
|---------------------------------------------|----------------------------------------------------------------|
| theta_hat_i(n), t_i(n)                      | ``clicks / seen``, ``seen``                                    |
| L(n) = (j_1, ..., j_L), the leaders         | the K items of largest theta_hat, in order                     |
| b_i(n) = max { q : t_i kl(theta_hat_i, q) <= log n + 4 log log n } | ``kl_index``                            |
| B(n)                                        | items that do not lead, with b_i(n) >= theta_hat of the last leader |
| PIE(l)                                      | with probability 1/2, a random item of B(n) at position l       |

Users read from the top and stop at the first click; items down to it are observed. Parsimonious: apart from one position,
leaders are shown. The exploring position l is the last one by default, which costs least when clicks at all positions count
the same. Guarantee: regret O(L log(T)) under the cascade model, asymptotically optimal constants. No features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_count
from recurrank._compiled import hot
from recurrank.catalogue import Catalogue
from recurrank.rankers.cascade_ucb import kl_index, kl_level
from recurrank.rankers.linear_scores import best_of
from recurrank.rankers.optimism import BELOW, STEEP, Beliefs, insert, no_beliefs
from recurrank.rankers.ranker import Buffer, Ranker, Seed, positive, register

AT = 0


class State(NamedTuple):
    beliefs: Beliefs
    mean: Floats  # (L,) theta_hat; 0 for items never seen
    member: Ints  # (L,) B(n)
    constants: Floats  # the 4 of log n + 4 log log n
    settings: Ints  # (1,) l - 1


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    beliefs = state.beliefs
    beliefs.clock[0] += 1
    lead(state.mean, beliefs)
    for k in range(len(slate.items)):
        slate.items[k] = beliefs.best[k]
    if rng.random() < 0.5:
        return
    count = explorable(state, kl_level(beliefs.clock[0], state.constants[0]), beliefs.score[len(beliefs.score) - 1])
    if count > 0:
        place_at(slate, state.settings[AT], state.member[int(rng.random() * count)])


@hot
def lead(mean: Floats, beliefs: Beliefs) -> None:
    """The leaders in order: the old ones sorted anew, unless one of the others may have come up to the last of them."""
    size = len(beliefs.best)
    for k in range(size):
        beliefs.near[k] = beliefs.best[k]
    count = 0
    for k in range(size):
        count = insert(beliefs.best, beliefs.score, count, beliefs.near[k], mean[beliefs.near[k]])
    if beliefs.score[size - 1] > beliefs.reach[BELOW]:
        return
    best_of(mean, beliefs.best, beliefs.score)
    mark_leaders(beliefs, 1)
    beliefs.reach[BELOW] = -1.0
    for item in range(len(mean)):
        if not beliefs.inside[item]:
            beliefs.reach[BELOW] = max(beliefs.reach[BELOW], mean[item])
    mark_leaders(beliefs, 0)


@hot
def changed(mean: Floats, beliefs: Beliefs, item: int) -> None:
    """An item's mean has changed: it may have come up to the leaders, and its index is unknown until computed again."""
    leading = False
    for k in range(len(beliefs.best)):
        leading |= beliefs.best[k] == item
    if not leading:
        beliefs.reach[BELOW] = max(beliefs.reach[BELOW], mean[item])
    beliefs.value[item], beliefs.slope[item], beliefs.when[item] = -1.0, STEEP, -1.0


def explorer(index: Callable[..., tuple[float, float]]) -> Callable[..., int]:
    """A compiled ``explorable(state, f, bar)`` for an index ``index(state, item, f) -> (value, slope)``.

    It leaves B(n), in the order of item numbers, in ``state.member`` and returns how many there are. Indices are computed
    only where their bounds (``optimism.py``) do not decide.
    """

    @hot
    def explorable(state: Any, f: float, bar: float) -> int:
        beliefs, count = state.beliefs, 0
        mark_leaders(beliefs, 1)
        for item in range(len(state.mean)):
            inside = beliefs.value[item] >= bar
            undecided = not inside and beliefs.value[item] + (f - beliefs.when[item]) * beliefs.slope[item] >= bar
            if undecided and not beliefs.inside[item]:
                value, slope = index(state, item, f)
                beliefs.value[item], beliefs.slope[item], beliefs.when[item] = value, slope, f
                inside = value >= bar
            if inside and not beliefs.inside[item]:
                state.member[count] = item
                count += 1
        mark_leaders(beliefs, 0)
        return count

    return explorable


@hot
def mark_leaders(beliefs: Beliefs, mark: int) -> None:
    """In ``beliefs.inside``, which PIE has no other use for."""
    for k in range(len(beliefs.best)):
        beliefs.inside[beliefs.best[k]] = mark


explorable = explorer(kl_index)


@hot
def place_at(slate: Buffer, position: int, item: int) -> None:
    """Put an item at a position; what stood from there on moves down, and the last one out."""
    for k in range(len(slate.items) - 1, position, -1):
        slate.items[k] = slate.items[k - 1]
    slate.items[position] = item


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    beliefs = state.beliefs
    for k in range(len(clicks)):
        item = slate.items[k]
        beliefs.seen[item] += 1
        beliefs.clicks[item] += clicks[k]
        state.mean[item] = beliefs.clicks[item] / beliefs.seen[item]
        changed(state.mean, beliefs, item)
        if clicks[k]:
            break
    return False


class PIE(Ranker):
    """PIE (Combes et al. 2015), for cascade clicks.

    Args:
        features: only how many rows there are matters.
        positions: K.
        rounds: T; the algorithm does not use it.
        seed: of its coins.
        explore_at: l, the position (from 1) that explores; by default the last.
        exploration: the 4 in log n + 4 log log n.

    """

    name = "pie"
    reference = "Combes, Magureanu, Proutiere, Laroche 2015"
    believes = "cascade"
    uses_features = False
    regret_bound = "O(L log(T))"
    compiled_rank = rank
    compiled_learn = learn

    def __init__(
        self,
        features: ArrayLike | Catalogue,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        explore_at: int | None = None,
        exploration: float = 4.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        at = self.positions if explore_at is None else as_count("explore_at", explore_at)
        if at > self.positions:
            raise ValueError(f"explore_at: {at} is below the last position; give 1 to {self.positions}")
        self.record(explore_at=at, exploration=positive("exploration", exploration, zero=True))
        items = len(self.catalogue)
        beliefs = no_beliefs(items, self.positions)
        self.state = State(
            beliefs, np.zeros(items), np.zeros(items, np.int64), np.array([float(exploration)]), np.array([at - 1])
        )


register(State, PIE)
