"""Literal, slow versions of everything that is compiled, written from the papers.

The compiled code must agree with these round by round on the same random stream.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from recurrank.catalogue.rows import Rows
from recurrank.design.optimal import optimal_design
from recurrank.design.spanner import spanner_design
from recurrank.seeds import stream

# ---------------------------------------------------------------- designs


def leverages(features, support, weights):
    """X' Q^+ x of every row, with Q the weighted sum of x x' over the support."""
    features = np.asarray(features, dtype=np.float64)
    chosen = features[support]
    moments = sum(w * np.outer(x, x) for w, x in zip(weights, chosen, strict=True))
    inverse = np.linalg.pinv(moments, rcond=1e-12, hermitian=True)
    return np.array([x @ inverse @ x for x in features])


def wolfe_atwood_step(points, weights):
    """One Wolfe-Atwood step: weights after it, everything computed anew."""
    rank = points.shape[1]
    moments = sum(w * np.outer(x, x) for w, x in zip(weights, points, strict=True))
    inverse = np.linalg.inv(moments)
    lever = np.array([x @ inverse @ x for x in points])
    supported = np.flatnonzero(weights > 0)
    high = int(np.argmax(lever))
    low = int(supported[np.argmin(lever[supported])])
    if lever[high] - rank >= rank - lever[low]:
        j, step = high, (lever[high] / rank - 1) / (lever[high] - 1)
    else:
        j = low
        step = -weights[j] / (1 - weights[j])
        if lever[j] > 1:
            step = max(step, (lever[j] / rank - 1) / (lever[j] - 1))
    after = (1 - step) * weights
    after[j] += step
    return np.maximum(after, 0)


def products(features, vector):
    return np.array([sum(float(a) * float(b) for a, b in zip(row, vector, strict=True)) for row in features])


# ---------------------------------------------------------------- click models
# For each: sample() with the draws in the order of the story, and pattern(), the probability of one pattern of clicks
# on one list, from the story alone. Attractions are those of the listed items.


def document_sample(alpha, rng):
    return [rng.random() < a for a in alpha]


def document_pattern(alpha, clicks):
    return math.prod(a if c else 1 - a for a, c in zip(alpha, clicks, strict=True))


def position_sample(alpha, rng, examination):
    return [rng.random() < examination[k] * a for k, a in enumerate(alpha)]


def position_pattern(alpha, clicks, examination):
    return math.prod(
        examination[k] * a if c else 1 - examination[k] * a for k, (a, c) in enumerate(zip(alpha, clicks, strict=True))
    )


def cascade_sample(alpha, rng):
    return _walk(alpha, rng, lambda k, clicked: not clicked)


def cascade_pattern(alpha, clicks):
    return dependent_pattern(alpha, clicks, [0.0] * len(alpha))


def _walk(alpha, rng, onward):
    """A user who reads from the top; ``onward(k, clicked)`` decides, drawing as it likes, whether they go on."""
    clicks = [False] * len(alpha)
    for k, a in enumerate(alpha):
        clicks[k] = bool(rng.random() < a)
        if not onward(k, clicks[k]):
            break
    return clicks


def dependent_sample(alpha, rng, continuation):
    return _walk(alpha, rng, lambda k, clicked: not clicked or rng.random() < continuation[k])


def _chain_pattern(alpha, clicks, stay):
    """P(clicks) for a user who reads from the top and goes on with probability stay(k, clicked)."""
    last = max((k for k, c in enumerate(clicks) if c), default=-1)
    total = 0.0
    for read in range(1, len(alpha) + 1):  # the user reads exactly this many results
        if read <= last:
            continue
        p = 1.0
        for k in range(read):
            p *= alpha[k] if clicks[k] else 1 - alpha[k]
            p *= stay(k, clicks[k]) if k < read - 1 else (1 - stay(k, clicks[k]) if read < len(alpha) else 1.0)
        total += p
    return total


def dependent_pattern(alpha, clicks, continuation):
    return _chain_pattern(alpha, clicks, lambda k, clicked: continuation[k] if clicked else 1.0)


def browsing_sample(alpha, rng, examination):
    last, clicks = len(examination) - 1, []
    for k, a in enumerate(alpha):
        clicks.append(bool(rng.random() < examination[k][last] * a))
        last = k if clicks[-1] else last
    return clicks


def browsing_pattern(alpha, clicks, examination):
    last, p = len(examination) - 1, 1.0
    for k, (a, c) in enumerate(zip(alpha, clicks, strict=True)):
        click = examination[k][last] * a
        p *= click if c else 1 - click
        last = k if c else last
    return p


def bayesian_sample(alpha, rng, satisfaction, continuation):
    def onward(k, clicked):
        if clicked and rng.random() < satisfaction[k]:
            return False
        return rng.random() < continuation

    return _walk(alpha, rng, onward)


def bayesian_pattern(alpha, clicks, satisfaction, continuation):
    return _chain_pattern(alpha, clicks, lambda k, clicked: continuation * (1 - satisfaction[k]) if clicked else continuation)


def chain_sample(alpha, rng, alpha1, alpha2, alpha3):
    def onward(k, clicked):
        r = alpha[k]
        return rng.random() < (alpha2 * (1 - r) + alpha3 * r if clicked else alpha1)

    return _walk(alpha, rng, onward)


def chain_pattern(alpha, clicks, alpha1, alpha2, alpha3):
    return _chain_pattern(alpha, clicks, lambda k, clicked: alpha2 * (1 - alpha[k]) + alpha3 * alpha[k] if clicked else alpha1)


def mixture_sample(alpha, rng, examination, share):
    if rng.random() < share:
        return position_sample(alpha, rng, examination)
    return cascade_sample(alpha, rng)


def mixture_pattern(alpha, clicks, examination, share):
    return share * position_pattern(alpha, clicks, examination) + (1 - share) * cascade_pattern(alpha, clicks)


def _hidden(alpha, hiding):
    return [math.prod(1 - hiding * a for a in alpha[:k]) for k in range(len(alpha))]


def setwise_sample(alpha, rng, hiding):
    return position_sample(alpha, rng, _hidden(alpha, hiding))


def setwise_pattern(alpha, clicks, hiding):
    return position_pattern(alpha, clicks, _hidden(alpha, hiding))


def factored_sample(alpha, rng, chi):
    return [rng.random() < chi[k] * a for k, a in enumerate(alpha)]


def factored_pattern(alpha, clicks, chi):
    return position_pattern(alpha, clicks, chi)


def marginals(pattern, length):
    """The click probability of every position, by summing over all patterns of clicks."""
    total = np.zeros(length)
    for clicks in itertools.product([False, True], repeat=length):
        total += pattern(clicks) * np.array(clicks)
    return total


# ---------------------------------------------------------------- RecurRank


class Block:
    """One call of Algorithm 1."""

    def __init__(self, phase, items, positions, visits):
        self.phase, self.items, self.positions = phase, items, positions
        self.visits = visits  # [(a, T(a))], most wanted first
        self.data = []  # D: (item, click) at the first position
        self.tally = {a: 0 for a, _ in visits}  # how often each explored item is in D


class RecurRank:
    """Algorithm 1 as printed, with the notes' decisions: the draw of an explored item is by what is left of T(a)."""

    def __init__(self, features, positions, rounds, seed, delta=None, design="optimal", elimination="proof", tolerance=0.05):
        self.features = np.asarray(features, dtype=np.float64)
        self.K, self.design, self.elimination, self.tolerance = positions, design, elimination, tolerance
        self.delta = 1 / math.sqrt(rounds) if delta is None else delta
        self.rng = stream(seed, "ranker")
        first = self.call(1, list(range(len(self.features))), list(range(positions)))
        leaders = [int(a) for a in self.rng.permutation([a for a, _ in first.visits])][:positions]
        while len(leaders) < positions:
            a = int(self.rng.integers(len(self.features)))
            leaders += [a] if a not in leaders else []
        first.items = leaders + [a for a in first.items if a not in leaders]
        self.blocks = [first]

    def call(self, phase, items, positions):
        """Lines 1-3."""
        visits = []
        if len(items) > 1:
            ordered = np.array(sorted(items))
            rows = Rows(self.features, ordered)
            design = optimal_design(rows, self.tolerance) if self.design == "optimal" else spanner_design(rows, self.rng)
            size = design.value if self.design == "optimal" else design.rank
            delta = self.delta / (2 * self.K * phase * (phase + 1))
            for place, weight in zip(design.support, design.weights, strict=True):
                wanted = size * weight / (2 * (2.0**-phase) ** 2) * math.log(len(items) / delta)
                visits.append((wanted, int(ordered[place])))
            visits.sort(key=lambda pair: -pair[0])
        return Block(phase, items, positions, [(a, math.ceil(wanted)) for wanted, a in visits])

    def rank(self):
        """Line 4."""
        slate = [None] * self.K
        self.tried = []
        for block in self.blocks:
            first, m = block.positions[0], len(block.positions)
            leaders = block.items[:m]
            tried = None
            if block.visits:
                left = [(a, wanted - block.tally[a]) for a, wanted in block.visits]
                at = int(self.rng.random() * sum(n for _, n in left))
                for a, n in left:
                    if at < n:
                        tried = a
                        break
                    at -= n
                slate[first] = tried
                rest = [a for a in leaders if a != tried]
                for k, a in zip(block.positions[1:], rest, strict=False):
                    slate[k] = a
            else:
                for k, a in zip(block.positions, leaders, strict=True):
                    slate[k] = a
            self.tried.append(tried)
        return slate

    def learn(self, clicks):
        """Lines 4-8."""
        after = []
        for block, tried in zip(self.blocks, self.tried, strict=True):
            if tried is None:
                after.append(block)
                continue
            block.data.append((tried, bool(clicks[block.positions[0]])))
            block.tally[tried] += 1
            if len(block.data) == sum(wanted for _, wanted in block.visits):
                after += self.split(block)
            else:
                after.append(block)
        self.blocks = after

    def split(self, block):
        """Lines 5-8."""
        d = self.features.shape[1]
        V, S = np.zeros((d, d)), np.zeros(d)
        for a, click in block.data:
            V += np.outer(self.features[a], self.features[a])
            S += self.features[a] * click
        theta = np.linalg.pinv(V, rcond=1e-12, hermitian=True) @ S
        width = 2 * 2.0**-block.phase
        value = {a: round(float(self.features[a] @ theta), 10) for a in block.items}
        kept = list(block.items)
        m = len(block.positions)
        if self.elimination == "proof":  # drop a as soon as m items are estimated 2 Delta better
            mth = sorted(value.values(), reverse=True)[m - 1]
            kept = [a for a in kept if not mth - value[a] >= width]
        kept.sort(key=lambda a: (-value[a], a))
        parts, part = [], []
        for i, a in enumerate(kept):
            part.append(a)
            if i == len(kept) - 1 or value[a] - value[kept[i + 1]] >= width:
                parts.append(part)
                part = []
        blocks, k = [], block.positions[0]
        for part in parts:
            positions = [p for p in range(k, k + len(part)) if p <= block.positions[-1]]
            if positions:
                blocks.append(self.call(block.phase + 1, part, positions))
            k += len(part)
        return blocks


def position_based_round(ranker, attraction, examination, users):
    """One round of the whole simulation, in plain Python: what the compiled loop is compared with."""
    slate = ranker.rank()
    clicks = position_sample([attraction[a] for a in slate], users, examination)
    ranker.learn(clicks)
    return slate, clicks


# ---------------------------------------------------------------- the other algorithms

from tests.naive_club import CLUBCascade  # noqa: E402
from tests.naive_field import TWINS as FIELD  # noqa: E402
from tests.naive_rankers import TWINS  # noqa: E402

TWINS |= {**FIELD, "club-cascade": CLUBCascade}
