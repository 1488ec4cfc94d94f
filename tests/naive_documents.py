"""The rankers of documents, literally: from their papers, one product and one sum at a time."""

from __future__ import annotations

import math

import numpy as np


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
