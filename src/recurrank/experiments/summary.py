"""Summaries of the runs: means, standard errors, curves, growth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank.clicks.optimum import EXACT, FOUND
from recurrank.experiments.experiment import Result

Published = dict[tuple[str, str, int], tuple[float, float]]
"""Regret and seconds by environment, ranker and horizon."""


class Curve(NamedTuple):
    """A ranker's regret over time, with standard errors if there are several runs."""

    ranker: str
    rounds: Ints
    regret: Floats
    error: Floats | None


class Row(NamedTuple):
    """A row of the paper's tables, with our numbers and the published ones."""

    environment: str
    ranker: str
    rounds: int
    runs: int
    regret_mean: float
    regret_se: float | None
    seconds_mean: float
    paper_regret: float | None
    paper_seconds: float | None
    optimum: str


def summary(results: Iterable[Result], published: Published | None = None) -> list[Row]:
    """Means and standard errors over the runs, with published numbers of the same horizon beside them."""
    rows = []
    for (environment, ranker), group in grouped(results).items():
        final = np.array([result.regret[-1] for result in group])
        rounds = group[0].rounds
        paper = (published or {}).get((environment, ranker, rounds))
        rows.append(
            Row(
                environment=environment,
                ranker=ranker,
                rounds=rounds,
                runs=len(group),
                regret_mean=float(final.mean()),
                regret_se=standard_error(final),
                seconds_mean=float(np.mean([result.seconds for result in group])),
                paper_regret=paper[0] if paper else None,
                paper_seconds=paper[1] if paper else None,
                optimum=EXACT if all(result.optimum == EXACT for result in group) else FOUND,
            )
        )
    return rows


def curves(results: Iterable[Result], intervals: bool = False) -> dict[str, list[Curve]]:
    """Mean regret curves with standard errors, or with half the width of Student's 95 % intervals, by environment."""
    from scipy.stats import t

    figures: dict[str, list[Curve]] = {}
    for (environment, ranker), group in grouped(results).items():
        regret = np.array([result.regret for result in group])
        spread = regret.std(axis=0, ddof=1) / np.sqrt(len(group)) if len(group) > 1 else None
        if intervals and spread is not None:
            spread *= float(t.ppf(0.975, len(group) - 1))
        figures.setdefault(environment, []).append(Curve(ranker, group[0].checkpoints, regret.mean(axis=0), spread))
    return figures


def grouped(results: Iterable[Result]) -> dict[tuple[str, str], list[Result]]:
    """Results by environment and ranker."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.environment, result.ranker), []).append(result)
    return groups


def standard_error(values: Floats) -> float | None:
    """Standard error of the mean; None for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def growth(curve: Curve) -> float:
    """The exponent p of regret ~ t^p over the last tenth of the horizon's logarithm: 1 is linear, 0 has stopped growing."""
    start = curve.rounds[-1] / 10
    late = (curve.rounds >= start) & (curve.regret > 0)
    if late.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(curve.rounds[late]), np.log(curve.regret[late]), 1)[0])
