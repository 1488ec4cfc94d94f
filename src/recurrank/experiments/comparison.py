"""What a suite found: tables with intervals and paired differences, a figure, LaTeX."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recurrank._frames import frame
from recurrank.experiments.experiment import Result
from recurrank.experiments.figures import pretty, regret_figure
from recurrank.experiments.report import warnings
from recurrank.experiments.summary import Published, Row, curves, grouped, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Interval(NamedTuple):
    """A mean over runs with Student's 95 % interval; the interval is infinite for a single run."""

    mean: float
    low: float
    high: float


class Difference(NamedTuple):
    """Regret of ``ranker`` less that of ``other``, run by run on the same problems and users."""

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

    """

    results: list[Result]
    published: Published = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """Means and standard errors, one row per environment and ranker."""
        return summary(self.results, self.published)

    def intervals(self) -> dict[tuple[str, str], Interval]:
        """The final regret by environment and ranker, with 95 % intervals."""
        return {key: interval(_final(group)) for key, group in grouped(self.results).items()}

    def differences(self) -> list[Difference]:
        """All pairs of rankers in each environment, paired by run: problems and users are the same for all rankers."""
        groups = grouped(self.results)
        pairs = [(a, b) for a, b in itertools.combinations(groups, 2) if a[0] == b[0]]
        return [Difference(*a, b[1], *interval(_final(groups[a]) - _final(groups[b]))) for a, b in pairs]

    def to_frame(self) -> Any:
        """A pandas DataFrame: one row per environment and ranker, with intervals."""
        rows = [
            {**row._asdict(), "low": found.low, "high": found.high}
            for row, found in zip(self.rows, self.intervals().values(), strict=True)
        ]
        return frame(rows).drop(columns=[] if self.published else ["paper_regret", "paper_seconds"])

    def to_latex(self) -> str:
        """A table with booktabs rules, intervals included."""
        lines = [r"\begin{tabular}{llrr}", r"\toprule", r"environment & ranker & regret & 95\,\% interval \\", r"\midrule"]
        for (environment, ranker), (mean, low, high) in self.intervals().items():
            cells = (environment, pretty(ranker), f"{mean:,.1f}", f"[{low:,.1f}, {high:,.1f}]")
            lines.append(" & ".join(cell.replace("_", r"\_").replace("^", r"\^{}") for cell in cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *(f"\\\\ {line}" for line in warnings(self.rows)), ""])

    def figure(self) -> Figure:
        """Regret curves with standard errors, one panel per environment."""
        return regret_figure(curves(self.results))

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


def interval(values: np.ndarray[Any, Any]) -> Interval:
    """Student's 95 % interval of a mean.

    >>> [round(value, 3) for value in interval(np.array([1.0, 2.0, 3.0]))]
    [2.0, -0.484, 4.484]
    """
    from scipy.stats import t

    mean, count = float(values.mean()), len(values)
    if count < 2:
        return Interval(mean, -np.inf, np.inf)
    half = float(t.ppf(0.975, count - 1) * values.std(ddof=1) / np.sqrt(count))
    return Interval(mean, mean - half, mean + half)


def _final(group: list[Result]) -> np.ndarray[Any, Any]:
    return np.array([result.regret[-1] for result in sorted(group, key=lambda result: result.run)])
