"""The literal CLUB-cascade (Li, Zhang 2018): all observations of every user kept, the graph as a set of pairs."""

from __future__ import annotations

import math

import numpy as np
from tests.naive_rankers import top


class CLUBCascade:
    """Lines of Algorithm 1. A user is in the graph from its first request on; None is a user without edges."""

    def __init__(self, features, positions, rounds, rng, ridge=1.0, alpha=None, beta=None):
        self.X, self.K, self.ridge = np.asarray(features, np.float64), positions, ridge
        self.D = self.X.shape[1] + 1
        self.alpha = self.D / 5 if alpha is None else alpha
        if beta is None:
            inside = self.D * math.log(1 + rounds * positions / (ridge * self.D)) + 2 * math.log(math.sqrt(rounds))
            beta = math.sqrt(inside) + math.sqrt(ridge)
        self.beta = beta
        self.observed = {None: []}  # (x, click) of each user
        self.edges = set()

    def join(self, user):
        if user not in self.observed:
            self.edges |= {frozenset((user, other)) for other in self.observed if other is not None}
            self.observed[user] = []

    def estimate(self, users):
        M, b = self.ridge * np.eye(self.D), np.zeros(self.D)
        for user in users:
            for x, click in self.observed[user]:
                M = M + np.outer(x, x)
                b = b + x * click
        return np.linalg.solve(M, b), np.linalg.inv(M)

    def cluster(self, user):
        found = [user]
        for one in found:
            found += [other for other in self.observed if frozenset((one, other)) in self.edges and other not in found]
        return found

    def ranked(self, points, user):
        self.join(user)
        theta, inverse = self.estimate(self.cluster(user))
        rows = [np.array([1.0, *point]) for point in points]
        return top([min(x @ theta + self.beta * math.sqrt(x @ inverse @ x), 1.0) for x in rows], min(self.K, len(points)))

    def answered(self, points, user, clicks):
        """Features of the items shown, and their clicks."""
        for point, click in zip(points, clicks, strict=True):
            self.observed[user].append((np.array([1.0, *point]), click))
            if click:
                break
        theta, f = self.estimate([user])[0], self.f(user)
        for other in self.observed:
            apart = np.linalg.norm(theta - self.estimate([other])[0])
            if frozenset((user, other)) in self.edges and apart >= self.alpha * (f + self.f(other)):
                self.edges.remove(frozenset((user, other)))

    def f(self, user):
        seen = len(self.observed[user])
        return math.sqrt((1 + math.log(1 + seen)) / (1 + seen))

    def rank(self):
        return self.ranked(self.X, None)

    def learn(self, items, clicks):
        self.answered(self.X[items], None, clicks)
