"""Maximising a likelihood: EM with safeguarded extrapolation, priors learned in between, restarts.

Every accepted step raises the objective, the logarithm of the likelihood plus that of the prior. EM does so by itself; the
extrapolation (SQUAREM, Varadhan and Roland 2008, scheme S3) is accepted only if it does not lower the objective.

| paper | here |
|---|---|
| theta_0, theta_1, theta_2 | ``here``, ``once``, ``twice`` |
| r, v | ``first``, ``second`` |
| alpha | ``length`` |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.special import expit, logit

from recurrank._arrays import Floats
from recurrank.logs.fit.family import EDGE, Expected, Family

ROUNDS = 1000
"""Most extrapolated steps between two updates of the priors."""
STAGES = 5
"""Most updates of the priors."""
SAME = 1.2
"""Learning of priors ends when no strength changes by more than this factor."""
TRIAL = 4
"""Extrapolated steps from each start, before only the best continues."""
LOOSE = 100
"""Factor of the tolerance while priors are still being learned."""
PER_MEMBER = 500
"""Least observations that a tolerance counts per probability that the log has information on. Chance moves a likelihood by half
a nat per probability, so with many of them smaller gains mean nothing."""
FALL = 1e-9
"""Relative losses of the objective up to this are rounding."""

Values = list[Floats]


class Expects(Protocol):
    """A click model with its statistics of a log."""

    families: list[Family]
    observations: float

    def expect(self, values: Values) -> tuple[float, list[Expected]]:
        """The E-step: the log-likelihood, and expected successes and trials of each family's members."""

    def starts(self) -> Sequence[Values]:
        """Start values; several if the likelihood may have several maxima."""


@dataclass
class Climb:
    """The course of a maximisation: the last values, and the objective, in nats of the whole log, after each step.

    Attributes:
        values: the values of each family.
        objective: its value after each step; it never falls between two updates of the priors.
        updates: the steps at which the objective changed: priors were updated, or positions added (``composite.py``).
        converged: whether the last step gained less than the tolerance.

    """

    values: Values
    objective: list[float] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    converged: bool = False

    def then(self, more: Climb) -> None:
        """Append a climb of another objective that starts from these values."""
        self.updates.append(len(self.objective))
        _extend(self, more)


def fit(model: Expects, tolerance: float, learn_priors: bool = True, rehearsal: Expects | None = None) -> Climb:
    """The best values of a model's families; ``tolerance`` is the gain per observation at which a climb ends.

    ``rehearsal`` is the same model on a part of the log. If it is given, it finds the best start and learns the priors, which
    are learned once more on the whole log.
    """
    if rehearsal is not None:
        way, stages = fit(rehearsal, tolerance), 1
        for family, learned in zip(model.families, rehearsal.families, strict=True):
            family.mean, family.strength = learned.mean, learned.strength
        way.updates.append(len(way.objective))
    else:
        starts, stages = model.starts(), STAGES
        tried = [climb(model, start, tolerance, TRIAL if len(starts) > 1 else 0) for start in starts]
        way = max(tried, key=lambda trial: trial.objective[-1])
    for _ in range(stages if learn_priors else 0):
        _extend(way, climb(model, way.values, LOOSE * tolerance, ROUNDS))
        _, expected = model.expect(way.values)
        changes = [family.learn(v, e) for family, v, e in zip(model.families, way.values, expected, strict=True)]
        way.updates.append(len(way.objective))
        if max(changes) < SAME:
            break
    _extend(way, climb(model, way.values, tolerance, ROUNDS))
    return way


def climb(model: Expects, start: Values, tolerance: float, rounds: int) -> Climb:
    """Steps from a start until one gains less than ``tolerance`` per observation, or too little per probability."""
    here = [np.clip(value, EDGE, 1 - EDGE) for value in start]
    likelihood, expected = model.expect(here)
    reached, once = _improved(model, here, likelihood, expected)
    way = Climb(here, [reached])
    seen = sum(np.count_nonzero(family.trials) for family in expected)
    least = tolerance * max(model.observations, PER_MEMBER * seen)
    for _ in range(rounds):
        middle, twice = _step(model, once)
        far = _extrapolate(here, once, twice)
        better, onward = (-np.inf, twice) if far is None else _step(model, far)
        if far is None or not better >= middle:
            far = twice
            better, onward = _step(model, twice)
        if better < reached - FALL * abs(reached):
            raise RuntimeError(f"the objective fell from {reached} to {better}")  # a bug in an E-step
        gain = better - reached
        here, once, reached = far, onward, better
        way.objective += [middle, better]
        if gain < least:
            way.converged = True
            break
    way.values = here
    return way


def _step(model: Expects, values: Values) -> tuple[float, Values]:
    """The objective at these values, and the values after one EM step."""
    return _improved(model, values, *model.expect(values))


def _improved(model: Expects, values: Values, likelihood: float, expected: list[Expected]) -> tuple[float, Values]:
    objective = likelihood + sum(family.penalty(v) for family, v in zip(model.families, values, strict=True))
    return objective, [family.improve(e) for family, e in zip(model.families, expected, strict=True)]


def _extrapolate(here: Values, once: Values, twice: Values) -> Values | None:
    """Extrapolate two EM steps on the logit scale; None if the result is no further than they are."""
    start, one, two = (logit(np.concatenate(values)) for values in (here, once, twice))
    first = one - start
    second = (two - one) - first
    # alpha = -|r| / |v|
    length = -np.linalg.norm(first) / max(float(np.linalg.norm(second)), 1e-300)
    if length > -1.0 or not np.isfinite(length):
        return None
    # theta = theta_0 - 2 alpha r + alpha^2 v
    far = expit(start - 2 * length * first + length**2 * second)
    parts = np.split(np.clip(far, EDGE, 1 - EDGE), np.cumsum([len(value) for value in here])[:-1])
    return list(parts)


def _extend(way: Climb, more: Climb) -> None:
    way.values, way.converged = more.values, more.converged
    way.objective += more.objective
