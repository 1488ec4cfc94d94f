"""Literal twins of the ranking algorithms other than RecurRank, each written from its own paper; see ``naive.py``.

A twin has ``rank() -> list of items`` and ``learn(items, clicks)``, and draws from the same random stream as the ranker.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from tests.naive_anchored import Anchored
from tests.naive_balanced import Balanced


def top(scores, count):
    """The items of largest score, ties by item number."""
    return [int(a) for a in sorted(range(len(scores)), key=lambda a: (-scores[a], a))[:count]]


def kl(p, q):
    """The divergence of Bernoulli laws."""
    total = 0.0
    if p > 0:
        total += p * math.log(p / q) if q > 0 else math.inf
    if p < 1:
        total += (1 - p) * math.log((1 - p) / (1 - q)) if q < 1 else math.inf
    return total


@functools.lru_cache(10_000)
def kl_ucb(p, level):
    """Max { q : kl(p, q) <= level }, by bisection down to neighbouring numbers."""
    low, high, middle = p, 1.0, (p + 1.0) / 2
    while low < middle < high:
        if kl(p, middle) <= level:
            low = middle
        else:
            high = middle
        middle = (low + high) / 2
    return low


def level(t, constant):
    log = math.log(t)
    return log + constant * math.log(log) if log > 1 else log


class _Counting:
    def __init__(self, features, positions, rounds, rng, **options):
        self.L, self.K, self.T, self.rng = len(features), positions, rounds, rng
        self.n, self.s = [0] * self.L, [0] * self.L
        self.t = 0
        self.set(**options)

    def set(self):
        pass

    def observe(self, item, click):
        self.n[item] += 1
        self.s[item] += int(click)

    def rank(self):
        self.t += 1
        return top([self.index(a) if self.n[a] else math.inf for a in range(self.L)], self.K)


class CascadeUCB1(_Counting):
    def set(self, exploration=1.5):
        self.c = exploration

    def index(self, a):
        return self.s[a] / self.n[a] + math.sqrt(self.c * math.log(max(self.t - 1, 1)) / self.n[a])

    def learn(self, items, clicks):
        for a, c in zip(items, clicks, strict=True):
            self.observe(a, c)
            if c:
                break


class CascadeKLUCB(CascadeUCB1):
    def set(self, exploration=3.0):
        self.c = exploration

    def index(self, a):
        # rounded: the bisection and Newton's method agree to twelve digits, and equal statistics must tie
        return round(kl_ucb(self.s[a] / self.n[a], level(self.t, self.c) / self.n[a]), 12)


class DCMKLUCB(CascadeKLUCB):
    def learn(self, items, clicks):
        last = max((k for k, c in enumerate(clicks) if c), default=self.K - 1)
        for k in range(last + 1):
            self.observe(items[k], clicks[k])


class PBMUCB(_Counting):
    def set(self, examination=None, epsilon=0.0):
        self.kappa = [1 / (k + 1) for k in range(self.K)] if examination is None else examination
        self.epsilon = epsilon
        self.weight = [0.0] * self.L

    def index(self, a):
        n, w = self.n[a], self.weight[a]
        delta = (1 + self.epsilon) * math.log(self.t)
        return self.s[a] / w + math.sqrt(n / w) * math.sqrt(delta / (2 * w))

    def learn(self, items, clicks):
        for k, (a, c) in enumerate(zip(items, clicks, strict=True)):
            self.observe(a, c)
            self.weight[a] += self.kappa[k]


def shuffle_top(order, count, rng):
    for k in range(count):
        j = k + int(rng.random() * (len(order) - k))
        order[k], order[j] = order[j], order[k]
    return order[:count]


class Random(_Counting):
    def set(self):
        self.order = list(range(self.L))

    def rank(self):
        return shuffle_top(self.order, self.K, self.rng)

    def learn(self, items, clicks):
        pass


class Oracle(Random):
    def set(self, attraction):
        self.best = top(attraction, self.K)

    def rank(self):
        return self.best


class EpsilonGreedy(_Counting):
    def set(self, epsilon=0.1):
        self.epsilon, self.order = epsilon, list(range(self.L))

    def rank(self):
        if self.rng.random() < self.epsilon:
            return shuffle_top(self.order, self.K, self.rng)
        return super().rank()

    def index(self, a):
        return self.s[a] / self.n[a]

    def learn(self, items, clicks):
        for a, c in zip(items, clicks, strict=True):
            self.observe(a, c)


class _Linear:
    def __init__(self, features, positions, rounds, rng, **options):
        self.X = np.asarray(features, dtype=np.float64)
        self.L, self.d = self.X.shape
        self.K, self.T, self.rng = positions, rounds, rng
        self.M, self.b = np.eye(self.d), np.zeros(self.d)
        self.set(**options)

    def theta_and_widths(self):
        inverse = np.linalg.inv(self.M)
        return inverse @ self.b, np.array([math.sqrt(x @ inverse @ x) for x in self.X])

    def add(self, item, click, weight=1.0):
        x = self.X[item]
        self.M = self.M + weight * np.outer(x, x)
        self.b = self.b + weight * x * click


class CascadeLinUCB(_Linear):
    def set(self, width=None, sigma=1.0):
        total = self.T * self.K
        self.c = math.sqrt(self.d * math.log(1 + total / self.d) + 2 * math.log(total)) + 1 if width is None else width
        self.precision = sigma**-2

    def rank(self):
        theta, widths = self.theta_and_widths()
        return top([min(x @ theta + self.c * w, 1.0) for x, w in zip(self.X, widths, strict=True)], self.K)

    def learn(self, items, clicks):
        for a, c in zip(items, clicks, strict=True):
            self.add(a, c, self.precision)
            if c:
                break


class CascadeLinTS(CascadeLinUCB):
    def set(self, scale=1.0, sigma=1.0):
        self.scale, self.precision = scale, sigma**-2

    def rank(self):
        factor = np.linalg.cholesky(self.M)
        g = np.array([self.rng.standard_normal() for _ in range(self.d)])
        drawn = np.linalg.solve(self.M, self.b) + self.scale * np.linalg.solve(factor.T, g)
        return top(self.X @ drawn, self.K)


class C3UCB(_Linear):
    def set(self, delta=None, ridge=1.0, discounts=None):
        self.delta, self.ridge = 1 / math.sqrt(self.T) if delta is None else delta, ridge
        self.gamma = [1.0] * self.K if discounts is None else discounts
        self.M = ridge * np.eye(self.d)

    def rank(self):
        theta, widths = self.theta_and_widths()
        log = math.log(np.linalg.det(self.M) / (self.ridge**self.d * self.delta**2))
        beta = math.sqrt(log) + math.sqrt(self.ridge)
        return top([min(x @ theta + beta * w, 1.0) for x, w in zip(self.X, widths, strict=True)], self.K)

    def learn(self, items, clicks):
        for k, (a, c) in enumerate(zip(items, clicks, strict=True)):
            self.add(a, c, self.gamma[k] ** 2)
            if c:
                break


class LinUCB(_Linear):
    def set(self, alpha=None):
        self.alpha = 1 + math.sqrt(math.log(2 / 0.05) / 2) if alpha is None else alpha

    def rank(self):
        theta, widths = self.theta_and_widths()
        return top(self.X @ theta + self.alpha * widths, self.K)

    def learn(self, items, clicks):
        for a, c in zip(items, clicks, strict=True):
            self.add(a, c)


class GLCDCM(_Linear):
    def set(self, link="logistic", width=None):
        self.logistic = link == "logistic"
        slope = math.exp(-2) / (1 + math.exp(-2)) ** 2 if self.logistic else 1.0
        self.width = 0.5 / slope if width is None else width
        self.data, self.fitted, self.theta = [], 0, np.zeros(self.d)

    def fit(self):
        """Sum (w - mu(theta'x)) x = theta, by Newton's method on all data."""
        rows = self.X[[a for a, _ in self.data]]
        w = np.array([float(c) for _, c in self.data])

        def likelihood(theta):
            eta = rows @ theta
            fit = np.logaddexp(0, eta) if self.logistic else eta**2 / 2
            return (w * eta - fit).sum() - theta @ theta / 2

        for _ in range(200):
            eta = rows @ self.theta
            mu = 1 / (1 + np.exp(-eta)) if self.logistic else eta
            slope = mu * (1 - mu) if self.logistic else np.ones_like(mu)
            step = np.linalg.solve(np.eye(self.d) + (rows.T * slope) @ rows, rows.T @ (w - mu) - self.theta)
            now = likelihood(self.theta)
            while likelihood(self.theta + step) < now - 1e-10 * abs(now):
                step = step / 2
            self.theta = self.theta + step
            if np.abs(step).max() < 1e-11:
                break

    def rank(self):
        n = len(self.data)
        if n > self.fitted and n >= 1.01 * self.fitted:
            self.fit()
            self.fitted = n
        _, widths = self.theta_and_widths()
        beta = self.width * math.sqrt(self.d / 2 * math.log(1 + 2 * n / self.d) + math.log(self.T))
        return top(self.X @ self.theta + beta * widths, self.K)

    def learn(self, items, clicks):
        last = max((k for k, c in enumerate(clicks) if c), default=self.K - 1)
        for k in range(last + 1):
            self.add(items[k], 0.0)
            self.data.append((items[k], bool(clicks[k])))


class TopRank(_Counting):
    """Blocks by definition, S and N for all pairs; every block is shuffled, drawing only the displayed places."""

    def set(self, delta=None):
        self.delta = 1 / self.T if delta is None else delta
        self.c = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))
        self.S, self.N = np.zeros((self.L, self.L)), np.zeros((self.L, self.L))
        self.beats = np.zeros((self.L, self.L), bool)
        self.blocks = self.partition()

    def partition(self):
        """P_d: what nobody left beats."""
        left, blocks = set(range(self.L)), []
        while left:
            free = [j for j in sorted(left) if not any(self.beats[i, j] for i in left)]
            assert free, "G has a cycle"
            blocks.append(free)
            left -= set(free)
        return blocks

    def rank(self):
        slate = []
        for block in self.blocks:
            for k in range(min(len(block), self.K - len(slate))):
                j = k + int(self.rng.random() * (len(block) - k))
                block[k], block[j] = block[j], block[k]
            slate += block[: self.K - len(slate)]
            if len(slate) == self.K:
                return slate
        return slate

    def learn(self, items, clicks):
        clicked = {a for a, c in zip(items, clicks, strict=True) if c}
        new = False
        for block in self.blocks:
            for i in clicked & set(block):
                for j in set(block) - clicked:
                    self.S[i, j] += 1
                    self.S[j, i] -= 1
                    self.N[i, j] += 1
                    self.N[j, i] += 1
                    n = self.N[i, j]
                    if not self.beats[i, j] and self.S[i, j] >= math.sqrt(2 * n * math.log(self.c * math.sqrt(n) / self.delta)):
                        self.beats[i, j] = new = True
        if new:
            self.blocks = self.partition()


TWINS = {
    "c3-ucb": C3UCB,
    "cascade-klucb": CascadeKLUCB,
    "cascade-lints": CascadeLinTS,
    "cascade-linucb": CascadeLinUCB,
    "cascade-ucb1": CascadeUCB1,
    "dcm-klucb": DCMKLUCB,
    "epsilon-greedy": EpsilonGreedy,
    "gl-cdcm": GLCDCM,
    "linucb": LinUCB,
    "oracle": Oracle,
    "pbm-ucb": PBMUCB,
    "random": Random,
    "toprank": TopRank,
}


class BatchRank(_Counting):
    def set(self, exploration=16.0):
        self.e = exploration
        self.batches = [self.batch(0, self.K, list(range(self.L)), 0)]

    def batch(self, first, width, items, stage):
        return {
            "first": first, "width": width, "items": list(items), "stage": stage,
            "n": dict.fromkeys(items, 0), "c": dict.fromkeys(items, 0),
            "wanted": max(1, math.ceil(self.e * 4.0**stage * math.log(max(self.T, 2)))),
        }  # fmt: skip

    def rank(self):
        slate = [None] * self.K
        for b in self.batches:
            least = min(b["n"].values())
            items, fresh = b["items"], sum(1 for d in b["items"] if b["n"][d] == least)
            items.sort(key=lambda d: b["n"][d])  # stable: those shown least stay in their order, in front
            for k in range(b["width"]):
                end = fresh if k < fresh else len(items)
                j = k + int(self.rng.random() * (end - k))
                items[k], items[j] = items[j], items[k]
            chosen = items[: b["width"]]
            for k in range(b["width"]):
                j = k + int(self.rng.random() * (b["width"] - k))
                chosen[k], chosen[j] = chosen[j], chosen[k]
                slate[b["first"] + k] = chosen[k]
        return slate

    def learn(self, items, clicks):
        after = []
        for b in self.batches:
            least = min(b["n"].values())
            fresh = sum(1 for d in b["items"] if b["n"][d] == least)
            for k in range(b["first"], b["first"] + b["width"]):
                d = items[k]
                if b["n"][d] == least:
                    b["c"][d] += int(clicks[k])
                    b["n"][d] += 1
                    # the order that the next shuffle starts from: what is done changes places with the last not done
                    at, fresh = b["items"].index(d), fresh - 1
                    b["items"][at], b["items"][fresh] = b["items"][fresh], b["items"][at]
            after += self.update(b) if min(b["n"].values()) == b["wanted"] else [b]
        self.batches = after

    def update(self, b):
        n, log = b["wanted"], math.log(max(self.T, 3))
        level = (log + 3 * math.log(log) if log > 1 else log) / n
        items = sorted(b["items"])
        upper = {d: kl_ucb(b["c"][d] / n, level) for d in items}
        lower = {d: 1 - kl_ucb(1 - b["c"][d] / n, level) for d in items}
        order = sorted(items, key=lambda d: (-round(lower[d], 12), d))
        width, split = b["width"], 0
        for k in range(1, width):
            if lower[order[k - 1]] > max(upper[d] for d in order[k:]):
                split = k
        if split:
            return [
                self.batch(b["first"], split, sorted(order[:split]), 0),
                self.batch(b["first"] + split, width - split, sorted(order[split:]), 0),
            ]
        return [
            self.batch(b["first"], width, [d for d in items if upper[d] >= lower[order[width - 1]] - 1e-12], b["stage"] + 1)
        ]


class PIE(_Counting):
    def set(self, explore_at=None, exploration=4.0):
        self.at, self.c = self.K if explore_at is None else explore_at, exploration

    def leaders(self):
        return top([self.s[a] / self.n[a] if self.n[a] else 0.0 for a in range(self.L)], self.K)

    def rank(self):
        self.t += 1
        leaders = self.leaders()
        if self.rng.random() < 0.5:
            return leaders
        last = leaders[-1]
        bar = self.s[last] / self.n[last] if self.n[last] else 0.0
        f = level(self.t, self.c)
        inside = []
        for a in range(self.L):
            p = self.s[a] / self.n[a] if self.n[a] else 0.0
            if a not in leaders and (self.n[a] == 0 or p >= bar or (bar < 1 and self.n[a] * kl(p, bar) <= f)):
                inside.append(a)
        if not inside:
            return leaders
        chosen = inside[int(self.rng.random() * len(inside))]
        return [*leaders[: self.at - 1], chosen, *leaders[self.at - 1 : -1]]

    def learn(self, items, clicks):
        for a, c in zip(items, clicks, strict=True):
            self.observe(a, c)
            if c:
                break


class PBMPIE(_Counting):
    def set(self, examination=None, epsilon=0.0):
        self.kappa = [1 / (k + 1) for k in range(self.K)] if examination is None else examination
        self.epsilon = epsilon
        self.shown, self.hits = np.zeros((self.L, self.K)), np.zeros((self.L, self.K))

    def mean(self, a):
        weight = sum(k * n for k, n in zip(self.kappa, self.shown[a], strict=True))
        return math.floor(self.s[a] / weight * 1e12 + 0.5) / 1e12 if weight else 0.0

    def phi(self, a, q):
        return sum(n * kl(h / n, k * q) for k, n, h in zip(self.kappa, self.shown[a], self.hits[a], strict=True) if n)

    def falls(self, a, q):
        """Whether Phi still falls at q: then the largest q with Phi <= delta lies beyond, if there is any."""
        return (
            sum(
                n * k * (k * q - h / n) / (k * q * (1 - k * q))
                for k, n, h in zip(self.kappa, self.shown[a], self.hits[a], strict=True)
                if n
            )
            <= 0
        )

    def rank(self):
        self.t += 1
        means = [self.mean(a) for a in range(self.L)]
        leaders = top(means, self.K)
        if self.rng.random() < 0.5:
            return leaders
        bar, delta = self.mean(leaders[-1]), (1 + self.epsilon) * math.log(self.t)
        inside = []
        for a in range(self.L):
            if a in leaders:
                continue
            x = min(bar, 1 - 1e-12)  # U is at most 1
            if self.n[a] == 0 or bar == 0 or (bar <= 1 and (self.falls(a, x) or self.phi(a, x) <= delta)):
                inside.append(a)
        if inside:
            leaders[-1] = inside[int(self.rng.random() * len(inside))]
        return leaders

    def learn(self, items, clicks):
        for k, (a, c) in enumerate(zip(items, clicks, strict=True)):
            self.observe(a, c)
            self.shown[a, k] += 1
            self.hits[a, k] += int(c)


TWINS |= {"batchrank": BatchRank, "pbm-pie": PBMPIE, "pie": PIE}


class RankedBandits(_Counting):
    def set(self, inside="ucb1", exploration=None):
        self.inside = inside
        rate = min(1.0, math.sqrt(self.L * math.log(max(self.L, 2)) / ((math.e - 1) * self.T)))
        self.c = {"ucb1": 2.0, "klucb": 3.0, "exp3": rate}[inside] if exploration is None else exploration
        self.counts, self.rewards = np.zeros((self.K, self.L), int), np.zeros((self.K, self.L), int)
        self.w = np.ones((self.K, self.L))

    def select(self, k):
        if self.inside == "exp3":
            if self.rng.random() < self.c:
                return int(self.rng.random() * self.L)
            at = self.rng.random() * self.w[k].sum()
            for i in range(self.L - 1):
                at -= self.w[k, i]
                if at < 0:
                    return i
            return self.L - 1
        n, s = self.counts[k], self.rewards[k]
        log = math.log(self.t)
        if self.inside == "ucb1":
            index = [s[a] / n[a] + math.sqrt(self.c * log / n[a]) if n[a] else math.inf for a in range(self.L)]
        else:
            f = level(self.t, self.c)
            index = [round(kl_ucb(s[a] / n[a], f / n[a]), 12) if n[a] else math.inf for a in range(self.L)]
        return top(index, 1)[0]

    def rank(self):
        self.t += 1
        slate, self.chosen = [], []
        for k in range(self.K):
            item = self.select(k)
            self.chosen.append(item)
            while item in slate:
                item = int(self.rng.random() * self.L)
            slate.append(item)
        return slate

    def learn(self, items, clicks):
        for k, (shown, chosen) in enumerate(zip(items, self.chosen, strict=True)):
            reward = int(clicks[k] and shown == chosen)
            if self.inside == "exp3":
                p = (1 - self.c) * self.w[k, chosen] / self.w[k].sum() + self.c / self.L
                self.w[k, chosen] *= math.exp(self.c * reward / (p * self.L))
                if self.w[k, chosen] > 1e100:
                    self.w[k] /= 1e100
            else:
                self.counts[k, chosen] += 1
                self.rewards[k, chosen] += reward


TWINS |= {"ranked-bandits": RankedBandits, "balanced": Balanced, "anchored": Anchored}
