"""A ranker with 20 % fewer clicks than the baseline, in 13 environments: the share of clicks kept, with and without a ramp.

The baseline is the best order. The ranker's order is the one of several hundred random orders that comes closest to 80 % of its
clicks. If that is not close, it is mixed, slate by slate, with the best order or that of the least attractive items, so that
the ranker has 80 %. If no order has so few (some cascades), it uses the order with the fewest, and counts as if it had 80 %.
Clicks per slate are drawn with replacement from a sample of the click model.
The brake and the ramp are checked every 100 slates, by the library's own compiled test.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.measure import Figure, at_least, at_most
from recurrank._compiled import compiled
from recurrank.clicks import ClickModel
from recurrank.experiments.robustness import ENVIRONMENTS
from recurrank.rollout import Arm, ramp
from recurrank.rollout.sequence import least

RUNS, HORIZON, EVERY, SAMPLE = 20, 50_000, 100, 2_000
NULLS, NULL_HORIZON = 1_000, 10_000
CASES = ((0.1, 1.0), (0.5, 1.0), (0.1, 0.02), (0.5, 0.02), (0.9, 0.02))
"""Shares and budgets; with a budget of 1 there is no ramp."""
ALPHA, MARGIN, WORSE, ENOUGH = 0.05, 0.05, 0.8, 0.97
SPLITS = 10
"""Splits of MovieLens; the other environments are drawn by the seed."""


def run() -> list[Figure]:
    """20 runs in each of 13 environments; then rankers that are as good as the baseline."""
    pairs = [(name, _Pair(environment, run, name)) for name, environment in environments().items() for run in range(RUNS)]
    figures = [_kept(pairs, share, budget) for share, budget in CASES]
    return [*figures, *_false(pairs), *_reached(pairs)]


def environments() -> dict[str, Any]:
    """The robustness suite and MovieLens."""
    from recurrank.experiments import paper

    return {**ENVIRONMENTS, "movielens": paper.set_ups()["movielens"]}


class _Pair:
    """Clicks of many users on the baseline and on the ranker, and their expected number."""

    def __init__(self, environment: Any, run: int, name: str) -> None:
        seed, rng = np.random.SeedSequence(run, spawn_key=(len(name),)), np.random.default_rng(run)
        model = environment.source.setting(run % SPLITS, seed, environment.positions).model
        best = model.best(environment.positions)
        bad = closest(model, best, WORSE, rng)
        worst = np.ascontiguousarray(np.argsort(model.attraction)[: len(best)])
        self.positions, self.seed = len(best), run
        self.rate, found = (float(model.expected(order).sum()) for order in (best, bad))
        other = worst if found > WORSE * self.rate else best
        away = found - float(model.expected(other).sum())
        # if not even these have so few clicks, they come closest
        mixed = float(np.clip((found - WORSE * self.rate) / away, 0, 1)) if away else 0.0
        self.good = _clicks(model, best, SAMPLE, rng)
        self.bad = np.append(
            _clicks(model, bad, round((1 - mixed) * SAMPLE), rng), _clicks(model, other, round(mixed * SAMPLE), rng)
        )

    def braked(
        self, good: Any, bad: Any, share: float, budget: float, seed: int, horizon: int = HORIZON
    ) -> tuple[int, int, int]:
        """Slates of the ranker; the slate after which the brake stopped, and after which the share was reached (or 0)."""
        shares = np.array(ramp(share, budget))
        found: tuple[int, int, int] = _braked(good, bad, shares, budget, float(self.positions), horizon, seed)
        return found


def _clicks(model: ClickModel, order: Any, count: int, rng: np.random.Generator) -> Any:
    return np.array([float(model.sample(order, rng).sum()) for _ in range(count)])


def closest(model: ClickModel, good: Any, part: float, rng: np.random.Generator) -> Any:
    """The order, of several hundred random ones, whose expected clicks are closest to this part of the best order's."""
    best, items = float(model.expected(good).sum()), len(model.attraction)
    found, least_away = good, np.inf
    for _ in range(300):
        order = good.copy()
        for k in np.flatnonzero(rng.random(len(good)) < rng.random()):
            order[k] = rng.choice(np.setdiff1d(rng.integers(0, items, 4 * len(good)), order))
        rng.shuffle(order) if rng.random() < 0.5 else None
        away = abs(float(model.expected(order).sum()) / best - part)
        if away < least_away:
            found, least_away = order, away
    return found


@compiled
def _after(arm: Arm, clicks: float) -> Arm:
    predicted = arm.clicks / arm.slates if arm.slates else 0.0
    return Arm(arm.slates + 1, arm.clicks + clicks, arm.deviation + (clicks - predicted) ** 2)


@compiled
def _braked(good: Any, bad: Any, shares: Any, budget: float, most: float, horizon: int, seed: int) -> tuple[int, int, int]:
    np.random.seed(seed)
    baseline, ranker = Arm(0, 0.0, 0.0), Arm(0, 0.0, 0.0)
    step, shown, reached, limit = 0, 0, 0, math.log(len(shares) / ALPHA)
    for first in range(0, horizon, EVERY):
        for _ in range(EVERY):
            if np.random.random() < shares[step]:
                ranker = _after(ranker, bad[np.random.randint(len(bad))])
                shown += 1
            else:
                baseline = _after(baseline, good[np.random.randint(len(good))])
        left = 1 - MARGIN
        enough = Arm(baseline.slates, left * baseline.clicks, left**2 * baseline.deviation)
        if least(enough, ranker, 0.0, most) >= limit:
            return shown, first + EVERY, reached
        if step + 1 < len(shares):
            left = 1 - budget / shares[step + 1]
            enough = Arm(baseline.slates, left * baseline.clicks, left**2 * baseline.deviation)
            if least(ranker, enough, 0.0, most) >= limit:
                step, baseline, ranker = step + 1, Arm(0, 0.0, 0.0), Arm(0, 0.0, 0.0)
                reached = first + EVERY if step + 1 == len(shares) else 0
    return shown, 0, reached


def _kept(pairs: list[Any], share: float, budget: float) -> Figure:
    kept, stops = [], []
    for name, pair in pairs:
        shown, stop, _ = pair.braked(pair.good, pair.bad, share, budget, pair.seed)
        # after the stop the baseline is shown
        kept.append((1 - shown * (1 - WORSE) / HORIZON, name))
        stops.append(stop or math.inf)
    enough = 100 * float(np.mean([share_kept >= ENOUGH for share_kept, _ in kept]))
    median, late = (float(np.quantile(stops, q, method="higher")) for q in (0.5, 0.95))
    least_kept, where = min(kept)
    never = 100 * float(np.mean(np.isinf(stops)))
    detail = (
        f"stopped after {median:,.0f} slates (median), {late:,.0f} (95 %), {never:.1f} % of runs not within {HORIZON:,}; "
        f"kept {100 * least_kept:.2f} % at worst ({where})"
    )
    ramped = f", budget {budget:g}" if budget < 1 else ""
    return at_least(
        f"brake, share {share:g}{ramped}, {len(kept)} runs: clicks >= 97 % of the baseline's", enough, 95, "% of runs", detail
    )


def _false(pairs: list[Any]) -> list[Figure]:
    """Stops of rankers with exactly 5 % fewer clicks, the margin: the worst that should not be stopped."""
    figures = []
    for share, budget in ((0.5, 1.0), (0.5, 0.02)):
        wrong = 0
        for n in range(NULLS):
            _, pair = pairs[n % len(pairs)]
            wrong += pair.braked(pair.good, (1 - MARGIN) * pair.good, share, budget, n, NULL_HORIZON)[1] > 0
        title = f"brake, share {share:g}{_ramped(budget)}: {NULLS:,} rankers at the margin that are ever stopped"
        figures.append(at_most(title, 100 * wrong / NULLS, 5, "%", f"{NULL_HORIZON:,} slates, looked at after every {EVERY}"))
    return figures


def _ramped(budget: float) -> str:
    return f", budget {budget:g}" if budget < 1 else ""


def _reached(pairs: list[Any]) -> list[Figure]:
    """Slates until a ranker as good as the baseline gets its share of 50 %."""
    found: dict[str, list[float]] = {}
    for name, pair in pairs:
        reached = pair.braked(pair.good, pair.good, 0.5, 0.02, pair.seed, 4 * HORIZON)[2]
        found.setdefault(name, []).append(reached or math.inf)  # not within four times the horizon
    medians = {name: float(np.median(values)) for name, values in found.items()}
    title = "ramp to 50 %, budget 0.02: slates until a ranker as good as the baseline has it, median of environments"
    detail = ", ".join(f"{name} {slates:,.0f}" for name, slates in sorted(medians.items(), key=lambda pair: pair[1]))
    return [at_most(title, float(np.median(list(medians.values()))), HORIZON, "slates", detail)]
