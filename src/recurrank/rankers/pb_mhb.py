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

A round costs L K logarithms per sweep, for the algorithm moves every parameter: the one ranker here that is not fast. A
proposal is drawn exactly: a uniform number accepted with the Gaussian's density where sigma >= 1, else Gaussian ones until
one is within [0, 1].
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.engines.scores import best_of
from recurrank.rankers.engines.tracking import Changes, no_changes, touch
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

PRIOR = 0.5
SWEEPS, TURN = 0, 1


class State(NamedTuple):
    theta: Floats  # (L,)
    kappa: Floats  # (K,)
    clicks: Floats  # (L, K) S
    misses: Floats  # (L, K) F
    changes: Changes  # of these two
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
            y = rng.random()
            if rng.random() < math.exp(-((y - x) ** 2) / (2 * sigma * sigma)):
                return y
        else:
            y = x + sigma * rng.standard_normal()
            if 0 <= y <= 1:
                return y


@inner
def log_mass(x: float, sigma: float) -> float:
    """Log of what the Gaussian around x has within [0, 1]."""
    scale = sigma * math.sqrt(2)
    return math.log(0.5 * (math.erf((1 - x) / scale) + math.erf(x / scale)))


@inner
def accepted(rng: np.random.Generator, x: float, y: float, sigma: float, clicks: float, misses: float) -> bool:
    """Metropolis and Hastings' rule, from the log of the posteriors' ratio: clicks log(y/x) and the rest."""
    ratio = clicks * math.log(y / x) + misses if y > 0 and x > 0 else -np.inf
    return math.log(max(rng.random(), 1e-300)) < ratio + log_mass(x, sigma) - log_mass(y, sigma)


@inner
def _move_theta(state: State, rng: np.random.Generator, i: int, sigma: float) -> None:
    x = state.theta[i]
    y = propose(rng, x, sigma)
    clicks, misses = 0.0, 0.0
    for k in range(len(state.kappa)):
        clicks += state.clicks[i, k]
        misses += state.misses[i, k] * math.log(max(1 - y * state.kappa[k], 1e-300) / max(1 - x * state.kappa[k], 1e-300))
    if accepted(rng, x, y, sigma, clicks, misses):
        state.theta[i] = y


@inner
def _move_kappa(state: State, rng: np.random.Generator, k: int, sigma: float) -> None:
    x = state.kappa[k]
    y = propose(rng, x, sigma)
    clicks, misses = 0.0, 0.0
    for i in range(len(state.theta)):
        clicks += state.clicks[i, k]
        misses += state.misses[i, k] * math.log(max(1 - y * state.theta[i], 1e-300) / max(1 - x * state.theta[i], 1e-300))
    if accepted(rng, x, y, sigma, clicks, misses):
        state.kappa[k] = y


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    state.counts[TURN] += 1
    sigma = state.scale[0] / math.sqrt(state.counts[TURN])
    for _ in range(state.counts[SWEEPS]):
        for i in range(len(state.theta)):
            _move_theta(state, rng, i, sigma)
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
        state.clicks[slate.items[k], k] += clicks[k]
        state.misses[slate.items[k], k] += not clicks[k]
        touch(state.changes, slate.items[k])
    return False


class PBMHB(Ranker):
    """PB-MHB (Gauthier, Gaudel, Fromont 2021): Thompson sampling of attraction and examination."""

    name = "pb-mhb"
    reference = "Gauthier, Gaudel, Fromont 2021"
    believes = "position-based, unknown examination"
    learns_any_order = True
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
        counts, prior = np.array([m, 0]), np.full((items, size), PRIOR)
        best, top = np.zeros(size, np.int64), np.zeros(size)
        self.state = State(
            theta,
            kappa,
            prior,
            prior.copy(),
            no_changes(items),
            best,
            top,
            best.copy(),
            top.copy(),
            counts,
            np.array([c], np.float64),
        )


register(State, PBMHB)
