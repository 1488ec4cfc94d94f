"""Literal twins of the algorithms since 2017 that need no queries, each written from its own paper; see ``naive.py``.

A twin has ``rank() -> list of items`` and ``learn(items, clicks)``, and draws from the same random stream as the ranker.
"""

from __future__ import annotations

import math

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
