"""Interleaving against A/B at equal power: sessions until the better of two rankers is found, for five pairs of rankers.

Each ranker has learned for a number of rounds; its order is the slate it shows then. Sessions are those within which 80 % of
experiments have ended with the right verdict at alpha = 5 %, counted in the same way for both; both tests hold at all times.
A/B uses the better of two tests (``benchmarks/interleaving.py``), and each arm gets half of the slates, which is best for it.

A bound for the ratio: any test of a mean ``m`` of variance ``v`` needs about ``2 log(1 / alpha) v / m^2`` sessions. For
two arms that is ``(2 v_1 + 2 v_2) / gap^2``; for interleaving, credits may weigh positions (Yue et al., SIGIR 2010), and the
best weights have ``m^2 / v = mu' Sigma^-1 mu`` of the credits by position. The detail has the ratio for those weights.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import recurrank as rr
from benchmarks.interleaving import ALPHA, POWER, Given, arms, click_counts, evidence
from benchmarks.measure import Figure, at_most
from recurrank.clicks import ClickModel
from recurrank.rollout import probabilistic, team_draft
from recurrank.rollout.interleaving import BETS, rounds_of

ITEMS, DIM, POSITIONS, RUNS, SCALE = 50, 5, 5, 20, 0.4
MOST, CHUNK = 50_000, 1_000
"""Sessions of an interleaving: at most, and at a time."""
COINS = list(itertools.product((0, 1), repeat=rounds_of(POSITIONS)))
USERS = ("cascade", "position-based")
SAMPLE = 6_000
"""Sessions for estimating the bound."""
PAIRS = [
    (("balanced", 30_000), ("balanced", 300)),
    (("recurrank", 30_000), ("random", 1)),
    (("toprank", 30_000), ("toprank", 300)),
    (("balanced", 30_000), ("cascade-ucb1", 1_000)),
    (("cascade-ucb1", 30_000), ("recurrank", 300)),
]


def run() -> list[Figure]:
    """Five pairs of rankers; users who leave after a click, and users who click on."""
    figures = []
    for users in USERS:
        for better, worse in PAIRS:
            model, orders = _orders(users, better, worse)
            product, differences = arms(*(_counts(model, order) for order in orders))
            both = min(product, differences)
            names = f"{users}, {better[0]} after {better[1]:,}, {worse[0]} after {worse[1]:,} rounds"
            clicks = " and ".join(f"{model.expected(order).sum():.3f}" for order in orders)
            for draw in (team_draft, probabilistic):
                sessions = _interleaved(model, orders, draw)
                bound = f"best weights {100 * bound_of(model, orders, draw):.0f} %"
                detail = f"{sessions:,.0f} of {both:,.0f} sessions; {clicks} clicks per slate; {bound}"
                figures.append(at_most(f"{draw.__name__}: {names}", 100 * sessions / both, 10, "% of A/B", detail))
    return figures


def bound_of(model: ClickModel, orders: list[Any], draw: Any) -> float:
    """Sessions of interleaving with the best weights of positions over those of two arms, by signal and noise alone."""
    expected = [model.expected(order) for order in orders]
    if isinstance(model, rr.clicks.Cascade):
        noise = [float(clicks.sum() * (1 - clicks.sum())) for clicks in expected]
    else:
        noise = [float((clicks * (1 - clicks)).sum()) for clicks in expected]
    of_arms = float(expected[0].sum() - expected[1].sum()) ** 2 / (2 * sum(noise))
    differences, _ = _sessions(model, orders, draw, SAMPLE, np.random.default_rng(9))
    mean, spread = differences.mean(axis=0), np.cov(differences.T) + 1e-9 * np.eye(POSITIONS)
    return of_arms / float(mean @ np.linalg.solve(spread, mean))


def _sessions(model: ClickModel, orders: list[Any], draw: Any, count: int, rng: np.random.Generator) -> tuple[Any, int]:
    """Differences of clicks by position of ``count`` sessions, and the largest possible difference."""
    first, second = _full(orders)
    if draw is team_draft:  # all outcomes of the coins, drawn with equal probability
        every = [team_draft(first, second, POSITIONS, Given(coins)) for coins in COINS]
        lists = [every[n] for n in rng.integers(len(every), size=count)]
    else:
        lists = [draw(first, second, POSITIONS, rng) for _ in range(count)]
    differences = np.array([(2 * shown.share - 1) * model.sample(shown.items, rng) for shown in lists])
    return differences, lists[0].most


def _full(orders: list[Any]) -> Any:
    """Both orders, each followed by the items that only the other one shows."""
    return (np.append(a, [item for item in b if item not in a]).astype(np.int64) for a, b in (orders, orders[::-1]))


def _orders(users: str, *rankers: tuple[str, int]) -> tuple[ClickModel, list[Any]]:
    """The slates of the rankers after their rounds, the better one first."""
    problem = rr.synthetic(items=ITEMS, dim=DIM, seed=2)
    attraction = SCALE * problem.attraction
    model: ClickModel = rr.clicks.Cascade(attraction)
    if users == "position-based":
        model = rr.clicks.PositionBased(attraction, examination=1 / np.arange(1, POSITIONS + 1))
    slates = []
    for name, rounds in rankers:
        ranker = rr.rankers.make(name, features=problem.features, positions=POSITIONS, rounds=30_000, seed=1)
        rr.simulate(ranker, model, rounds=rounds, seed=3)
        slates.append(ranker.rank().items)
    return model, sorted(slates, key=lambda slate: -float(model.expected(slate).sum()))


def _counts(model: ClickModel, order: Any) -> Any:
    """The probabilities of 0, 1, ... clicks on a slate: at most one in the cascade model, independent ones in the other."""
    rates = model.expected(order)
    if isinstance(model, rr.clicks.Cascade):
        return np.array([1 - rates.sum(), rates.sum(), *[0.0] * (POSITIONS - 1)])
    return click_counts(rates)


def _interleaved(model: ClickModel, orders: list[Any], draw: Any) -> float:
    """Sessions of interleaving that POWER of the experiments need."""
    rng = np.random.default_rng(5)
    ended = [_one_interleaving(model, orders, draw, rng) for _ in range(RUNS)]
    return float(np.quantile(ended, POWER, method="higher"))


def _one_interleaving(model: ClickModel, orders: list[Any], draw: Any, rng: np.random.Generator) -> float:
    """Sessions until ``Preference``, checked after each of them, prefers the first order."""
    capital = np.zeros(len(BETS))
    for done in range(0, MOST, CHUNK):
        differences, most = _sessions(model, orders, draw, CHUNK, rng)
        after = capital + np.cumsum(np.log1p(np.outer(differences.sum(axis=1) / most, BETS)), axis=0)
        ends = np.flatnonzero(evidence(after) >= np.log(2 / ALPHA))
        if len(ends):
            return done + 1.0 + ends[0]
        capital = after[-1]
    return np.inf
