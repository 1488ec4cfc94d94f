"""What a suite found: tables with intervals and paired differences, a figure, LaTeX."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from recurrank._frames import frame
from recurrank.experiments.experiment import Failure, Result
from recurrank.experiments.figures import pretty, regret_figure
from recurrank.experiments.report import number, tex, warnings
from recurrank.experiments.summary import Published, Row, curves, grouped, summary
from recurrank.seeds import stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Method = Literal["t", "bootstrap"]
"""How intervals are made."""
REGRET = "regret"
"""The measure that every run has."""
SAMPLES = 10_000
"""Of a bootstrap."""


class Interval(NamedTuple):
    """A mean over runs with a 95 % interval, Student's or by bootstrap; the interval is infinite for a single run."""

    mean: float
    low: float
    high: float


class Test(NamedTuple):
    """A paired t-test that two rankers lose equally much, over the runs.

    Attributes:
        p: of this test alone; NaN for a single run.
        holm: corrected for all tests of the comparison (Holm 1979): below 0.05 where they differ significantly.

    """

    environment: str
    ranker: str
    other: str
    difference: float
    p: float
    holm: float


class Difference(NamedTuple):
    """Regret (or another measure) of ``ranker`` less that of ``other``, run by run on the same problems and users."""

    environment: str
    ranker: str
    other: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """What the rankers lost.

    Attributes:
        results: one row per environment, ranker and run.
        published: published numbers to show beside ours.
        failures: runs that raised an error, where these did not end the suite.

    """

    results: list[Result]
    published: Published = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """Means and standard errors, one row per environment and ranker."""
        return summary(self.results, self.published)

    def intervals(self, method: Method = "t", measure: str = REGRET) -> dict[tuple[str, str], Interval]:
        """The final regret by environment and ranker, with 95 % intervals: Student's, or by bootstrap over the runs.

        ``measure`` is another final value in place of regret: of queries, ``"ndcg"`` or ``"online"``.
        """
        return {key: interval(_final(group, measure), method) for key, group in grouped(self.results).items()}

    def differences(self, method: Method = "t", measure: str = REGRET) -> list[Difference]:
        """All pairs of rankers in each environment, paired by run: problems and users are the same for all rankers."""
        groups = grouped(self.results)
        pairs = [(a, b) for a, b in itertools.combinations(groups, 2) if a[0] == b[0]]
        return [
            Difference(*a, b[1], *interval(_final(groups[a], measure) - _final(groups[b], measure), method)) for a, b in pairs
        ]

    def tests(self, measure: str = REGRET) -> list[Test]:
        """Paired t-tests of all pairs of rankers in each environment, with Holm's correction over all of them."""
        from scipy.stats import ttest_rel

        groups, found = grouped(self.results), []
        for a, b in ((a, b) for a, b in itertools.combinations(groups, 2) if a[0] == b[0]):
            first, second = _final(groups[a], measure), _final(groups[b], measure)
            gap = float((first - second).mean())
            if len(first) < 2:
                p = float("nan")
            elif np.ptp(first - second) == 0:  # the same gap in every run
                p = 1.0 if gap == 0 else 0.0
            else:
                p = float(ttest_rel(first, second).pvalue)
            found.append(Test(*a, b[1], gap, p, float("nan")))
        corrected = holm(np.array([test.p for test in found]))
        return [test._replace(holm=float(value)) for test, value in zip(found, corrected, strict=True)]

    def reproduce(self) -> str:
        """All that it takes to get the same numbers again: versions, data and the seed of every run."""
        from recurrank.experiments.report import Report, reproduce

        return reproduce(self.results, Report("Rankers compared", ""))

    def to_frame(self, method: Method = "t") -> Any:
        """A pandas DataFrame: one row per environment and ranker, with intervals of regret."""
        rows = [
            {**row._asdict(), "low": found.low, "high": found.high}
            for row, found in zip(self.rows, self.intervals(method).values(), strict=True)
        ]
        return frame(rows).drop(columns=[] if self.published else ["paper_regret", "paper_seconds"])

    def to_latex(self, method: Method = "t", measure: str = REGRET) -> str:
        """A table with booktabs rules, intervals included; a dash where a single run has none."""
        head = rf"environment & ranker & {tex(measure)} & 95\,\% interval \\"
        lines, digits = [r"\begin{tabular}{llrr}", r"\toprule", head, r"\midrule"], 1 if measure == REGRET else 4
        for (environment, ranker), (mean, low, high) in self.intervals(method, measure).items():
            span = f"[{number(low, digits)}, {number(high, digits)}]" if np.isfinite(low) else "-"
            lines.append(" & ".join([tex(environment), tex(pretty(ranker)), number(mean, digits), span]) + r" \\")
        said = [rf"\\ {tex(line)}" for line in warnings(self.rows)]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *said, ""])

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
            f"<td style='text-align:right'>{mean:,.1f}</td><td>[{low:,.1f}, {high:,.1f}]</td></tr>"
            for (environment, ranker), (mean, low, high) in self.intervals().items()
        )
        head = "<tr><th>environment</th><th>ranker</th><th>regret</th><th>95 % interval</th></tr>"
        said = "".join(f"<p>{html.escape(line)}</p>" for line in warnings(self.rows))
        return f"<table>{head}{cells}</table>{said}"


def holm(p: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """P-values corrected for their number by Holm's step-down procedure; NaN stays, and is not counted.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
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


def _final(group: list[Result], measure: str) -> np.ndarray[Any, Any]:
    ordered = sorted(group, key=lambda result: result.run)
    if measure == REGRET:
        return np.array([result.regret[-1] for result in ordered])
    known = ordered[0].measures
    if measure not in known:
        raise ValueError(f"measure: {measure!r} is unknown here; choose from {', '.join([REGRET, *known])}")
    return np.array([result.measures[measure][-1] for result in ordered])
