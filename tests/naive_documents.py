"""The rankers of documents, literally: from their papers, one product and one sum at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import minimize


def preferences(clicks):
    """Pairs (preferred, other) of positions: clicked ones over the unclicked above the last click and the next below it."""
    if not any(clicks):
        return []
    last = max(k for k, clicked in enumerate(clicks) if clicked)
    seen = range(min(last + 2, len(clicks)))
    return [(i, j) for i in seen if clicks[i] for j in seen if not clicks[j]]


def luce(scores, order):
    """The probability of a slate: at each position by softmax over the documents that are left."""
    left, probability = list(range(len(scores))), 1.0
    for item in order:
        highest = max(scores[i] for i in left)
        probability *= math.exp(scores[item] - highest) / sum(math.exp(scores[i] - highest) for i in left)
        left.remove(item)
    return probability


class PDGD:
    def __init__(self, dim, positions, rng, learning_rate=0.1, decay=1.0):
        self.theta, self.positions, self.rng, self.eta, self.decay = np.zeros(dim), positions, rng, learning_rate, decay

    def rank(self, features):
        self.features, self.scores = features, [float(np.dot(x, self.theta)) for x in features]
        noisy = [score - math.log(self.rng.standard_exponential()) for score in self.scores]
        self.slate = sorted(range(len(features)), key=lambda i: -noisy[i])[: self.positions]
        return self.slate

    def learn(self, clicks):
        pairs = preferences(clicks)
        step = np.zeros(len(self.theta))
        for i, j in pairs:
            d, other = self.slate[i], self.slate[j]
            exchanged = list(self.slate)
            exchanged[i], exchanged[j] = other, d
            there, here = luce(self.scores, exchanged), luce(self.scores, self.slate)
            a, b = math.exp(self.scores[d]), math.exp(self.scores[other])
            step += there / (here + there) * a * b / (a + b) ** 2 * (self.features[d] - self.features[other])
        if pairs:
            self.theta += self.eta * step
            self.eta *= self.decay


MASK = (1 << 48) - 1


def direction(seed, candidate, dim):
    """A random direction: normal numbers as ratios of uniform ones of drand48's generator, scaled to length 1."""
    state = (seed ^ (candidate * 0x5DEECE66D)) & MASK

    def uniform():
        nonlocal state
        state = (state * 25214903917 + 11) & MASK
        return state

    for _ in range(4):
        uniform()
    normal = []
    while len(normal) < dim:
        u, v = (uniform() + 1) / 2**48, 1.7156 * (uniform() / 2**48 - 0.5)
        if v * v <= -4 * u * u * math.log(u):
            normal.append(v / u)
    vector = np.array(normal)
    return vector / math.sqrt(float(vector @ vector))


class Dueling:
    """What DBGD, MGD and P-MGD share: candidates around theta, and a step to the mean of those that win."""

    def __init__(self, dim, positions, rng, candidates, learning_rate=0.01, decay=1.0, tau=3.0):
        self.theta, self.positions, self.rng, self.tau = np.zeros(dim), positions, rng, tau
        self.eta, self.decay, self.teams = learning_rate, decay, candidates + 1

    def rankings(self, features):
        """The ranking of theta and of each candidate, all documents."""
        seed = int(self.rng.random() * 2**48)
        zero = np.zeros(len(self.theta))
        self.directions = [direction(seed, c, len(self.theta)) if c else zero for c in range(self.teams)]
        scored = [[float(np.dot(x, self.theta + u)) for x in features] for u in self.directions]
        return [sorted(range(len(features)), key=lambda i, s=scores: -s[i]) for scores in scored]

    def step(self, winners):
        if winners:
            self.theta += self.eta * sum(self.directions[c] for c in winners) / len(winners)
            self.eta *= self.decay


class MGD(Dueling):
    """Team drafts; DBGD with one candidate."""

    def rank(self, features):
        rankings, size = self.rankings(features), min(self.positions, len(features))
        slate, self.team, turn = [], [], []
        while len(slate) < size and len({tuple(ranking[: len(slate) + 1]) for ranking in rankings}) == 1:
            slate.append(rankings[0][len(slate)])
            self.team.append(None)
        while len(slate) < size:
            if not turn:
                turn = list(range(self.teams))
                for c in range(self.teams - 1, 0, -1):
                    other = int(self.rng.random() * (c + 1))
                    turn[c], turn[other] = turn[other], turn[c]
            team = turn.pop(0)
            slate.append(next(item for item in rankings[team] if item not in slate))
            self.team.append(team)
        return slate

    def learn(self, clicks):
        count = [sum(clicked for clicked, team in zip(clicks, self.team, strict=True) if team == c) for c in range(self.teams)]
        self.step([c for c in range(1, self.teams) if count[c] > count[0]])


class PMGD(Dueling):
    """Probabilistic multileaving, credit by enumerating who may have contributed each clicked document."""

    def rank(self, features):
        rankings, slate, self.credit = self.rankings(features), [], []
        while len(slate) < min(self.positions, len(features)):
            left = [[(1 / (r + 1.0) ** self.tau, i) for r, i in enumerate(ranking) if i not in slate] for ranking in rankings]
            mass = [sum(weight for weight, _ in those) for those in left]
            c = int(self.rng.random() * self.teams)
            bar, reached = self.rng.random() * mass[c], 0.0
            for weight, drawn in left[c]:
                item, reached = drawn, reached + weight
                if reached > bar:
                    break
            chances = [next(weight for weight, i in left[c] if i == item) / mass[c] for c in range(self.teams)]
            self.credit.append([chance / sum(chances) for chance in chances])
            slate.append(item)
        return slate

    def learn(self, clicks):
        clicked = [k for k, there in enumerate(clicks) if there]
        ahead = np.zeros(self.teams)
        for who in itertools.product(range(self.teams), repeat=len(clicked)):
            chance = math.prod(self.credit[k][c] for k, c in zip(clicked, who, strict=True))
            ahead += [chance * np.sign(who.count(c) - who.count(0)) for c in range(self.teams)]
        self.step([c for c in range(1, self.teams) if ahead[c] > 1e-12])


class PairRank:
    def __init__(self, dim, positions, rng, width=0.1, ridge=0.1):
        self.theta, self.positions, self.rng, self.width, self.ridge = np.zeros(dim), positions, rng, width, ridge
        self.pairs, self.inverse, self.answers, self.next = [], np.eye(dim) / ridge, 0, 8
        self.known = []

    def certain(self, x, y):
        apart = x - y
        return 1 / (1 + math.exp(-apart @ self.theta)) - self.width * math.sqrt(apart @ self.inverse @ apart) > 0.5

    def rank(self, features):
        self.features = features
        order = sorted(range(len(features)), key=lambda i: -float(np.dot(features[i], self.theta)))
        blocks, block = [], []
        for r, i in enumerate(order):
            block.append(i)
            if all(self.certain(features[a], features[b]) for a in order[: r + 1] for b in order[r + 1 :]):
                blocks.append(block)
                block = []
        self.slate = []
        for block in blocks:
            for k in range(len(block)):
                if len(self.slate) < self.positions:
                    other = k + int(self.rng.random() * (len(block) - k))
                    block[k], block[other] = block[other], block[k]
                    self.slate.append(block[k])
        return self.slate

    def learn(self, clicks):
        if any(clicks):
            last = max(k for k, clicked in enumerate(clicks) if clicked)
            single = []
            for k in range(min(last + 2, len(clicks))):
                partner = next((j for j in reversed(single) if clicks[j] != clicks[k]), None)
                if partner is None:
                    single.append(k)
                else:
                    single.remove(partner)
                    liked, other = (k, partner) if clicks[k] else (partner, k)
                    self.pairs.append(self.features[self.slate[liked]] - self.features[self.slate[other]])
        self.answers += 1
        if self.answers >= self.next:
            self.estimate()
            self.next = self.answers + min(2000, max(8, int(0.04 * self.answers)))

    def estimate(self):
        pairs = np.array(self.pairs).reshape(-1, len(self.theta))

        def loss(theta):
            value = np.logaddexp(0, -pairs @ theta).sum() + self.ridge / 2 * theta @ theta
            return value, self.ridge * theta - pairs.T @ (1 / (1 + np.exp(pairs @ theta)))

        self.theta = minimize(
            loss, np.zeros(len(self.theta)), jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-10}
        ).x
        self.inverse = np.linalg.inv(self.ridge * np.eye(len(self.theta)) + pairs.T @ pairs)
