"""The results of a suite: tables with intervals and paired differences, a figure, LaTeX."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from recurrank._arrays import Floats
from recurrank._frames import frame
from recurrank.experiments.experiment import Failure, Result
from recurrank.experiments.figures import pretty, regret_figure
from recurrank.experiments.report import booktabs, number, warnings
from recurrank.experiments.summary import Published, Row, curves, grouped, summary
from recurrank.seeds import stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Method = Literal["t", "bootstrap"]
"""The method of intervals."""
REGRET = "regret"
"""The measure that every run has."""
SAMPLES = 10_000
"""Samples of a bootstrap."""


class Interval(NamedTuple):
    """A mean over runs with a 95 % interval, Student's or by bootstrap; the interval is infinite for a single run."""

    mean: float
    low: float
    high: float

    def span(self, digits: int) -> str:
        """The interval with this number of decimals; a dash for a single run, which has none."""
        return f"[{number(self.low, digits)}, {number(self.high, digits)}]" if np.isfinite(self.low) else "-"


class Test(NamedTuple):
    """A paired t-test over the runs that two rankers have equal losses.

    Attributes:
        p: of this test alone; NaN for a single run.
        holm: corrected for all tests of the comparison (Holm 1979): below 0.05 if they differ significantly.
        runs: the number of runs that both have; only these are compared.

    """

    environment: str
    ranker: str
    other: str
    difference: float
    p: float
    holm: float
    runs: int


class Difference(NamedTuple):
    """Regret (or another measure) of ``ranker`` less that of ``other``, run by run on the same problems and users.

    ``runs`` is the number of runs that both have: only these are compared.
    """

    environment: str
    ranker: str
    other: str
    mean: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Comparison:
    """The results of several rankers.

    Attributes:
        results: one row per environment, ranker and run.
        published: published numbers to show beside ours.
        failures: runs that raised an error, if these did not end the suite.
        command: the command or call that made it.

    """

    results: list[Result]
    published: Published = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    command: str = ""

    @property
    def rows(self) -> list[Row]:
        """Means and standard errors, one row per environment and ranker."""
        return summary(self.results, self.published)

    def intervals(self, method: Method = "t", measure: str = REGRET) -> dict[tuple[str, str], Interval]:
        """The final regret by environment and ranker, with 95 % intervals: Student's, or by bootstrap over the runs.

        ``measure`` is another final value in place of regret: for queries, ``"ndcg"`` or ``"online"``.
        """
        return {key: interval(_values(_final(group, measure)), method) for key, group in grouped(self.results).items()}

    def differences(self, method: Method = "t", measure: str = REGRET) -> list[Difference]:
        """All pairs of rankers in each environment, paired by run: problems and users are the same for all rankers."""
        pairs = self._pairs(measure)
        return [Difference(*names, *interval(gaps, method), len(gaps)) for names, gaps in pairs]

    def tests(self, measure: str = REGRET) -> list[Test]:
        """Paired t-tests of all pairs of rankers in each environment, with Holm's correction over all of them."""
        from scipy.stats import ttest_1samp

        tests = []
        for names, gaps in self._pairs(measure):
            mean = float(gaps.mean())
            if len(gaps) < 2:
                p = float("nan")
            elif np.ptp(gaps) == 0:  # the same gap in every run
                p = 1.0 if mean == 0 else 0.0
            else:
                p = float(ttest_1samp(gaps, 0).pvalue)
            tests.append(Test(*names, mean, p, float("nan"), len(gaps)))
        corrected = holm(np.array([test.p for test in tests]))
        return [test._replace(holm=float(value)) for test, value in zip(tests, corrected, strict=True)]

    def _pairs(self, measure: str) -> Iterator[tuple[tuple[str, str, str], Floats]]:
        """Environment, ranker and other ranker, and their differences in the runs that both have."""
        groups = {key: _final(group, measure) for key, group in grouped(self.results).items()}
        for (key, first), (other, second) in itertools.combinations(groups.items(), 2):
            if key[0] == other[0]:
                common = sorted(first.keys() & second.keys())
                if not common:
                    runs = " and ".join(f"{name} has {sorted(own)}" for (_, name), own in ((key, first), (other, second)))
                    raise ValueError(f"results: {key[0]}: {runs}; give results with runs in common")
                yield (*key, other[1]), np.array([first[run] - second[run] for run in common])

    def reproduce(self) -> str:
        """Everything needed to reproduce the numbers: versions, data and the seed of every run."""
        from recurrank.experiments.report import Report, reproduce

        return reproduce(self.results, Report("Rankers compared", "", command=self.command))

    def to_frame(self, method: Method = "t") -> Any:
        """A pandas DataFrame: one row per environment and ranker, with intervals of regret."""
        rows = [
            {**row._asdict(), "low": bounds.low, "high": bounds.high}
            for row, bounds in zip(self.rows, self.intervals(method).values(), strict=True)
        ]
        return frame(rows).drop(columns=[] if self.published else ["paper_regret", "paper_seconds"])

    def to_latex(self, method: Method = "t", measure: str = REGRET) -> str:
        """A table with booktabs rules, with intervals; a dash for the interval of a single run."""
        digits = 1 if measure == REGRET else 4
        rows = [
            [environment, pretty(ranker), number(estimate.mean, digits), estimate.span(digits)]
            for (environment, ranker), estimate in self.intervals(method, measure).items()
        ]
        return booktabs(["environment", "ranker", measure, "95 % interval"], rows, warnings(self.rows))

    def figure(self, width: float | None = None, height: float | None = None) -> Figure:
        """Mean regret with Student's 95 % intervals over the runs as bands, one panel per environment.

        ``width`` and ``height`` are in inches: 3.35 is a column of a paper, 6.75 the page; by default 3.35 per panel, and 2.5.
        """
        drawn = regret_figure(curves(self.results, intervals=True))
        if width is not None or height is not None:
            usual_width, usual_height = drawn.get_size_inches()
            drawn.set_size_inches(width or usual_width, height or usual_height)
        return drawn

    def _repr_html_(self) -> str:
        import html

        cells = "".join(
            f"<tr><td>{html.escape(environment)}</td><td>{html.escape(pretty(ranker))}</td>"
            f"<td style='text-align:right'>{number(estimate.mean, 1)}</td><td>{estimate.span(1)}</td></tr>"
            for (environment, ranker), estimate in self.intervals().items()
        )
        head = "<tr><th>environment</th><th>ranker</th><th>regret</th><th>95 % interval</th></tr>"
        remarks = "".join(f"<p>{html.escape(line)}</p>" for line in warnings(self.rows))
        return f"<table>{head}{cells}</table>{remarks}"


def holm(p: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """P-values corrected for their number by Holm's step-down procedure; NaN stays, and is not counted.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    valid = np.flatnonzero(~np.isnan(p))
    order = valid[np.argsort(p[valid], kind="stable")]
    corrected = np.full(len(p), np.nan)
    # max_{j <= i} (m - j + 1) p_(j), at most 1
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return corrected


def interval(values: np.ndarray[Any, Any], method: Method = "t") -> Interval:
    """The 95 % interval of a mean: Student's, or between the percentiles of 10,000 bootstrap samples with a fixed seed.

    >>> [round(value, 3) for value in interval(np.array([1.0, 2.0, 3.0]))]
    [2.0, -0.484, 4.484]
    """
    from scipy.stats import t

    if method not in ("t", "bootstrap"):
        raise ValueError(f"method: {method!r} is unknown; choose from 't' and 'bootstrap'")
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return Interval(mean, -np.inf, np.inf)
    if method == "bootstrap":
        drawn = stream(0, "bootstrap").integers(count, size=(SAMPLES, count))
        low, high = np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])
        return Interval(mean, float(low), float(high))
    half = float(t.ppf(0.975, count - 1) * values.std(ddof=1) / np.sqrt(count))
    return Interval(mean, mean - half, mean + half)


def _final(group: list[Result], measure: str) -> dict[int, float]:
    """The final value of every run, by its number."""
    measures = group[0].measures
    if measure != REGRET and measure not in measures:
        raise ValueError(f"measure: {measure!r} is unknown here; choose from {', '.join([REGRET, *measures])}")
    ordered = sorted(group, key=lambda result: result.run)
    return {result.run: float((result.regret if measure == REGRET else result.measures[measure])[-1]) for result in ordered}


def _values(final: dict[int, float]) -> Floats:
    return np.array(list(final.values()))
