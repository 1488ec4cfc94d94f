"""The literal twin of Balanced: dictionaries of data sets, every item looked at in every sample, no candidates, no tables."""

from __future__ import annotations

import itertools
import math

import numpy as np

from recurrank.rankers import balanced
from recurrank.rankers.engines.coordinates import Coordinates


class Balanced:
    """Draws as the ranker does: the first order, two matrices of normals at every estimate, two numbers per block."""

    def __init__(self, features, positions, rounds, rng, confidence="tuned", delta=None):
        import recurrank as rr

        self.K, self.rng, self.proved = positions, rng, confidence == "proved"
        self.delta = 1 / math.sqrt(rounds) if delta is None else delta
        self.catalogue = rr.Catalogue(features)
        self.coordinates = Coordinates.of(self.catalogue.features, None, self.catalogue.scales)
        self.X, different = self.coordinates.points(self.catalogue.features), self.coordinates.support
        self.raw = np.asarray(self.catalogue.features)
        self.L, self.d = self.X.shape
        order = [int(a) for a in rng.permutation(self.L)]
        others = [a for a in order if a not in set(different.tolist())]
        order = [a for a in order if a in set(different.tolist())] + (sorted(others) if self.L > balanced.LARGE else others)
        self.blocks = [(0, positions, order)]
        self.data = {self.name(0): (np.zeros((self.d, self.d)), np.zeros(self.d))}
        self.accounts = {}
        self.var = np.full(self.L, 0.25)
        self.shown, self.clicks = np.zeros((positions, self.d)), np.zeros(positions)
        self.t, self.next, self.certified = 0, 32, 0
        self.scales = {self.name(0): 1.0}
        self.prepare(np.zeros(self.d), np.eye(self.d), 1 / np.arange(1.0, positions + 1))

    def name(self, b):
        """A data set is known by its position and the set of items above it."""
        above = [a for _, _, items in self.blocks[:b] for a in items]
        return (self.blocks[b][0], frozenset(above))

    def prepare(self, theta, information, worth):
        root = np.linalg.cholesky(np.linalg.inv(information))
        radius = math.sqrt(self.d) + 2.5
        self.S, drawn = 32 if self.large() else 64, []
        for _ in range(2):
            z = self.rng.standard_normal((self.d, self.S))
            drawn.append(z * np.minimum(1.0, radius / np.linalg.norm(z, axis=0)))
        self.theta, self.worth = theta, worth
        self.narrow = [theta + 1.0 * (root @ drawn[0])[:, s] for s in range(self.S)]
        self.wide = [theta + (1.0, 2.0)[s % 2] * (root @ drawn[1])[:, s] for s in range(self.S)]
        self.order = [sorted(items, key=lambda a: -(self.X[a] @ theta)) for _, _, items in self.blocks]
        if self.t > 100 and not self.proved:
            for b, (_, m, items) in enumerate(self.blocks):
                if len(items) == 1:
                    continue
                scale = self.scales[self.name(b)] or 1.0
                for a in self.candidates(items, theta, root, 2.0 * radius, m):
                    off = abs(scale * (self.X[a] @ theta) - 0.5) - 2 * scale * np.linalg.norm(self.X[a] @ root)
                    self.var[a] = max(0.25 - min(max(off, 0.0), 0.5) ** 2, 0.02)

    def candidates(self, items, theta, root, radius, m):
        """Items that are not beaten by m others, or by all of the first m, whatever the sample."""
        score = {a: self.X[a] @ theta for a in items}
        wide = {a: radius * np.linalg.norm(self.X[a] @ root) for a in items}
        if len(items) <= m or len(items) > balanced.LARGE:
            return items
        bar = sorted((score[a] - wide[a] for a in items), reverse=True)[m - 1]
        near = sorted((a for a in items if score[a] + wide[a] >= bar), key=lambda a: -score[a])
        return near[:m] + [
            a
            for a in near[m:]
            if any(score[y] - score[a] <= radius * np.linalg.norm((self.X[a] - self.X[y]) @ root) for y in near[:m])
        ]

    def rank(self):
        slate, self.asked_by = [], []
        for b, (k, m, items) in enumerate(self.blocks):
            now = self.order[b]
            if len(items) == 1:
                slate += now
                continue
            self.asked_by.append((self.name(b), k))
            tried = self.choose(b, k, m, items, now)
            slate += [tried, *[a for a in now[:m] if a != tried][: m - 1]]
        return slate

    def choose(self, b, k, m, items, now):
        balance, s = self.rng.random() < 0.2, int(self.rng.random() * self.S)
        if balance:
            worth = self.worth[k : k + m]
            account = self.accounts.setdefault(self.name(b), [0.0, 0.0])
            wide = self.wide[s]
            then = sorted(now, key=lambda a: -(self.X[a] @ wide))[:m]
            account[0] += 2.5 * max(
                0.0, sum(w * (self.X[a] @ wide - self.X[c] @ wide) for w, a, c in zip(worth, then, now, strict=False))
            )
            item, worst = self.least_known(b, items, worth)
            account[1] += 2e-4 / 0.2 * worst
            cost = worth[0] * max(self.X[items[0]] @ self.theta - self.X[item] @ self.theta, 0.0)
            if worst > 0 and account[1] >= cost:
                account[1] -= cost
                return item
            apart = {
                a: abs(at(then, a, worth) - at(now[:m], a, worth)) * abs(self.X[a] @ wide - self.X[a] @ self.theta) for a in now
            }
            item = max(now, key=lambda a: apart[a])
            if apart[item] > 0:
                moved = [item, *[a for a in now[:m] if a != item][: m - 1]]
                cost = sum(w * (self.X[a] - self.X[c]) @ self.theta for w, a, c in zip(worth, now, moved, strict=False))
                if account[0] >= max(cost, 0.0):
                    account[0] -= max(cost, 0.0)
                    return item
        return max(now, key=lambda a: self.X[a] @ self.narrow[s])

    def least_known(self, b, items, worth):
        inverse, _, beta = self.single(self.name(b), self.frozen)
        widths = [math.sqrt(max((self.X[a] - self.X[items[0]]) @ inverse @ (self.X[a] - self.X[items[0]]), 0.0)) for a in items]
        least = int(np.argmax(widths))
        return items[least], worth.sum() * min(1.0, 2 * beta * widths[least])

    @property
    def frozen(self):
        """The data sets as of the last estimate."""
        return self._frozen if hasattr(self, "_frozen") else {name: (V * 0, b * 0) for name, (V, b) in self.data.items()}

    def single(self, name, data):
        V, b = data[name]
        inverse = np.linalg.inv(np.eye(self.d) + V)
        beta = balanced.BETA
        if self.proved:
            beta = math.sqrt(2 * math.log(self.K / self.delta) + np.linalg.slogdet(np.eye(self.d) + V)[1]) + 1
        return inverse, inverse @ b, beta

    def restock(self, features, alive):
        """Position 1 keeps its data; all items compete for all positions and are certified at once."""
        same = [a for a in alive if a < self.L and (features[a] == self.raw[a]).all()]
        before, reached = self.coordinates, self.coordinates.reach(features[alive])
        if not reached or not set(before.support.tolist()) <= set(same):
            largest = np.abs(features[alive]).max(axis=0)
            found = Coordinates.of(features, np.array(alive), np.where(largest > 0, largest, 1.0))
            if not reached or found.takes(before):
                self.coordinates = found
        if self.coordinates is not before:
            change = before.back @ self.coordinates.map
            V, b = self.data[(0, frozenset())]
            self.data[(0, frozenset())] = change.T @ V @ change, b @ change
            self.shown = self.shown @ change
        var = np.full(len(features), 0.25)
        var[same] = self.var[same]
        self.raw, self.var, self.X = features, var, self.coordinates.points(features)
        self.L, self.d = self.X.shape
        old = [a for _, _, items in self.blocks for a in items if a in same]
        account = np.sum([self.accounts.get(self.name(b), [0.0, 0.0]) for b in range(len(self.blocks))], axis=0)
        self.blocks = [(0, self.K, old + sorted(set(alive) - set(old)))]
        self.data, self.accounts = {(0, frozenset()): self.data[(0, frozenset())]}, {(0, frozenset()): list(account)}
        self.certified = 0
        self.estimate_and_certify()

    def learn(self, items, clicks):
        for name, k in self.asked_by:
            x, w = self.X[items[k]], 1 / self.var[items[k]]
            self.data[name][0][:] += w * np.outer(x, x)
            self.data[name][1][:] += w * clicks[k] * x
        for k, a in enumerate(items):
            self.shown[k] += self.X[a]
            self.clicks[k] += clicks[k]
        self.t += 1
        if self.t >= self.next:
            self.estimate_and_certify()

    def estimate_and_certify(self):
        theta, information = self.estimate()
        if self.t >= 1.1 * self.certified:
            self.certify(theta)
            self.certified = self.t
            theta, information = self.estimate()
        scores = np.maximum(self.shown @ theta, 1e-9)
        worth = [c / s if s > 20 else 1.0 for c, s in zip(self.clicks, scores, strict=False)]
        worth = np.minimum.accumulate(np.clip(worth, 1e-4, 1.5))
        self._frozen = {name: (V.copy(), b.copy()) for name, (V, b) in self.data.items()}
        self.prepare(theta, information, worth)
        self.next = self.t + max(32, int((0.25 if self.large() else 0.01) * self.t))

    def large(self):
        return any(len(items) > balanced.LARGE for _, _, items in self.blocks)

    def estimate(self):
        names = list(self.data)
        scales = dict.fromkeys(names, 0.0) | {names[0]: 1.0}
        V, b = self.data[names[0]]
        theta = np.linalg.solve(np.eye(self.d) + V, b)
        for _ in range(3 if len(names) > 1 else 0):
            for before, name in itertools.pairwise(names):
                V, b = self.data[name]
                seen = theta @ V @ theta
                scales[name] = min(max(theta @ b / seen if seen > 0 else 0.0, 0.0), scales[before] or 1.0)
            whole = np.eye(self.d) + sum(scales[name] ** 2 * self.data[name][0] for name in names)
            theta = np.linalg.solve(whole, sum(scales[name] * self.data[name][1] for name in names))
        left = np.eye(self.d) + self.data[names[0]][0]
        for name in names[1:]:
            V = self.data[name][0]
            image = V @ theta
            if scales[name] > 0 and theta @ image > 0:
                left = left + scales[name] ** 2 * (V - np.outer(image, image) / (theta @ image))
        self.scales = scales
        return theta, left

    def certify(self, theta):
        singles = [self.single(name, self.data) for name in self.data]

        def better(x, y):
            for inverse, alone, beta in singles:
                apart = self.X[x] - self.X[y]
                if apart @ alone > beta * math.sqrt(max(apart @ inverse @ apart, 0.0)) + 1e-9:
                    return True
            return False

        after = []
        for _, m, items in self.blocks:
            items = sorted(items, key=lambda a: -(self.X[a] @ theta))
            if len(items) > 1:
                top = items[: 2 * m]
                items = [y for y in items if sum(better(x, y) for x in top) < m]
                top = [x for x in top if x in items]
            start, end = 0, m
            for u in range(1, min(m, len(items))):
                if u <= len(top) and all(better(x, y) for x in items[:u] for y in items[u:]):
                    after.append((u - start, items[start:u]))
                    start = u
            after.append((end - start, items[start:]))
        firsts = np.cumsum([0] + [m for m, _ in after])
        self.blocks = [(int(k), m, items) for k, (m, items) in zip(firsts, after, strict=False)]
        before, self.data = self.data, {}
        for b, (_, _, items) in enumerate(self.blocks):
            name = self.name(b)
            if name in before or len(items) > 1:
                self.data[name] = before.get(name, (np.zeros((self.d, self.d)), np.zeros(self.d)))
        self.accounts = {name: account for name, account in self.accounts.items() if name in self.data}


def at(order, item, worth):
    """What the place of an item is worth, nothing if it has none."""
    return worth[order.index(item)] if item in order else 0.0
