"""Literal, slow versions of what is in ``recurrank.rollout``."""

from __future__ import annotations

import numpy as np


def mixture(excess, deviation, most, rates):
    """The mixture of Howard et al. (2021), summed term by term, the j-th (from 1) with a weight proportional to 1 / j.

    Excess and deviation may be arrays.
    """
    total, weights = 0.0, 0.0
    for j, rate in enumerate(rates, 1):
        lam = rate / most
        psi = (-np.log(1 - most * lam) - most * lam) / most**2
        total = total + np.exp(lam * excess - psi * deviation) / j
        weights += 1 / j
    return total / weights


def least_product(upper, lower, difference, most, rates, means):
    """The smallest product of mixtures over these means of ``lower``; arms are triples of numbers or arrays."""
    least = np.inf
    for mu in means:
        first = mixture(upper[1] - upper[0] * (mu + difference), upper[2], most, rates)
        least = np.minimum(least, first * mixture(lower[0] * mu - lower[1], lower[2], most, rates))
    return least


def arms(clicks):
    """Slates, clicks and squared deviations from the mean of earlier slates, after each slate; one experiment per row."""
    slates = np.arange(1, clicks.shape[1] + 1)
    total = np.cumsum(clicks, axis=1)
    predicted = np.hstack([np.zeros((len(clicks), 1)), (total / slates)[:, :-1]])
    return np.broadcast_to(slates, clicks.shape), total, np.cumsum((clicks - predicted) ** 2, axis=1)


def team_drafts(first, second, positions):
    """All lists and teams that team draft may give, with their probabilities: every coin is tossed both ways."""
    found = {}

    def pick(items, teams, probability):
        if len(items) == positions:
            key = (tuple(items), tuple(teams))
            found[key] = found.get(key, 0.0) + probability
            return
        ones = sum(teams)
        behind = ones < len(teams) - ones, ones > len(teams) - ones  # the smaller team picks; a coin where they are equal
        for team, order in ((1.0, first), (0.0, second)):
            chance = 0.5 if not any(behind) else float(behind[0] if team else behind[1])
            if chance:
                pick([*items, next(i for i in order if i not in items)], [*teams, team], probability * chance)

    pick([], [], 1.0)
    return found


def credited(first, second, items, teams):
    """The teams of a draft, 0.5 where both captains would pick the same: first in a round, and then second, too."""
    share, nobody = [], False
    for k, team in enumerate(teams):
        one, other = (next((i for i in order if i not in items[:k]), None) for order in (first, second))
        nobody = one == other and (k % 2 == 0 or nobody)
        share.append(0.5 if nobody else team)
    return tuple(share)


def probabilistic_lists(first, second, positions, tau):
    """All lists with their probabilities, and the probability of each position's coin given the list (Bayes' rule)."""
    found, posterior = {}, {}

    def chance(order, item, items):
        left = [i for i in order if i not in items]
        return (order.index(item) + 1) ** -tau / sum((order.index(i) + 1) ** -tau for i in left)

    def draw(items, coins, probability):
        if len(items) == positions:
            found[tuple(items)], posterior[tuple(items)] = probability, coins
            return
        for item in first:
            if item not in items:
                one, other = chance(first, item, items), chance(second, item, items)
                draw([*items, item], [*coins, one / (one + other)], probability * (one + other) / 2)

    draw([], [], 1.0)
    return found, posterior
