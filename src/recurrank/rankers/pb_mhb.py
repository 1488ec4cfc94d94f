"""PB-MHB: Gauthier, Gaudel, Fromont, *Bandit Algorithm for Both Unknown Best Position and Best Item Display on Web Pages*
(IDA 2021).

Thompson sampling in the position-based model with unknown examination: a draw from the posterior of all parameters, by
Metropolis and Hastings' method, started where the last round's ended.

| paper                                  | code                                                                |
|----------------------------------------|---------------------------------------------------------------------|
| theta_i, kappa_k (kappa_1 = 1)         | ``State.theta``, ``State.kappa``                                    |
| S_{i,k}, F_{i,k}                       | ``State.clicks``, ``State.misses``: both start at 1/2               |
| posterior                              | prod (theta kappa)^S (1 - theta kappa)^F                            |
| m, sweeps over all parameters a round  | ``sweeps``                                                          |
| sigma = c / sqrt(t)                    | ``scale``: of the Gaussian, truncated to [0, 1], that proposes a value |

The K items of largest theta are shown, the best where kappa is largest; no position is examined more than the first. Nothing
is proved about it. It uses no features.

A round moves every parameter: L + K - 1 proposals per sweep, with three random numbers each or more. This is the one ranker
here that is not fast. Proposals are made cheap, and decided as the formulas above decide:

- S and F begin at 1/2, so a ratio of posteriors is the root of a product, in which few clicks and misses are powers. Its
  square is compared with that of the random number. Only parameters with many clicks or misses need logs of their own.
- Where sigma >= 1, a proposal is a uniform number accepted with the Gaussian's density, and the mass within [0, 1] is between
  two polynomials (``_mass``). They decide all but few cases, which are computed exactly.
- Where sigma < 1, proposals are Gaussian ones until one is within [0, 1].
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner, rare
from recurrank.rankers.engines.scores import best_of
from recurrank.rankers.engines.tracking import Changes, no_changes, touch
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

PRIOR = 0.5
SWEEPS, TURN = 0, 1
LEAST, SMALL = 1e-300, 1e-60
"""LEAST stands for 0 in logs; products below SMALL or above 1 / SMALL are folded into a sum of logs."""
FEW = 15
"""Up to so many clicks or misses are factors of a product rather than a log of their own."""
ROUNDING = 1e-12
"""Rounding of the logs of products, at most."""


class State(NamedTuple):
    theta: Floats  # (L,)
    kappa: Floats  # (K,)
    clicks: Ints  # (K, L) S without it
    misses: Ints  # (K, L) F without the prior's half
    changes: Changes  # of these two
    clicked: Ints  # (L,) clicks on each item
    most: Ints  # (L,) the most misses of each item at one position
    examined: Ints  # (K,) clicks at each position
    drawn: Floats  # (4, L) scratch: proposals, the numbers that decide on them, and products
    best: Ints  # (K,) items by falling theta
    top: Floats  # (K,)
    order: Ints  # (K,) positions by falling kappa
    high: Floats  # (K,)
    counts: Ints  # (2,) m, and t
    scale: Floats  # (1,) c


@inner
def propose(rng: np.random.Generator, x: float, sigma: float) -> float:
    """A draw from the Gaussian around x, truncated to [0, 1]."""
    while True:
        if sigma >= 1:
            y, u = rng.random(), rng.random()
            z = (y - x) * (y - x) / (2 * sigma * sigma)
            if u < 1 - z or (u < 1 - z + z * z / 2 and u < math.exp(-z)):  # 1 - z <= exp(-z) <= 1 - z + z^2 / 2
                return y
        else:
            y = x + sigma * rng.standard_normal()
            if 0 <= y <= 1:
                return y


@inner
def log_mass(x: float, sigma: float) -> float:
    """Log of the mass that the Gaussian around x has within [0, 1]."""
    scale = sigma * math.sqrt(2)
    return math.log(0.5 * (math.erf((1 - x) / scale) + math.erf(x / scale)))


@inner
def _mass(x: float, sigma: float) -> float:
    """At most 1 / (40 sigma^4) less than the integral of exp(-(v - x)^2 / 2 sigma^2) over [0, 1], the mass but for a constant.

    exp(-z) is between 1 - z and 1 - z + z^2 / 2; (v - x)^2 has the integral (1 - 3 x + 3 x^2) / 3, (v - x)^4 at most 1/5.
    """
    return 1 - (1 - 3 * x + 3 * x * x) / (6 * sigma * sigma)


@inner
def accepted(chance: float, x: float, y: float, sigma: float, clicks: float, product: float, rest: float) -> bool:
    """Metropolis and Hastings' rule, from the posteriors' ratio (y/x)^clicks sqrt(product) e^rest."""
    u = max(chance, LEAST)
    if not (x > 0 and y > 0):
        return False
    ratio = clicks * math.log(y / x) + rest
    if sigma >= 1:
        mass = _mass(x, sigma) / _mass(y, sigma)
        apart = ratio + math.log(math.sqrt(product) * mass / u)
        if abs(apart) > 0.06 / sigma**4:  # neither mass is below 5/6: this is more than the error of both polynomials
            return apart > 0
    return math.log(u) < ratio + 0.5 * math.log(product) + log_mass(x, sigma) - log_mass(y, sigma)


@inner
def _power(base: float, exponent: int) -> float:
    """base^exponent, for exponents of at most FEW; without branches, which would be mispredicted."""
    power = base if exponent & 1 else 1.0
    base *= base
    power *= base if exponent & 2 else 1.0
    base *= base
    power *= base if exponent & 4 else 1.0
    base *= base
    return power * (base if exponent & 8 else 1.0)


@inner
def _missed(base: float, misses: int) -> float:
    """base^(2 F), for at most FEW misses besides the prior's half."""
    return base * _power(base * base, misses)


@inner
def _move_thetas(state: State, rng: np.random.Generator, sigma: float) -> None:
    """One proposal for each theta: given kappa they are independent, so that all are drawn first and computed side by side."""
    theta, y, chance, ratio, product = state.theta, state.drawn[0], state.drawn[1], state.drawn[2], state.drawn[3]
    for i in range(len(theta)):
        y[i] = propose(rng, theta[i], sigma)
        chance[i] = max(rng.random(), LEAST)
        product[i] = 1.0
    for i in range(len(theta)):
        ratio[i] = np.divide(y[i], theta[i])
    for k in range(len(state.kappa)):
        kappa, row = state.kappa[k], state.misses[k]
        for i in range(len(theta)):
            product[i] *= ratio[i] * _missed(np.divide(1 - y[i] * kappa, 1 - theta[i] * kappa), row[i])
    for i in range(len(theta)):
        plain = (max(state.most[i], state.clicked[i]) <= FEW) & (product[i] > SMALL) & (product[i] < 1 / SMALL)
        mass = np.divide(_mass(theta[i], sigma), _mass(y[i], sigma))
        product[i] = product[i] * _power(ratio[i] * ratio[i], state.clicked[i]) * mass * mass if plain else np.nan
    apart = 0.12 / sigma**4 + ROUNDING  # see accepted(): twice as much in the log of a square
    for i in range(len(theta)):
        square = chance[i] * chance[i]
        takes = product[i] > square * (1 + 2 * apart)
        if sigma < 1 or not (takes or product[i] < square * (1 - apart)):
            takes = _accepted_theta(state, i, sigma)
        if takes:
            theta[i] = y[i]


@rare
def _accepted_theta(state: State, i: int, sigma: float) -> bool:
    x, y, rest = state.theta[i], state.drawn[0, i], 0.0
    for k in range(len(state.kappa)):
        rest += (PRIOR + state.misses[k, i]) * _log_ratio(x, y, state.kappa[k])
    return accepted(state.drawn[1, i], x, y, sigma, PRIOR * len(state.kappa) + state.clicked[i], 1.0, rest)


@inner
def _log_ratio(x: float, y: float, other: float) -> float:
    return math.log(max(1 - y * other, LEAST) / max(1 - x * other, LEAST))


@inner
def _move_kappa(state: State, rng: np.random.Generator, k: int, sigma: float) -> None:
    x, theta, row, factor = state.kappa[k], state.theta, state.misses[k], state.drawn[2]
    y = propose(rng, x, sigma)
    chance, product, rest = rng.random(), 1.0, 0.0
    left = 0
    for i in range(len(theta)):
        ratio = _missed(np.divide(1 - y * theta[i], 1 - x * theta[i]), row[i])
        plain = (row[i] <= FEW) & (ratio > SMALL) & (ratio < 1 / SMALL)
        factor[i] = ratio if plain else 1.0
        left += not plain
    for i in range(len(theta) if left else 0):
        if factor[i] == 1.0:  # it was left out, or adds nothing
            rest += (PRIOR + row[i]) * _log_ratio(x, y, theta[i])
    size = len(theta)
    for _ in range(2):  # four factors at a time: each is within SMALL and 1 / SMALL
        half = (size + 1) // 2
        for i in range(size - half):
            factor[i] *= factor[half + i]
        size = half
    for i in range(size):
        product *= factor[i]
        if not SMALL < product < 1 / SMALL:
            rest += 0.5 * math.log(product)
            product = 1.0
    if accepted(chance, x, y, sigma, PRIOR * len(theta) + state.examined[k], product, rest):
        state.kappa[k] = y


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    state.counts[TURN] += 1
    sigma = state.scale[0] / math.sqrt(state.counts[TURN])
    for _ in range(state.counts[SWEEPS]):
        _move_thetas(state, rng, sigma)
        for k in range(1, len(state.kappa)):
            _move_kappa(state, rng, k, sigma)
    best_of(state.theta, state.best, state.top)
    best_of(state.kappa, state.order, state.high)
    for n in range(len(slate.items)):
        slate.items[state.order[n]] = state.best[n]


@hot
def served(state: State, slate: Buffer) -> None:
    state.counts[TURN] += 1


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        state.clicks[k, slate.items[k]] += clicks[k]
        state.misses[k, slate.items[k]] += not clicks[k]
        state.clicked[slate.items[k]] += clicks[k]
        state.most[slate.items[k]] = max(state.most[slate.items[k]], state.misses[k, slate.items[k]])
        state.examined[k] += clicks[k]
        touch(state.changes, k * len(state.theta) + slate.items[k])
    return False


class PBMHB(Ranker):
    """PB-MHB (Gauthier, Gaudel, Fromont 2021): Thompson sampling of attraction and examination."""

    name = "pb-mhb"
    reference = "Gauthier, Gaudel, Fromont 2021"
    believes = "position-based, unknown examination"
    uses_features = False
    regret_bound = "none proved"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    tracked = ("clicks", "misses")

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        scale: Annotated[float, Option("c in sigma = c / sqrt(t), how far proposals go", above=0)] = 1000.0,
        sweeps: Annotated[int, Option("m, how often a round moves every parameter", least=1, most=10**6)] = 1,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        c, m = self.record(scale=scale, sweeps=sweeps)
        items, size = len(self.catalogue), self.positions
        theta = self.rng.random(items)
        kappa = np.array([1.0, *self.rng.random(size - 1)])
        table, best, top = np.zeros((size, items), np.int64), np.zeros(size, np.int64), np.zeros(size)
        self.state = State(
            theta,
            kappa,
            clicks=table,
            misses=table.copy(),
            changes=no_changes(size * items),
            clicked=np.zeros(items, np.int64),
            most=np.zeros(items, np.int64),
            examined=np.zeros(size, np.int64),
            drawn=np.zeros((4, items)),
            best=best,
            top=top,
            order=best.copy(),
            high=top.copy(),
            counts=np.array([m, 0]),
            scale=np.array([c], np.float64),
        )


register(State, PBMHB)
