"""Literal twins of the algorithms since 2017 that need no queries, each written from its own paper; see ``naive.py``.

A twin has ``rank() -> list of items`` and ``learn(items, clicks)``, and draws from the same random stream as the ranker.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr
from tests.naive_rankers import kl

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


@functools.cache
def kl_bound(p, level):
    """Max { q : kl(p, q) <= level }, by bisection; rounded, so that equal statistics tie."""
    low, high = p, 1.0
    for _ in range(60):
        q = (low + high) / 2
        first = p * math.log(p / q) if p > 0 else 0.0
        rest = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 and q < 1 else 0.0 if p == 1 else math.inf
        low, high = (q, high) if first + rest <= level else (low, q)
    return round(low, 11)


class GRAB:
    """The leader by the Hungarian algorithm, all neighbours one by one."""

    def __init__(self, features, positions, rounds, rng, *, period=None):
        self.L, self.K = len(features), positions
        self.period, self.log = self.L if period is None else period, math.log(rounds)
        self.n, self.s = np.zeros((self.K, self.L), int), np.zeros((self.K, self.L), int)
        golden = (math.sqrt(5) - 1) / 2
        self.tie = np.array(
            [[1e-7 * (math.sqrt(i * self.K + k + 1 + golden) % 1.0) for i in range(self.L)] for k in range(self.K)]
        )
        self.leader = self.assign()
        self.age = 0

    def assign(self):
        self.value = self.s / np.maximum(self.n, 1) + self.tie
        return linear_sum_assignment(self.value, maximize=True)[1].tolist()

    def b(self, k, i):
        return kl_bound(self.s[k, i] / self.n[k, i], self.log / self.n[k, i]) if self.n[k, i] else 1.0

    def rank(self):
        if self.age % self.period == 0:
            return self.leader
        order = sorted(range(self.K), key=lambda k: -self.value[k, self.leader[k]])
        neighbours = [list(self.leader)]
        for k, m in itertools.pairwise(order):
            neighbours.append(list(self.leader))
            neighbours[-1][k], neighbours[-1][m] = self.leader[m], self.leader[k]
        for i in sorted(set(range(self.L)) - set(self.leader)):
            neighbours.append(list(self.leader))
            neighbours[-1][order[-1]] = i
        mine = [self.b(k, i) for k, i in enumerate(self.leader)]
        sums = [sum(self.b(k, i) - mine[k] for k, i in enumerate(slate) if i != self.leader[k]) for slate in neighbours]
        return neighbours[max(range(len(sums)), key=lambda n: (round(sums[n], 10), -n))]

    def learn(self, items, clicks):
        for k, (i, c) in enumerate(zip(items, clicks, strict=True)):
            self.n[k, i] += 1
            self.s[k, i] += int(c)
        leader = self.assign()
        self.age = self.age + 1 if leader == self.leader else 0
        self.leader = leader


TWINS["grab"] = GRAB


class PBMHB:
    def __init__(self, features, positions, rounds, rng, *, scale=1000.0, sweeps=1):
        self.L, self.K, self.rng, self.c, self.m, self.t = len(features), positions, rng, scale, sweeps, 0
        self.theta, self.kappa = rng.random(self.L), np.array([1.0, *rng.random(self.K - 1)])
        self.S, self.F = np.full((self.L, self.K), 0.5), np.full((self.L, self.K), 0.5)

    def log_posterior(self, products, s, f):
        return float((s * np.log(products)).sum() + (f * np.log(1 - products)).sum())

    def propose(self, x, sigma):
        while True:
            if sigma >= 1:
                y = self.rng.random()
                if self.rng.random() < math.exp(-((y - x) ** 2) / (2 * sigma**2)):
                    return y
            else:
                y = x + sigma * self.rng.standard_normal()
                if 0 <= y <= 1:
                    return y

    def move(self, x, others, s, f, sigma):
        y = self.propose(x, sigma)
        inside = [ndtr((1 - a) / sigma) - ndtr(-a / sigma) for a in (x, y)]
        ratio = self.log_posterior(y * others, s, f) - self.log_posterior(x * others, s, f)
        return y if math.log(self.rng.random()) < ratio + math.log(inside[0]) - math.log(inside[1]) else x

    def rank(self):
        self.t += 1
        sigma = self.c / math.sqrt(self.t)
        for _ in range(self.m):
            for i in range(self.L):
                self.theta[i] = self.move(self.theta[i], self.kappa, self.S[i], self.F[i], sigma)
            for k in range(1, self.K):
                self.kappa[k] = self.move(self.kappa[k], self.theta, self.S[:, k], self.F[:, k], sigma)
        items = sorted(range(self.L), key=lambda i: -self.theta[i])
        slate = [0] * self.K
        for k, i in zip(sorted(range(self.K), key=lambda k: -self.kappa[k]), items, strict=False):
            slate[k] = i
        return slate

    def learn(self, items, clicks):
        for k, (i, c) in enumerate(zip(items, clicks, strict=True)):
            self.S[i, k] += c
            self.F[i, k] += not c


TWINS["pb-mhb"] = PBMHB


class Rank1Elim:
    """Algorithm 1 of Katariya et al. 2017 as it is printed, as a coroutine; the rest of the page by the row means so far."""

    constant = 4.0

    def __init__(self, features, positions, rounds, rng, *, exploration=None):
        self.L, self.K, self.rng, self.n = len(features), positions, rng, rounds
        self.c = self.constant if exploration is None else exploration
        self.order = list(range(self.L))
        self.steps = self.play()
        self.pair = next(self.steps)

    def bounds(self, mean, n_l):
        radius = math.sqrt(math.log(self.n) / n_l)
        return mean - radius, mean + radius

    def play(self):
        CU, CV = np.zeros((self.L, self.K), int), np.zeros((self.L, self.K), int)
        hU, hV, before, stage = list(range(self.L)), list(range(self.K)), 0, 0
        seen = np.zeros(self.L, int)
        while True:
            n_l = math.ceil(self.c * 4**stage * math.log(self.n))
            rows, columns = sorted(set(hU)), sorted(set(hV))
            for _ in range(n_l - before):
                j = hV[int(self.rng.random() * self.K)]
                for i in rows:
                    CU[i, j] += yield i, j
                    seen[i] += 1
                i = hU[int(self.rng.random() * self.L)]
                for j in columns:
                    CV[i, j] += yield i, j
            hU = self.eliminate(hU, rows, CU.sum(axis=1), n_l)
            hV = self.eliminate(hV, columns, CV.sum(axis=0), n_l)
            mean = CU.sum(axis=1) / seen
            self.order = sorted(range(self.L), key=lambda a: -mean[a])
            before, stage = n_l, stage + 1

    def eliminate(self, h, left, clicks, n_l):
        low, high = {}, {}
        for a in left:
            low[a], high[a] = self.bounds(clicks[a] / n_l, n_l)
        best = max(left, key=lambda a: (low[a], -a))
        return [best if high[a] <= low[best] else a for a in h]

    def rank(self):
        i, j = self.pair
        slate = [a for a in self.order if a != i][: self.K - 1]
        slate.insert(j, i)
        return slate

    def learn(self, items, clicks):
        self.pair = self.steps.send(int(clicks[self.pair[1]]))


class Rank1ElimKL(Rank1Elim):
    constant = 16.0

    def bounds(self, mean, n_l):
        level = (math.log(self.n) + 3 * math.log(math.log(self.n))) / n_l
        return 1 - kl_bound(1 - mean, level), kl_bound(mean, level)


TWINS |= {"rank1-elim": Rank1Elim, "rank1-elim-kl": Rank1ElimKL}


class RankedZooming:
    """A zooming bandit per position: before each choice everything is checked for cover."""

    def __init__(self, features, positions, rounds, rng, *, exploration=4.0, lipschitz=1.0):
        X = np.asarray(features, float)
        self.D = lipschitz * np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1)) / np.sqrt((X**2).sum(1)).max()
        self.L, self.K, self.c = len(X), positions, exploration * math.log(rounds)
        self.active = [[] for _ in range(self.K)]
        self.n, self.s = np.zeros((self.K, self.L), int), np.zeros((self.K, self.L), int)

    def radius(self, k, x):
        return math.sqrt(self.c / (1 + self.n[k, x]))

    def choose(self, k, allowed):
        candidates = [x for x in self.active[k] if x in allowed]
        if not candidates:
            return min(allowed)
        index = {x: (self.s[k, x] / self.n[k, x] if self.n[k, x] else 0.0) + 2 * self.radius(k, x) for x in candidates}
        return min(candidates, key=lambda x: (-index[x], x))

    def rank(self):
        self.chosen, slate, left = [], [], set(range(self.L))
        for k in range(self.K):
            covered = np.zeros(self.L, bool)
            for x in self.active[k]:
                covered |= self.D[x] <= self.radius(k, x)
            while not covered.all():
                self.active[k].append(int(np.argmin(covered)))
                covered |= self.D[self.active[k][-1]] <= self.radius(k, self.active[k][-1])
            self.chosen.append(self.choose(k, set(range(self.L))))
            slate.append(self.chosen[k] if self.chosen[k] in left else self.choose(k, left))
            left.discard(slate[k])
        return slate

    def learn(self, items, clicks):
        for k, x in enumerate(self.chosen):
            self.n[k, x] += 1
            self.s[k, x] += int(clicks[k] and items[k] == x)


TWINS["ranked-zooming"] = RankedZooming


class UniRank:
    """Sections 4 and 5 of Gauthier et al. 2022, with s_bar from its definition."""

    def __init__(self, features, positions, rounds, rng):
        self.L, self.K, self.rng, self.t, self.known = len(features), positions, rng, 0, b""
        self.w = np.zeros((self.L, self.L), int)

    def leader(self):
        """Sets until K positions are filled, and all other items; in a set by how many an item beats less how many beat it."""
        beats, left, sets = self.w > self.w.T, np.ones(self.L, bool), []
        excess = beats.sum(axis=1) - beats.sum(axis=0)
        while sum(map(len, sets)) < self.K:
            best = min((self.closed(i, left, beats) for i in np.flatnonzero(left)), key=np.sum)
            sets.append(sorted(np.flatnonzero(best).tolist(), key=lambda i: (-excess[i], i)))
            left &= ~best
        return sets, sorted(np.flatnonzero(left).tolist(), key=lambda i: (-excess[i], i))

    def closed(self, i, among, beats):
        """The smallest set with this item each of whose items has s_hat > 0 against all others."""
        some, before = np.arange(self.L) == i, 0
        while some.sum() > before:
            before = some.sum()
            some |= among & ~beats[some].all(axis=0)
        return some

    def optimistic(self, j, i):
        total = int(self.w[i, j] + self.w[j, i])
        p = self.w[j, i] / total  # (1 + s_hat) / 2; items of different sets have been compared
        level = math.log(self.t) + 3 * math.log(math.log(self.t)) if self.t > 2 else 0.0
        low, high = p, 1.0
        for _ in range(45):
            q = (low + high) / 2
            low, high = (q, high) if total * kl(p, q) <= level else (low, q)
        return 2 * low - 1

    def rank(self):
        self.t += 1
        if self.known != self.w.tobytes():
            self.known, self.elected = self.w.tobytes(), self.leader()
        (sets, left), self.shown, c = self.elected, [], 0
        while c < len(sets):
            this, step = sets[c], 1
            if c + 1 < len(sets):
                if any(self.optimistic(j, i) > 1e-12 for i in this for j in sets[c + 1]):
                    this, step = this + sets[c + 1], 2
            elif left:
                better = (j for j in left if any(self.optimistic(j, i) > 1e-12 for i in this))
                this = [*this, *itertools.islice(better, 1)]
            self.shown.append(this)
            c += step
        items = []
        for one in self.shown:
            drawn = list(one)
            for n in range(min(len(drawn), self.K - len(items))):
                if len(drawn) - n > 1:
                    other = n + int(self.rng.random() * (len(drawn) - n))
                    drawn[n], drawn[other] = drawn[other], drawn[n]
            items += drawn[: self.K - len(items)]
        return items

    def learn(self, items, clicks):
        clicked = {a for a, c in zip(items, clicks, strict=True) if c}
        for one in self.shown:
            for i in one:
                for j in one:
                    if i in clicked and j not in clicked:
                        self.w[i, j] += 1


TWINS["unirank"] = UniRank
