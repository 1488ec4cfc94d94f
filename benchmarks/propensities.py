"""Logged probabilities against drawn frequencies: ``python -m benchmarks.propensities [DRAWS] [RANKER ...]``, by default 10^6.

From one state of each ranker that computes probabilities, slates are drawn repeatedly in a compiled loop: chi-squared tests of
slates against their joint probabilities, and of the items at each position against the marginal ones; cells with fewer than
five expected draws are merged. The product of conditional probabilities, where they are known, has to be the joint one.
``requests`` is Anchored with candidates of a request. With about eighty tests, p-values below 10^-4 would indicate an error.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit
from scipy import stats

import recurrank as rr
from recurrank._addresses import call
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.ranker import registered

ITEMS, POSITIONS = 8, 4
CODES = ITEMS**POSITIONS


def learned(name: str) -> rr.Ranker:
    """A ranker after 60 rounds."""
    problem = rr.synthetic(items=ITEMS, dim=3, seed=0)
    truth = {"attraction": problem.attraction} if name == "oracle" else {}
    ranker = rr.rankers.make(name, features=problem.features, positions=POSITIONS, rounds=5000, seed=0, **truth)
    rr.simulate(ranker, rr.clicks.PositionBased(problem.attraction, examination=1 / np.arange(1, POSITIONS + 1)), 60, seed=1)
    return ranker


def paths(state: Any, shared: tuple[str, ...], path: str = "") -> Iterator[str]:
    """Every array of a state that may change, as an expression."""
    for name, part in zip(type(state)._fields, state, strict=True):
        if name not in shared and isinstance(part, tuple):
            yield from paths(part, shared, f"{path}.{name}")
        elif name not in shared and isinstance(part, np.ndarray):
            yield f"{path}.{name}"


def restorer(ranker: rr.Ranker) -> Any:
    """A compiled function that copies the arrays of one state of this ranker into another one."""
    lines = [f"    one{path}[...] = other{path}" for path in paths(ranker.state, ranker.from_catalogue)]
    space: dict[str, Any] = {}
    exec("\n".join(["def restore(one, other):", *lines]), space)
    return njit(space["restore"])


def drawer(ranker: rr.Ranker) -> Any:
    """A compiled loop that draws slates from one state and counts them by their items, as digits of a number."""
    restore = restorer(ranker)

    @njit
    def draw(state, saved, drawing, drawn, count, marginal, joint, given, draws):  # type: ignore[no-untyped-def]
        for _ in range(draws):
            restore(state, saved)
            call(drawing.recall)
            call(drawing.rank)
            code = 0
            for k in range(len(drawn.slate.items)):
                code = code * ITEMS + drawn.slate.items[k]
            if count[code] == 0:
                call(drawing.tell)
                call(drawing.tell_given)
                joint[code] = drawn.joint[0]
                marginal[code], given[code] = drawn.marginal, drawn.given
            count[code] += 1

    return draw


def chi_squared(seen: Any, probability: Any, draws: int) -> float:
    """The p-value of counts against probabilities."""
    often = draws * probability >= 5
    rest = max(0.0, 1 - float(probability[often].sum()))
    observed = [*seen[often].tolist(), *[draws - seen[often].sum()] * (rest > 5 / draws)]
    expected = np.array([*(draws * probability[often]).tolist(), *[draws * rest] * (rest > 5 / draws)])
    if len(expected) < 2:
        return 1.0 if rest > 0 or seen[often].sum() == draws else 0.0
    return float(stats.chisquare(observed, expected * sum(observed) / expected.sum()).pvalue)


class Counted:
    """The number of draws of each slate, and its probabilities."""

    def __init__(self) -> None:
        self.count, self.joint = np.zeros(CODES, np.int64), np.zeros(CODES)
        self.marginal, self.given = np.zeros((CODES, POSITIONS)), np.full((CODES, POSITIONS), np.nan)

    def test(self) -> tuple[float, float, bool]:
        """p-values of whole slates and of positions (the least times their number); whether conditional probabilities fit."""
        draws, seen = int(self.count.sum()), np.flatnonzero(self.count)
        by_position = []
        for k in range(POSITIONS):
            item, probability = seen // ITEMS ** (POSITIONS - 1 - k) % ITEMS, np.zeros(ITEMS)
            probability[item] = self.marginal[seen, k]
            if not np.isnan(probability).any():  # unknown for some slates of ranked bandits
                by_position.append(chi_squared(np.bincount(item, self.count[seen], ITEMS), probability, draws))
        known = seen[~np.isnan(self.given[seen]).any(axis=1)]
        fits = np.allclose(self.given[known].prod(axis=1), self.joint[known], rtol=1e-9, atol=0)
        return chi_squared(self.count, self.joint, draws), min(1.0, len(by_position) * min(by_position, default=1.0)), fits


def of_catalogue(name: str, draws: int) -> Counted:
    """Slates of all items."""
    ranker, found = learned(name), Counted()
    draw, saved = drawer(ranker), ranker.copy().state
    calls = ranker.calls
    draw(calls.state, saved, calls.drawing, calls.round, found.count, found.marginal, found.joint, found.given, draws)
    return found


def of_requests(draws: int) -> Counted:
    """Slates of six candidates of a request."""
    rng, found = np.random.default_rng(0), Counted()
    ranker = rr.Anchored(dim=3, positions=POSITIONS, rounds=5000, seed=0)
    for _ in range(200):
        slate = ranker.rank(rng.normal(size=(6, 3)))
        ranker.learn(slate, rng.random(POSITIONS) < 0.3)
    candidates, account = rng.normal(size=(6, 3)), float(ranker.state.account[0])
    for _ in range(draws):
        ranker.state.account[0] = account
        items = ranker.answered(candidates, propensity=False).items
        code = int(items @ ITEMS ** np.arange(POSITIONS - 1, -1, -1))
        found.count[code] += 1
    told = 0
    while told < np.count_nonzero(found.count):  # the probabilities, of each slate once
        ranker.state.account[0] = account
        answer = ranker.answered(candidates)
        code = int(answer.items @ ITEMS ** np.arange(POSITIONS - 1, -1, -1))
        told += found.joint[code] == 0 and found.count[code] > 0
        found.joint[code], found.marginal[code] = answer.joint, answer.propensity
    return found


def main(draws: int, names: list[str]) -> None:
    kinds = registered()
    silent = [name for name, kind in kinds.items() if kind.compiled_propensity is None]
    for name in names or [*itertools.filterfalse(silent.__contains__, sorted(kinds)), "requests"]:
        began = time.perf_counter()
        found = of_requests(draws) if name == "requests" else of_catalogue(name, draws)
        whole, single, fits = found.test()
        mark = "passes" if min(whole, single) > 1e-4 and fits else "FAILS"
        kind = "draws nothing at random" if name in kinds and kinds[name].compiled_propensity is certain else "draws"
        slates = np.count_nonzero(found.count)
        print(
            f"{name:15s} {kind}: {draws:,} draws, {slates} slates: slates p = {whole:.3f}, positions p = {single:.3f}: {mark} "
            f"({time.perf_counter() - began:.0f} s with compilation)",
            flush=True,
        )
    print(f"only sampling tells: {', '.join(silent)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, sys.argv[2:])
