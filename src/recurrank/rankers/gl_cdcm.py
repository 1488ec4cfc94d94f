"""GL-CDCM: Liu, Li, Zhang, *Contextual Dependent Click Bandit Algorithm for Web Recommendation* (COCOON 2018).

| paper                                   | code                                                              |
|-----------------------------------------|-------------------------------------------------------------------|
| attraction mu(theta'x), mu increasing   | ``link``: ``"logistic"`` or ``"identity"``                        |
| V = I + sum x x'                        | ``Regression.gram``                                               |
| theta_hat: sum (w - mu(theta'x)) x = 0  | ``_fit``, Newton's method on counts by item, with V's ridge       |
| U_t(a) = theta_hat'x + beta |x|_{V^-1}  | ``rank``                                                          |
| C_t                                     | the last click, K when there is none; items down to it are observed |

beta is that of generalised linear bandits (Li, Lu, Zhou 2017), sigma/kappa sqrt(d/2 log(1 + 2n/d) + log T) with n the
observations, sigma = 1/2, and kappa the least slope of mu for |theta'x| <= 2 (docs/deviations.md). theta_hat is fitted anew
whenever the observations have grown by 1 %.

Guarantee: regret O(d K sqrt(T K) log(T)) under the dependent click model with generalised linear attraction.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.dcm_klucb import last_click
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.engines.regression import Regression, add, dot, no_data, solve
from recurrank.rankers.engines.scores import show_optimistic, unseen, widths
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register

LOGISTIC, FITTED, OBSERVED = 0, 1, 2
WIDTH, HORIZON = 0, 1
GROWTH = 1.01


class State(NamedTuple):
    columns: Floats  # (d, L)
    features: Floats  # (L, d)
    regression: Regression  # V, and for the fit the gradient as its target
    newton: Regression  # the Hessian and the gradient of the fit
    theta: Floats  # (d,) theta_hat
    seen: Ints  # (L,) observations of each item
    clicks: Ints  # (L,) clicks among them
    lower: Floats  # (d, d)
    inverse: Floats  # (d, d)
    score: Floats  # (L,)
    square: Floats  # (L,)
    best: Ints  # (K,)
    top: Floats  # (K,)
    numbers: Floats  # (2,) the width's factor and log T
    counts: Ints  # (3,) whether the link is logistic, observations at the last fit, observations


@inner
def _fit(state: State) -> None:
    """Newton's method for sum_i (clicks_i - seen_i mu(theta'x_i)) x_i = theta, from the last solution.

    That is where the concave log-likelihood less |theta|^2 / 2 is largest; a step that makes it smaller is halved.
    """
    newton, theta, d = state.newton, state.theta, len(state.theta)
    before = -np.inf
    for _ in range(200):
        now = 0.0
        for i in range(d):
            now -= theta[i] * theta[i] / 2
            newton.target[i] = -theta[i]
            newton.target_low[i] = 0.0
            for j in range(d):
                newton.gram[i, j] = 1.0 if i == j else 0.0
                newton.gram_low[i, j] = 0.0
        for item in range(len(state.seen)):
            seen, clicks = state.seen[item], state.clicks[item]
            if seen == 0:
                continue
            x = state.features[item]
            eta = dot(x, theta)
            if state.counts[LOGISTIC]:
                mu = 1 / (1 + math.exp(-eta)) if eta > -700 else 0.0
                slope = mu * (1 - mu)
                now += clicks * eta - seen * (max(eta, 0.0) + math.log(1 + math.exp(-abs(eta))))
            else:
                mu, slope = eta, 1.0
                now += clicks * eta - seen * eta * eta / 2
            add(newton, x, seen * slope, clicks - seen * mu)
        if now < before - 1e-10 * abs(before):
            for i in range(d):
                newton.theta[i] /= 2
                theta[i] -= newton.theta[i]
            continue
        before = now
        solve(newton)
        step = 0.0
        for i in range(d):
            theta[i] += newton.theta[i]
            step = max(step, abs(newton.theta[i]))
        if step < 1e-10:
            break


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    observed, d = state.counts[OBSERVED], len(state.theta)
    if observed >= GROWTH * state.counts[FITTED] and observed > state.counts[FITTED]:
        _fit(state)
        state.counts[FITTED] = observed
    solve(state.regression)
    # beta = sigma/kappa sqrt(d/2 log(1 + 2n/d) + log T)
    beta = state.numbers[WIDTH] * math.sqrt(d / 2 * math.log(1 + 2 * observed / d) + state.numbers[HORIZON])
    show_optimistic(state, state.theta, beta, np.inf, slate)


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(last_click(clicks) + 1):
        item = slate.items[k]
        add(state.regression, state.features[item], 1.0, 0.0)
        state.seen[item] += 1
        state.clicks[item] += clicks[k]
        state.counts[OBSERVED] += 1
    return False


class GLCDCM(Ranker):
    """GL-CDCM (Liu, Li, Zhang 2018): generalised linear attraction, dependent clicks."""

    name = "gl-cdcm"
    reference = "Liu, Li, Zhang 2018"
    believes = "dependent click"
    uses_features = True
    regret_bound = "O(d K sqrt(T K) log(T))"
    compiled_rank = rank
    compiled_learn = learn
    compiled_propensity = certain
    compiled_served = nothing_served
    from_catalogue = ("columns", "features")

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        link: Annotated[
            Literal["logistic", "identity"], Option("the increasing function mu that attraction is of theta'x")
        ] = "logistic",
        width: Annotated[
            float | None, Option("sigma/kappa, by default 1/2 over the least slope of mu for |theta'x| <= 2", least=0)
        ] = None,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        least_slope = math.exp(-2.0) / (1 + math.exp(-2.0)) ** 2 if link == "logistic" else 1.0
        link, factor = self.record(link=link, width=0.5 / least_slope if width is None else width)
        items, d = len(self.catalogue), self.catalogue.dim
        self.state = State(
            **unseen(self.catalogue, self.positions),
            **widths(self.catalogue),
            newton=no_data(d),
            theta=np.zeros(d),
            seen=np.zeros(items, np.int64),
            clicks=np.zeros(items, np.int64),
            numbers=np.array([factor, math.log(self.rounds)]),
            counts=np.array([link == "logistic", 0, 0], np.int64),
        )


register(State, GLCDCM)
