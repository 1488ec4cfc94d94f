"""Ranked Bandits: Radlinski, Kleinberg, Joachims, *Learning Diverse Rankings with Multi-Armed Bandits* (ICML 2008).

| paper                         | code                                                                      |
|-------------------------------|---------------------------------------------------------------------------|
| MAB_i, one a rank             | row i of every array of ``State``                                         |
| b_hat_i, what MAB_i selects   | ``slate.marks[i, 0]``                                                     |
| b_i, what is shown            | b_hat_i, or a random other item if that is shown above already            |
| f_it                          | 1 if b_i was clicked and is b_hat_i, else 0: the reward of MAB_i for b_hat_i |

Inside stands UCB1 (Auer et al. 2002: mean + sqrt(2 log t / n)), KL-UCB (log t + 3 log log t) or Exp3 (Auer et al. 2002).
Every position has a bandit of its own, so it believes nothing about the items above. Its guarantee, for Exp3, is against the
best (1 - 1/e) share of what any ranking gets, also when users are not stochastic. No features.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.catalogue import Catalogue
from recurrank.rankers.cascade_ucb import KlState, Ucb1State, choose_kl, choose_ucb1, kl_level
from recurrank.rankers.optimism import Beliefs, no_beliefs, observe
from recurrank.rankers.ranker import Buffer, Ranker, Seed, positive, register

UCB1, KLUCB, EXP3 = 0, 1, 2
KINDS = {"ucb1": UCB1, "klucb": KLUCB, "exp3": EXP3}
HUGE = 1e100


class State(NamedTuple):
    beliefs: Beliefs  # every array with a first axis more: one row a position
    weights: Floats  # (K, L) of Exp3
    constants: Floats  # (1,) of the index: 2 for UCB1, 3 for KL-UCB; gamma for Exp3
    kind: Ints  # (1,)


@hot
def _row(beliefs: Beliefs, k: int) -> Beliefs:
    """The bandit of position k."""
    return Beliefs(
        beliefs.seen[k],
        beliefs.clicks[k],
        beliefs.value[k],
        beliefs.slope[k],
        beliefs.when[k],
        beliefs.near[k],
        beliefs.inside[k],
        beliefs.reach[k],
        beliefs.counts[k],
        beliefs.best[k],
        beliefs.score[k],
        beliefs.clock[k],
    )


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    for k in range(len(slate.items)):
        item = _select(state, rng, k)
        slate.marks[k, 0] = item
        while _shown(slate, k, item):  # a random item that is not shown above
            item = int(rng.random() * state.weights.shape[1])
        slate.items[k] = item


@hot
def _shown(slate: Buffer, k: int, item: int) -> bool:
    shown = False
    for above in range(k):
        shown |= slate.items[above] == item
    return shown


@hot
def _select(state: State, rng: np.random.Generator, k: int) -> int:
    bandit = _row(state.beliefs, k)
    bandit.clock[0] += 1
    if state.kind[0] == EXP3:
        return _draw(state, rng, k)
    if state.kind[0] == UCB1:
        choose_ucb1(Ucb1State(bandit, state.constants), bandit, math.log(bandit.clock[0]))
    else:
        choose_kl(KlState(bandit, state.constants), bandit, kl_level(bandit.clock[0], state.constants[0]))
    return int(bandit.best[0])


@hot
def _draw(state: State, rng: np.random.Generator, k: int) -> int:
    """Exp3: p_i = (1 - gamma) w_i / W + gamma / L."""
    weights, items = state.weights[k], state.weights.shape[1]
    if rng.random() < state.constants[0]:
        return int(rng.random() * items)
    total = 0.0
    for i in range(items):
        total += weights[i]
    at = rng.random() * total
    for i in range(items - 1):
        at -= weights[i]
        if at < 0.0:
            return i
    return int(items - 1)


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        chosen = slate.marks[k, 0]
        rewarded = bool(clicks[k] and slate.items[k] == chosen)
        if state.kind[0] == EXP3:
            if rewarded:
                _reinforce(state, k, chosen)
        else:
            observe(_row(state.beliefs, k), chosen, rewarded)
    return False


@hot
def _reinforce(state: State, k: int, chosen: int) -> None:
    """w_i <- w_i exp(gamma / (p_i L)) after a reward of 1."""
    weights, items, gamma = state.weights[k], state.weights.shape[1], state.constants[0]
    total = 0.0
    for i in range(items):
        total += weights[i]
    p = (1 - gamma) * weights[chosen] / total + gamma / items
    weights[chosen] *= math.exp(gamma / (p * items))
    if weights[chosen] > HUGE:  # only ratios matter
        for i in range(items):
            weights[i] /= HUGE


class RankedBandits(Ranker):
    """Ranked Bandits (Radlinski, Kleinberg, Joachims 2008): a bandit a position.

    Args:
        features: only how many rows there are matters.
        positions: K.
        rounds: T, which sets Exp3's default rate.
        seed: of its draws.
        inside: ``"ucb1"``, ``"klucb"`` or ``"exp3"``.
        exploration: the 2 of UCB1, the 3 of KL-UCB, or Exp3's gamma, by default sqrt(L log L / ((e - 1) T)), at most 1.

    """

    name = "ranked-bandits"
    reference = "Radlinski, Kleinberg, Joachims 2008"
    believes = "document-based, a bandit a position"
    uses_features = False
    regret_bound = "O(K sqrt(L T log(L))) against (1 - 1/e) of the best, with Exp3"
    compiled_rank = rank
    compiled_learn = learn

    def __init__(
        self,
        features: ArrayLike | Catalogue,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        inside: Literal["ucb1", "klucb", "exp3"] = "ucb1",
        exploration: float | None = None,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        if inside not in KINDS:
            raise ValueError(f"inside: {inside!r} is unknown; choose from {', '.join(KINDS)}")
        items, size = len(self.catalogue), self.positions
        rate = min(1.0, math.sqrt(items * math.log(max(items, 2)) / ((math.e - 1) * self.rounds)))
        default = {"ucb1": 2.0, "klucb": 3.0, "exp3": rate}[inside]
        constant = default if exploration is None else positive("exploration", exploration, zero=inside != "exp3")
        if inside == "exp3" and constant > 1:
            raise ValueError(f"exploration: {constant} is no probability; Exp3's gamma is at most 1")
        self.record(inside=inside, exploration=constant)
        one = no_beliefs(items, 1)
        parts: list[Any] = [np.repeat(part[None], size, axis=0) for part in one]
        rows = Beliefs(*parts)
        weights = np.ones((size, items)) if inside == "exp3" else np.ones((1, items))
        self.state = State(rows, weights, np.array([constant]), np.array([KINDS[inside]]))


register(State, RankedBandits)
