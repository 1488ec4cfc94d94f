"""The literal twin of Anchored: strata in a dictionary, all answers as rows of lists, everything written out."""

from __future__ import annotations

import math

import numpy as np

from recurrank.rankers import anchored
from recurrank.rankers.engines import anchored_rounds, anchoring


def logistic(score):
    return 1 / (1 + math.exp(-min(max(score, -30.0), 30.0)))


class Anchored:
    """Draws as the ranker does: a matrix of normals at every estimate, one number per round, another where it explores."""

    def __init__(self, features, positions, rounds, rng, link="linear", discount=1.0, intercept=True, ridge=4.0):
        self.X, self.K, self.rng, self.link = np.asarray(features, float), positions, rng, link
        self.constant, self.ridge, self.discount = float(intercept), ridge, discount
        self.D = self.X.shape[1] + 1
        self.strata = {}  # (k, last click or -1, third) -> [V, b]
        self.scale = {}
        self.theta = np.zeros(self.D)
        self.shown, self.clicked, self.answered = np.zeros((3, positions))
        self.cuts = [[0.0, 0.0, 0.0] for _ in range(positions)]
        self.account, self.answers, self.next, self.again, self.estimated = 0.0, 0, 8, 64, 0
        self.kept = []
        self.f = [1.0, 1.0]
        self.anchor, self.JA = np.zeros(self.D), ridge * np.eye(self.D)
        self.J = self.JA
        self.prepare()

    def prepare(self):
        z = self.rng.standard_normal((anchored.FEW_SAMPLES if len(self.X) > anchored.LARGE else anchored.SAMPLES, self.D))
        root, anchor_root = (np.linalg.inv(np.linalg.cholesky(m)) for m in (self.J, self.JA))
        self.samples = [self.theta + row @ root for row in z]
        self.doubts = [self.anchor + row @ anchor_root for row in z]
        self.W, least = [], math.inf
        for k in range(self.K):
            worth = self.clicked[k] / self.shown[k] if self.shown[k] > 5 else 1 / (k + 1)
            least = min(least, min(max(worth, 1e-3), 1.5))
            self.W.append(least)

    def x(self, a):
        return np.concatenate([[self.constant], self.X[a]])

    def alpha(self, a, theta):
        score = float(self.x(a) @ theta)
        return logistic(score) if self.link == "logistic" else score

    def best(self, theta, candidates):
        return sorted(candidates, key=lambda a: -round(float(self.x(a) @ theta), 12))[: self.K]

    def rank(self):
        return self.rank_request(range(len(self.X)))

    def rank_request(self, candidates):
        order = self.best(self.theta, candidates)
        size = len(order)
        if self.rng.random() >= 0.2:
            return order
        s = int(self.rng.random() * len(self.samples))
        rival, sampled = self.best(self.doubts[s], candidates), self.doubts[s]
        loss = sum(self.W[k] * (self.alpha(rival[k], sampled) - self.alpha(order[k], sampled)) for k in range(size))
        self.account += max(loss, 0.0) * anchored_rounds.PAY
        most, y = 0.0, None
        for a in [*order, *(a for a in rival if a not in order)]:
            worth = (self.W[rival.index(a)] if a in rival else 0.0) - (self.W[order.index(a)] if a in order else 0.0)
            differ = abs(worth) * abs(self.alpha(a, sampled) - self.alpha(a, self.theta))
            if differ > most:
                most, y = differ, a
        if y is not None:
            first = [y, *(a for a in order if a != y)][:size]
            value = [
                sum(w * self.alpha(a, self.theta) for w, a in zip(self.W, slate, strict=False)) for slate in (order, first)
            ]
            price = max(value[0] - value[1], 0.0)
            if self.account >= price:
                self.account -= price
                return first
        return self.best(self.samples[s], candidates)

    def third(self, k, above):
        if k == 0:
            return 0
        cut = self.cuts[k]
        found = (above > cut[0]) + (above > cut[1])
        step = 0.05 * max(cut[2], 1e-3) / math.sqrt(1 + 0.01 * self.answers)
        for h in range(2):
            cut[h] += step * ((h + 1) / 3 - (1.0 if above < cut[h] else 0.0))
        cut[2] += (above - cut[2]) / min(self.answers + 1, 1000)
        return int(found)

    def learn(self, slate, clicks):
        last, above, rows = -1, 0.0, []
        unit = 1 / self.discount ** (self.answers + 1 - self.estimated)
        for k, (a, click) in enumerate(zip(slate, clicks, strict=True)):
            mu = max(self.alpha(a, self.theta), 0.0)
            g = (k, last, self.third(k, above))
            self.add(g, k, a, click, unit, unit)
            self.shown[k] += unit * mu
            self.clicked[k] += unit * click
            self.answered[k] += unit
            rows.append((g, k, a, click))
            above += mu
            last = k if click else last
        if self.link == "logistic" and len(self.kept) < anchored.KEEP:
            self.kept.append(rows)
        self.answers += 1
        if self.answers >= self.next:
            self.plan()

    def add(self, g, k, a, click, unit, weight):
        score = float(self.x(a) @ self.theta)
        mu = max(self.alpha(a, self.theta), 0.0)
        rate = (self.clicked[k] + 2 * unit) / (self.answered[k] + 10 * unit)
        p = max(self.scale.get(g, 1.0) * mu, rate / 2, 0.02)
        w = weight / (min(p, 0.9) * (1 - min(p, 0.9)))
        f = self.x(a)
        o = 0.0
        if self.link == "logistic":
            f = mu * (1 - mu) * self.x(a)
            o = mu - mu * (1 - mu) * score
        y = np.concatenate([[o], f])
        V, b = self.strata.setdefault(g, [np.zeros((self.D + 1,) * 2), np.zeros(self.D + 1)])
        V += w * np.outer(y, y)
        b += w * y * click

    def plan(self):
        if self.discount < 1:
            kept = self.discount ** (self.answers - self.estimated)
            for V, b in self.strata.values():
                V *= kept
                b *= kept
            self.shown *= kept
            self.clicked *= kept
            self.answered *= kept
        self.estimate()
        if self.link == "logistic" and self.again <= self.answers == len(self.kept):
            for _ in range(2):
                self.strata = {}
                for r, rows in enumerate(self.kept):
                    for row in rows:
                        self.add(*row, 1.0, self.discount ** (self.answers - 1 - r))
                self.estimate()
            self.again = self.answers + self.answers // 2
        self.prepare()
        lasting = min(self.answers, 1 / max(1 - self.discount, 1e-9))
        large = len(self.X) > anchored.LARGE
        wait = max(8, int(0.25 * lasting)) if large else min(anchored.MOST, max(8, int(anchored.GROW * lasting)))
        self.next, self.estimated = self.answers + wait, self.answers

    def scales(self, phi):
        """Each level shrunk to the one above: position, segment (one), with or without a click above, last click, third."""
        seen, clicked = {}, {}
        for (k, last, third), (V, b) in self.strata.items():
            for level in ((k,), (k, last >= 0, "either"), (k, last), (k, last, third)):
                seen[level] = seen.get(level, 0.0) + phi @ V @ phi
                clicked[level] = clicked.get(level, 0.0) + phi @ b

        def shrunk(level, prior, parent):
            return max(0.0, (clicked.get(level, 0.0) + prior * parent) / (seen.get(level, 0.0) + prior))

        by_position, segment, with_click, by_last, by_third = anchoring.PRIOR
        of_position, found = [1.0], {}
        for k in range(1, self.K):
            of_position.append(shrunk((k,), by_position, of_position[-1]))
        for k, last, third in self.strata:
            if k > 0:
                s = shrunk((k,), segment, of_position[k])
                s = shrunk((k, last >= 0, "either"), with_click, s)
                s = shrunk((k, last), by_last, s)
                found[k, last, third] = shrunk((k, last, third), by_third, s)
        return found

    def estimate(self):
        D, limit = self.D, self.D + 3 * math.sqrt(2 * self.D)
        VA, bA = np.zeros((D + 1, D + 1)), np.zeros(D + 1)
        for g, (V, b) in self.strata.items():
            if g[0] == 0:
                VA, bA = VA + V, bA + b
        JA, right = self.ridge * np.eye(D) + VA[1:, 1:], bA[1:] - VA[1:, 0]
        self.JA, self.anchor = JA, np.linalg.solve(JA, right)
        if all(g[0] == 0 for g in self.strata):
            self.theta, self.J, self.f, self.scale = self.anchor, JA, [1.0, 1.0], {}
            return
        theta, f = self.theta, self.f
        for turn in range(4):
            phi = np.concatenate([[1.0], theta])
            s = self.scales(phi)
            S, r, J = ([np.zeros(shape), np.zeros(shape)] for shape in ((D, D), D, (D, D)))
            for g, scale in s.items():
                V, b = self.strata[g]
                e = int(g[1] >= 0)
                S[e] = S[e] + scale**2 * V[1:, 1:]
                r[e] = r[e] + scale * b[1:] - scale**2 * V[1:, 0]
                image = (V @ phi)[1:]
                J[e] = J[e] + scale**2 * (V[1:, 1:] - np.outer(image, image) / (phi @ V @ phi + anchoring.KNOWN))
            for e in range(2):
                along = theta @ J[e] @ theta
                if along > 0:
                    J[e] = J[e] - np.outer(J[e] @ theta, J[e] @ theta) / along
            slope = JA @ theta - right + sum((S[e] @ theta - r[e]) / f[e] for e in range(2))
            step = np.linalg.solve(JA + J[0] / f[0] + J[1] / f[1], slope)
            if turn == 3 or slope @ step <= anchoring.NEAR:
                break
            theta = theta - step
        self.scale = s
        f = [self.inflation(S[e], r[e], J[e], limit) for e in range(2)]
        while True:
            theta = np.linalg.solve(JA + S[0] / f[0] + S[1] / f[1], right + r[0] / f[0] + r[1] / f[1])
            if (theta - self.anchor) @ JA @ (theta - self.anchor) <= limit:
                break
            f = [1.5 * one for one in f]
        self.theta, self.f, self.J = theta, f, JA + J[0] / f[0] + J[1] / f[1]

    def inflation(self, S, r, J, limit):
        """By bisection, with (A^-1 + f J^-1)^-1 = A - A (A + J / f)^-1 A."""
        A, differ = self.JA, self.anchor - np.linalg.solve(S + 1e-6 * np.eye(self.D), r)

        def disagreement(f):
            return differ @ (A - A @ np.linalg.solve(A + J / f, A)) @ differ

        if disagreement(1.0) <= limit:
            return 1.0
        low, high = 0.0, 40.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if disagreement(math.exp(middle)) > self.D else (low, middle)
        return math.exp(high)
