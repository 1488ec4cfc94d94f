"""CascadeDUCB and CascadeSWUCB: Li, de Rijke, *Cascading Non-stationary Bandits* (IJCAI 2019): tastes that change.

| paper                                   | code                                                                  |
|-----------------------------------------|-----------------------------------------------------------------------|
| gamma; tau                              | ``discount``; ``window``                                              |
| N_t(gamma, a) = sum_s gamma^(t-s) 1{a observed} | ``DiscountState.weight`` / unit                               |
| X_t(gamma, a)                           | ``gain / weight``                                                     |
| N_t(gamma) = (1 - gamma^t) / (1 - gamma) | ``DiscountState.numbers[ROUNDS]``                                    |
| c_t(gamma, a) = 2 sqrt(eps ln N_t(gamma) / N_t(gamma, a)) | ``discount_index``                                  |
| N_t(tau, a), X_t(tau, a)                | ``Beliefs``, of the last tau - 1 rounds                               |
| c_t(tau, a) = sqrt(eps ln min(t, tau) / N_t(tau, a)) | ``window_index``                                         |
| eps                                     | ``exploration``                                                       |
| A_t                                     | the K items of largest X + c, in order                                |

Items down to the first click are observed. CascadeDUCB lets every observation count less with each later round; CascadeSWUCB
forgets all but the last tau - 1 rounds. Only answered rounds count. Guarantee: regret O(L sqrt(T U) log T) for U
changes of attraction under the cascade model. They believe the cascade model and use no features.

Discounted statistics are kept in units of the present: with u = gamma^-s, an observation of round s adds u to the weight, and
N_t = weight / gamma^-t. So an index is a line in f = 2 sqrt(eps ln N_t(gamma) gamma^-t), which only grows, and items that were
not observed are not touched. When u gets large, everything is divided by a power of four, which changes no digit.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner, rare
from recurrank.rankers.cascade_ucb import show
from recurrank.rankers.engines.optimism import (
    LOOKED,
    STEEP,
    UNTIL,
    Beliefs,
    crowded,
    no_beliefs,
    observe,
    same_counts,
    selector,
)
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

UNIT, ROUNDS, DISCOUNT, EXPLORATION = 0, 1, 2, 3
LARGE = 2.0**400
"""When the unit exceeds this, everything is divided by it."""
LONGEST = 10**6
"""The longest default window, in rounds."""

Exploration = Annotated[float, Option("epsilon, the width of the confidence", least=0)]
Discount = Annotated[
    float | None,
    Option(
        "gamma, what an observation's weight is multiplied by with every later round, by default 1 - 1/(4 sqrt(rounds))",
        least=0.9,
        most=1,
        usually=lambda ranker: max(0.9, 1 - 1 / (4 * math.sqrt(ranker.rounds))),
    ),
]
Window = Annotated[
    int | None,
    Option(
        "tau, how many rounds count, by default 2 sqrt(rounds log(rounds)), at most a million",
        least=2,
        most=10**8,
        usually=lambda ranker: min(LONGEST, max(2, math.ceil(2 * math.sqrt(ranker.rounds * math.log(ranker.rounds))))),
    ),
]


class DiscountState(NamedTuple):
    beliefs: Beliefs
    weight: Floats  # (L,) discounted observations, in units of gamma^-s
    gain: Floats  # (L,) discounted clicks
    numbers: Floats  # (4,) gamma^-t, N_t(gamma), gamma, epsilon


class WindowState(NamedTuple):
    beliefs: Beliefs
    shown: NDArray[np.int32]  # (tau - 1, K) the observed items of the last rounds, a ring
    ends: Ints  # (tau - 1,) how many were observed; negative if there was no click
    answers: Ints  # (1,) t - 1
    exploration: Floats  # (1,)


@inner
def discount_index(state: DiscountState, item: int, f: float) -> tuple[float, float]:
    weight = state.weight[item]
    if weight == 0.0:
        return np.inf, 0.0
    # X + 2 sqrt(eps ln N_t(gamma) / N_t(gamma, a)) = gain / weight + f / sqrt(weight)
    slope = 1 / math.sqrt(weight)
    return state.gain[item] / weight + f * slope, slope


@inner
def same_weights(state: DiscountState, a: int, b: int) -> bool:
    return bool(state.weight[a] == state.weight[b] and state.gain[a] == state.gain[b])


@inner
def window_index(state: WindowState, item: int, f: float) -> tuple[float, float]:
    seen = state.beliefs.seen[item]
    if seen == 0:
        return np.inf, 0.0
    # X + sqrt(f / N),  f = eps ln min(t, tau)
    radius = math.sqrt(f / seen)
    return state.beliefs.clicks[item] / seen + radius, radius / (2 * f) if f > 0 else STEEP


choose_discounted = selector(discount_index, same_weights)
choose_recent = selector(window_index, same_counts)


@inner
def _growth(state: DiscountState) -> float:
    return 2 * math.sqrt(state.numbers[EXPLORATION] * math.log(state.numbers[ROUNDS]) * state.numbers[UNIT])


@hot
def discount_rank(state: DiscountState, rng: np.random.Generator, slate: Buffer) -> None:
    choose_discounted(state, state.beliefs, _growth(state))
    show(state.beliefs, slate)


@hot
def discount_served(state: DiscountState, slate: Buffer) -> None:
    if crowded(state.beliefs):
        choose_discounted(state, state.beliefs, _growth(state))


@hot
def discount_learn(state: DiscountState, slate: Buffer, clicks: Bools) -> bool:
    numbers = state.numbers
    for k in range(len(clicks)):
        item = slate.items[k]
        observe(state.beliefs, item, clicks[k])
        state.weight[item] += numbers[UNIT]
        state.gain[item] += numbers[UNIT] * clicks[k]
        if clicks[k]:
            break
    numbers[UNIT] /= numbers[DISCOUNT]
    numbers[ROUNDS] = 1 + numbers[DISCOUNT] * numbers[ROUNDS]
    if numbers[UNIT] > LARGE:
        _shrink(state)
    return False


@rare
def _shrink(state: DiscountState) -> None:
    """Divide the unit by a power of four, and f and all that is measured in it by its root: no digit changes."""
    beliefs, root = state.beliefs, math.sqrt(LARGE)
    state.numbers[UNIT] /= LARGE
    for item in range(len(state.weight)):
        state.weight[item] /= LARGE
        state.gain[item] /= LARGE
        beliefs.slope[item] *= root
        if beliefs.when[item] > 0:
            beliefs.when[item] /= root
    beliefs.reach[UNTIL] /= root
    beliefs.reach[LOOKED] /= root


@inner
def _level(state: WindowState) -> float:
    return float(state.exploration[0]) * math.log(min(state.answers[0] + 1, len(state.ends) + 1))


@hot
def window_rank(state: WindowState, rng: np.random.Generator, slate: Buffer) -> None:
    choose_recent(state, state.beliefs, _level(state))
    show(state.beliefs, slate)


@hot
def window_served(state: WindowState, slate: Buffer) -> None:
    if crowded(state.beliefs):
        choose_recent(state, state.beliefs, _level(state))


@hot
def window_learn(state: WindowState, slate: Buffer, clicks: Bools) -> bool:
    at = state.answers[0] % len(state.ends)
    shown, before = state.shown[at], abs(state.ends[at])
    for k in range(before):  # forget the round that is now tau - 1 rounds old
        observe(state.beliefs, shown[k], False)
        state.beliefs.seen[shown[k]] -= 2
        state.beliefs.clicks[shown[k]] -= k == before - 1 and state.ends[at] > 0
    seen, clicked = 0, False
    while seen < len(clicks) and not clicked:
        clicked = clicks[seen]
        shown[seen] = slate.items[seen]
        observe(state.beliefs, slate.items[seen], clicked)
        seen += 1
    state.ends[at] = seen if clicked else -seen
    state.answers[0] += 1
    return False


class CascadeDUCB(Ranker):
    """CascadeDUCB (Li, de Rijke 2019): old observations count less and less."""

    name = "cascade-ducb"
    reference = "Li, de Rijke 2019"
    believes = "cascade, tastes that change"
    uses_features = False
    regret_bound = "O(L sqrt(T U) log T) for U changes"
    compiled_rank = discount_rank
    compiled_learn = discount_learn
    compiled_served = discount_served
    compiled_propensity = certain

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        discount: Discount = None,
        exploration: Exploration = 0.5,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        gamma, epsilon = self.record(discount=discount, exploration=exploration)
        items = len(self.catalogue)
        numbers = np.array([1.0, 1.0, gamma, epsilon])
        self.state = DiscountState(no_beliefs(items, self.positions), np.zeros(items), np.zeros(items), numbers)


class CascadeSWUCB(Ranker):
    """CascadeSWUCB (Li, de Rijke 2019): only a window of the last rounds counts."""

    name = "cascade-swucb"
    reference = "Li, de Rijke 2019"
    believes = "cascade, tastes that change"
    uses_features = False
    regret_bound = "O(L sqrt(T U log T)) for U changes"
    compiled_rank = window_rank
    compiled_learn = window_learn
    compiled_served = window_served
    compiled_propensity = certain

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        window: Window = None,
        exploration: Exploration = 0.5,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        tau, epsilon = self.record(window=window, exploration=exploration)
        self.state = WindowState(
            no_beliefs(len(self.catalogue), self.positions),
            np.zeros((tau - 1, self.positions), np.int32),
            np.zeros(tau - 1, np.int64),
            np.zeros(1, np.int64),
            np.array([epsilon]),
        )


register(DiscountState, CascadeDUCB)
register(WindowState, CascadeSWUCB)
