"""Literal twins of the algorithms since 2017 that need no queries, each written from its own paper; see ``naive.py``.

A twin has ``rank() -> list of items`` and ``learn(items, clicks)``, and draws from the same random stream as the ranker.
"""

from __future__ import annotations

import math

import numpy as np

TWINS = {}


class BubbleRank:
    """Algorithm 1 of Li et al. 2019, and the last position paired with an item from outside the list."""

    def __init__(self, features, positions, rounds, rng, *, delta=None, initial=None):
        self.L, self.K, self.rng, self.t = len(features), positions, rng, 0
        self.base = sorted(range(self.L), key=lambda a: -initial[a]) if initial is not None else list(range(self.L))
        self.log = math.log(1 / (rounds**-4 if delta is None else delta))
        self.s, self.n = {}, {}

    def beats(self, i, j):
        return self.s.get((i, j), 0) > 2 * math.sqrt(self.n.get((i, j), 0) * self.log)

    def rank(self):
        h, self.t = self.t % 2, self.t + 1
        shown, self.h, self.pair = self.base[: self.K], h, None
        for k in range(h, self.K - 1, 2):
            if not self.beats(shown[k], shown[k + 1]) and self.rng.random() < 0.5:
                shown[k], shown[k + 1] = shown[k + 1], shown[k]
        if (self.K - h) % 2 == 1 and self.L > self.K:
            j = self.base[self.K + int(self.rng.random() * (self.L - self.K))]
            if not self.beats(shown[-1], j):
                self.pair = shown[-1], j
                if self.rng.random() < 0.5:
                    shown[-1] = j
        return shown

    def add(self, i, j, difference):
        for a, b, d in ((i, j, difference), (j, i, -difference)):
            self.s[a, b] = self.s.get((a, b), 0) + d
            self.n[a, b] = self.n.get((a, b), 0) + 1

    def learn(self, items, clicks):
        for k in range(self.h, self.K - 1, 2):
            if clicks[k] != clicks[k + 1]:
                self.add(items[k], items[k + 1], clicks[k] - clicks[k + 1])
        if self.pair and clicks[-1]:
            i, j = self.pair
            self.add(i, j, 1 if items[-1] == i else -1)
        base = self.base
        for k in range(self.K - 1):
            if self.beats(base[k + 1], base[k]):
                base[k], base[k + 1] = base[k + 1], base[k]
        if self.pair and self.pair[0] == base[self.K - 1] and self.beats(self.pair[1], self.pair[0]):
            there = base.index(self.pair[1])
            base[self.K - 1], base[there] = base[there], base[self.K - 1]


TWINS["bubblerank"] = BubbleRank


class _Cascade:
    """Items by an index, ties by number; observed down to the first click; never observed ones first."""

    def __init__(self, features, positions, rounds, rng, **options):
        self.L, self.K, self.T, self.rng, self.t = len(features), positions, rounds, rng, 1
        self.set(**options)

    def rank(self):
        index = [self.index(a) for a in range(self.L)]
        return sorted(range(self.L), key=lambda a: (-index[a], a))[: self.K]

    def learn(self, items, clicks):
        seen = []
        for a, c in zip(items, clicks, strict=True):
            seen.append((a, int(c)))
            if c:
                break
        self.observe(seen)
        self.t += 1


class CascadeDUCB(_Cascade):
    def set(self, discount=None, exploration=0.5):
        self.gamma = max(0.9, 1 - 1 / (4 * math.sqrt(self.T))) if discount is None else discount
        self.epsilon, self.n, self.x = exploration, [0.0] * self.L, [0.0] * self.L

    def rank(self):
        total = sum(self.gamma**s for s in range(self.t))
        self.log = math.log(total)
        return super().rank()

    def index(self, a):
        return self.x[a] / self.n[a] + 2 * math.sqrt(self.epsilon * self.log / self.n[a]) if self.n[a] else math.inf

    def observe(self, seen):
        for a, c in seen:
            self.n[a] += 1
            self.x[a] += c
        self.n = [self.gamma * n for n in self.n]
        self.x = [self.gamma * x for x in self.x]


class CascadeSWUCB(_Cascade):
    def set(self, window=None, exploration=0.5):
        self.tau = max(2, math.ceil(2 * math.sqrt(self.T * math.log(self.T)))) if window is None else window
        self.epsilon, self.past = exploration, []

    def rank(self):
        self.recent = [pair for seen in self.past[-(self.tau - 1) :] for pair in seen]
        self.n, self.x = [0] * self.L, [0] * self.L
        for a, c in self.recent:
            self.n[a] += 1
            self.x[a] += c
        return super().rank()

    def index(self, a):
        if self.n[a] == 0:
            return math.inf
        return self.x[a] / self.n[a] + math.sqrt(self.epsilon * math.log(min(self.t, self.tau)) / self.n[a])

    def observe(self, seen):
        self.past.append(seen)


TWINS |= {"cascade-ducb": CascadeDUCB, "cascade-swucb": CascadeSWUCB}


class CascadeUCBV(_Cascade):
    def set(self, exploration=2.0):
        self.c, self.n, self.s = exploration, [0] * self.L, [0] * self.L

    def index(self, a):
        n = self.n[a]
        if n == 0:
            return math.inf
        mean, e = self.s[a] / n, self.c * math.log(self.t)
        return mean + math.sqrt(2 * e * mean * (1 - mean) / n) + 3 * e / n

    def observe(self, seen):
        for a, c in seen:
            self.n[a] += 1
            self.s[a] += c


class Weighted:
    """Ridge regression with weights."""

    def __init__(self, dim, ridge):
        self.M, self.b, self.ridge = ridge * np.eye(dim), np.zeros(dim), ridge

    def add(self, x, weight, y):
        self.M += weight * np.outer(x, x)
        self.b += weight * y * x

    def fit(self, delta=1.0):
        """Estimate and inverse as they are now; how far the estimate may be from the truth."""
        dim, self.inverse = len(self.b), np.linalg.inv(self.M)
        self.theta = self.inverse @ self.b
        return math.sqrt(math.log(np.linalg.det(self.M) / (self.ridge**dim * delta**2))) + math.sqrt(self.ridge)

    def mean(self, x):
        return x @ self.theta

    def width(self, x):
        return math.sqrt(x @ self.inverse @ x)


class CascadeWOFUL(_Cascade):
    def __init__(self, features, *rest, **options):
        self.X = np.asarray(features, float)
        super().__init__(features, *rest, **options)

    def set(self, delta=None, width=None):
        d, total = self.X.shape[1], self.T * self.K
        self.delta = 1 / math.sqrt(self.T) if delta is None else delta
        self.alpha = math.sqrt(d * math.log(1 + total / d) + 2 * math.log(total)) + 1 if width is None else width
        self.H, self.B = Weighted(d, 1.0), Weighted(d, 1.0)

    def rank(self):
        self.beta = self.B.fit(self.delta)
        self.H.fit()
        return super().rank()

    def index(self, a):
        return min(self.B.mean(self.X[a]) + self.beta * self.B.width(self.X[a]), 1.0)

    def observe(self, seen):
        bound = {a: self.H.mean(self.X[a]) + self.alpha * self.H.width(self.X[a]) for a, _ in seen}
        for a, c in seen:
            self.H.add(self.X[a], 1.0, c)
            self.B.add(self.X[a], 1 / max(min(bound[a], 1.0), 1 / self.K), c)


class VAC2UCB(CascadeWOFUL):
    def set(self, delta=None, ridge=1.0):
        self.delta = 1 / math.sqrt(self.T) if delta is None else delta
        self.H = self.B = Weighted(self.X.shape[1], ridge)

    def rank(self):
        ranked = super().rank()
        self.interval = {}
        for a in ranked:
            mean, width = self.B.mean(self.X[a]), self.beta * self.B.width(self.X[a])
            self.interval[a] = max(mean - 2 * width, 0.0), min(mean + 2 * width, 1.0)
        return ranked

    def index(self, a):
        return min(self.B.mean(self.X[a]) + 2 * self.beta * self.B.width(self.X[a]), 1.0)

    def observe(self, seen):
        for a, c in seen:
            low, high = self.interval[a]
            variance = (1 - high) * high if high <= 0.5 else (1 - low) * low if low >= 0.5 else 0.25
            self.B.add(self.X[a], 1 / max(variance, 0.01), c)


TWINS |= {"cascade-ucb-v": CascadeUCBV, "cascade-woful": CascadeWOFUL, "vac2-ucb": VAC2UCB}
