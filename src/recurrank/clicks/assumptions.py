"""Check whether a click model satisfies the paper's assumptions, by enumeration or by a search for a counterexample.

| paper | here |
|---|---|
| Assumption 1 (perm): chi(A, k) depends only on the *set* of the items above k | ``order_free`` |
| Assumption 2 (decrease): chi(A, k+1) <= chi(A, k) | ``decreasing`` |
| Assumption 3 (min): chi(A, k) >= chi(A*, k) | ``least_at_best`` |
| equation (maximizer): no ranking has more expected clicks than A* | ``best_is_best`` |

The paper needs the first three. Without the fourth, it measures regret against a ranking that is not the best one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints, as_count
from recurrank.clicks.model import ClickModel
from recurrank.seeds import stream

ROUNDING = 1e-9
"""Differences below this are rounding, not counterexamples."""


class Finding(NamedTuple):
    """Whether one property holds.

    ``proved`` means that every ranking was checked (or that a counterexample was found); otherwise ``holds`` means
    that a search found none. ``counterexample`` is a sentence, ``rankings`` are the rankings in it.
    """

    holds: bool
    proved: bool
    counterexample: str = ""
    rankings: tuple[tuple[int, ...], ...] = ()


class Report(NamedTuple):
    """The findings on one model and number of positions."""

    order_free: Finding
    decreasing: Finding
    least_at_best: Finding
    best_is_best: Finding

    @property
    def suits_recurrank(self) -> bool:
        """Whether Assumptions 1 to 3 hold, so that Theorem 1 applies."""
        return self.order_free.holds and self.decreasing.holds and self.least_at_best.holds


def check(model: ClickModel, positions: int, *, limit: int = 50_000, tries: int = 3_000, seed: int = 0) -> Report:
    """Check a model on rankings of ``positions`` of its items.

    Every ranking is checked if there are at most ``limit`` of them; otherwise ``tries`` random ones, their
    reorderings and their neighbours are.

    >>> from recurrank.clicks import Cascade, PositionBased
    >>> check(Cascade([0.9, 0.5, 0.1]), positions=2).suits_recurrank
    True
    >>> check(PositionBased([0.9, 0.5], examination=[0.5, 1.0]), positions=2).decreasing.counterexample
    'in ranking (0, 1), position 2 is examined with probability 1 and position 1 with 0.5'
    """
    positions = as_count("positions", positions)
    best = model.best(positions)
    every = math.perm(len(model.attraction), positions) <= limit
    witness = _Witness(model, best)
    candidates = permutations(range(len(model.attraction)), positions) if every else _search(witness, positions, tries, seed)
    for ranking in candidates:
        witness.look(ranking)
    return witness.report(every)


class _Witness:
    """Checks rankings and stores the first counterexample to each property."""

    def __init__(self, model: ClickModel, best: Ints) -> None:
        self.model = model
        self.best = tuple(int(a) for a in best)
        self.best_chi = model.examine(best)
        self.best_clicks = float(model.expected(best).sum())
        self.found: dict[str, Finding] = {}
        self.prefixes: dict[tuple[int, frozenset[int]], tuple[float, tuple[int, ...]]] = {}

    def look(self, ranking: tuple[int, ...]) -> Floats:
        chi = self.model.examine(np.array(ranking))
        for k, value in enumerate(chi):
            other, where = self.prefixes.setdefault((k, frozenset(ranking[:k])), (float(value), ranking))
            if abs(other - value) > ROUNDING:
                self._note(
                    "order_free",
                    f"position {k + 1} is examined with probability {value:.6g} in ranking {ranking} and {other:.6g} in "
                    f"{where}, which has the same items above it",
                    ranking,
                    where,
                )
            if k and chi[k] > chi[k - 1] + ROUNDING:
                self._note(
                    "decreasing",
                    f"in ranking {ranking}, position {k + 1} is examined with probability {value:.6g} and position {k} "
                    f"with {chi[k - 1]:.6g}",
                    ranking,
                )
            if value < self.best_chi[k] - ROUNDING:
                self._note(
                    "least_at_best",
                    f"position {k + 1} is examined with probability {value:.6g} in ranking {ranking}, less than "
                    f"{self.best_chi[k]:.6g} in the ranking {self.best} by attraction",
                    ranking,
                )
        clicks = float(chi @ self.model.attraction[list(ranking)])
        if clicks > self.best_clicks + ROUNDING:
            self._note(
                "best_is_best",
                f"ranking {ranking} has {clicks:.6g} expected clicks, the ranking {self.best} by attraction "
                f"{self.best_clicks:.6g}",
                ranking,
            )
        return chi

    def report(self, every: bool) -> Report:
        return Report(*(self.found.get(name, Finding(holds=True, proved=every)) for name in Report._fields))

    def _note(self, name: str, sentence: str, *rankings: tuple[int, ...]) -> None:
        self.found.setdefault(name, Finding(False, True, sentence, rankings))


def _search(witness: _Witness, positions: int, tries: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Rankings that are likely to be counterexamples: the extremes, random ones, neighbours and reorderings of all these."""
    model, rng = witness.model, stream(seed, "assumptions")
    order = np.argsort(-model.attraction, kind="stable")
    base = [order[:positions], order[-positions:], order[:positions][::-1], order[-positions:][::-1]]
    for trial in range(tries):
        if trial < len(base):
            ranking = base[trial].copy()
        elif trial % 2:  # near the best one
            ranking = order[:positions].copy()
            item = rng.integers(len(order))
            if item not in ranking:
                ranking[rng.integers(positions)] = item
        else:
            ranking = rng.choice(len(order), positions, replace=False)
        yield tuple(int(a) for a in ranking)
        for _ in range(2):  # the same items above some position, in another order
            head = rng.permutation(ranking[: rng.integers(1, positions + 1)])
            yield tuple(int(a) for a in (*head, *ranking[len(head) :]))
