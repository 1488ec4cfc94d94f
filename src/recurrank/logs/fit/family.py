"""Families of probabilities, and priors that are learned from the log itself (empirical Bayes).

A family is many probabilities of one kind: the attractions of all items, the examination of a position by query. Each has a
parent (its query, its position), and probability v_i has the prior Beta(s m, s (1 - m)) with its parent's mean m and the
family's strength s, which counts like s observations. An item that was never shown has its parent's mean; a family whose
members do not differ has a large s and is one number per parent.

Values are posterior modes on the logit scale, which for a Beta prior is what EM gives with s m and s (1 - m) added to the
counts. With the logit theta_i of v_i, the information I_i of the log about it, and the prior's pull removed,

    theta'_i = theta_i + s (v_i - m) / I_i  ~  Normal(mu_parent, tau^2 + 1 / I_i),        s = 1 / (tau^2 m (1 - m)),

and tau^2 maximises this marginal likelihood. I_i is the sum of squared scores over the log; the score of one observation
is, by Fisher's identity, its expected successes less v_i times its expected trials. (A beta-binomial marginal likelihood
explained held-out pages slightly worse than this normal one: attractions are spread like logit-normal numbers, not like Betas.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from recurrank._arrays import Floats, Ints

WEAKEST, STRONGEST = 0.5, 1e6
"""Limits of a strength, in observations."""
EDGE = 1e-9
"""Least distance of a probability from 0 and 1, so that its logit is finite."""
MEAN_EDGE = 1e-4
"""Least distance of a prior mean from 0 and 1."""
PULL = 3.0
"""Most that a logit moves when the prior's pull is removed: with little information it would move far."""
SPREADS = (float(np.log(1e-6)), float(np.log(16.0)))
"""Limits of the logarithm of tau^2."""
ENOUGH = 20_000
"""Most members that the choice of tau^2 uses."""


@dataclass
class Expected:
    """Expected counts of a family under the current values: one number per member."""

    ones: Floats
    trials: Floats
    squares: Floats


@dataclass
class Family:
    """Probabilities of one kind with a common prior.

    Attributes:
        name: the kind of probability.
        parent: the parent of each member.
        mean: the prior mean of each parent's members.
        strength: the weight of the prior, in observations.
        parameters: the effective number of free parameters, without those that the prior determines.

    """

    name: str
    parent: Ints
    mean: Floats
    strength: float = 2.0
    parameters: float = 0.0

    def begin(self) -> Floats:
        """The prior means, as a start."""
        return self.mean[self.parent].copy()

    def improve(self, expected: Expected) -> Floats:
        """The M-step: v = (ones + s m) / (trials + s)."""
        pseudo = self.strength * self.mean[self.parent]
        values: Floats = (expected.ones + pseudo) / (expected.trials + self.strength)
        return np.clip(values, EDGE, 1 - EDGE)

    def penalty(self, values: Floats) -> float:
        """The logarithm of the prior on the logit scale, up to a constant."""
        mean = self.mean[self.parent]
        return float(self.strength * (mean @ np.log(values) + (1 - mean) @ np.log1p(-values)))

    def learn(self, values: Floats, expected: Expected) -> float:
        """Set means and strength by marginal likelihood; return the factor by which the strength changed."""
        informed = expected.squares > EDGE
        if not informed.any():
            return 1.0
        parent, information, v, before = self.parent[informed], expected.squares[informed], values[informed], self.strength
        pull = before * (v - self.mean[parent]) / information
        theta, noise = logit(v) + np.clip(pull, -PULL, PULL), 1 / information
        part = slice(None, None, max(1, len(theta) // ENOUGH))
        result = minimize_scalar(
            lambda log_spread: -_marginal(theta[part], noise[part], parent[part], len(self.mean), float(np.exp(log_spread))),
            bounds=SPREADS,
            method="bounded",
            options={"xatol": 0.05},
        )
        spread = float(np.exp(result.x))
        means, free = _means(theta, noise, parent, len(self.mean), spread)
        self.mean = np.clip(expit(means), MEAN_EDGE, 1 - MEAN_EDGE)
        typical = self.mean[parent]
        self.strength = float(np.clip(1 / (spread * np.mean(typical * (1 - typical))), WEAKEST, STRONGEST))
        self.parameters = float(np.sum(information / (information + self.strength * v * (1 - v)))) + free
        return max(self.strength / before, before / self.strength)


def by_position(name: str, means: Floats, queries: int) -> Family:
    """A family with one member per query and cell. A cell is the parent of its members; with one query, all have one parent."""
    if queries == 1:
        return Family(name, np.zeros(len(means), np.int64), np.array([means.mean()]))
    return Family(name, np.tile(np.arange(len(means)), queries), means)


def _means(theta: Floats, noise: Floats, parent: Ints, parents: int, spread: float) -> tuple[Floats, float]:
    """Prior means by parent as logits, and their effective number of parameters: one if they differ only by chance.

    Each mean is shrunk to the overall mean, which has the weight of one member without noise.
    """
    weight = 1 / (spread + noise)
    total = np.bincount(parent, weight, parents)
    sums = np.bincount(parent, weight * theta, parents)
    overall = sums.sum() / total.sum()
    seen = total > 0
    others = int(seen.sum()) - 1
    if others < 1:
        return np.full(parents, overall), 1.0
    excess = float(np.sum((sums[seen] - total[seen] * overall) ** 2 / total[seen]))
    free = 1 + others * max(0.0, 1 - others / max(excess, 1e-300))
    shrunk: Floats = (sums + overall / spread) / (total + 1 / spread)
    return shrunk, free


def _marginal(theta: Floats, noise: Floats, parent: Ints, parents: int, spread: float) -> float:
    """The logarithm of the marginal likelihood of a spread tau^2, with means integrated out (restricted maximum likelihood)."""
    middle, _ = _means(theta, noise, parent, parents, spread)
    variance = spread + noise
    fit = -0.5 * np.sum(np.log(variance) + (theta - middle[parent]) ** 2 / variance)
    precision = np.bincount(parent, 1 / variance, parents)
    return float(fit - 0.5 * np.sum(np.log(precision[precision > 0])))
