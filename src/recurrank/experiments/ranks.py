"""Comparison of rankers over many problems: mean ranks, and the critical difference between them (Demsar 2006).

Rankers are ranked within every block, a problem that all of them met: 1 for the best, ties get their mean rank. With k
rankers and N blocks, two mean ranks differ significantly at the 5 % level (Nemenyi's test) if they are further apart than

    CD = q sqrt(k (k + 1) / (6 N)),    q = the 95 % point of the studentised range over sqrt(2)
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats


class Ranks(NamedTuple):
    """Mean ranks over blocks, with tests of their differences.

    Attributes:
        names: of the rankers, the best mean rank first.
        ranks: their mean ranks.
        difference: the critical difference; infinite for a single block.
        p: of Friedman's test that all are alike; NaN for fewer than three rankers or two blocks.
        blocks: the number of blocks.

    """

    names: list[str]
    ranks: Floats
    difference: float
    p: float
    blocks: int

    def groups(self) -> list[tuple[int, int]]:
        """The longest runs of rankers, first and last, of which no two differ significantly."""
        runs: list[tuple[int, int]] = []
        for first in range(len(self.ranks)):
            last = int(np.searchsorted(self.ranks, self.ranks[first] + self.difference, side="right")) - 1
            if last > first and (not runs or runs[-1][1] < last):
                runs.append((first, last))
        return runs


def mean_ranks(names: list[str], losses: ArrayLike) -> Ranks:
    """Ranks of the rankers by their losses, one row per block and one column per ranker; less is better.

    >>> found = mean_ranks(["a", "b"], [[1.0, 2.0], [1.0, 3.0], [2.0, 2.0]])
    >>> found.names, found.ranks.round(2).tolist(), found.groups()
    (['a', 'b'], [1.17, 1.83], [(0, 1)])
    """
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    table = np.asarray(losses, dtype=np.float64)
    blocks, count = table.shape
    mean = rankdata(table, axis=1).mean(axis=0)
    order = np.argsort(mean, kind="stable")
    difference = np.inf
    if blocks > 1 and count > 1:
        q = float(studentized_range.ppf(0.95, count, np.inf)) / np.sqrt(2)
        difference = float(q * np.sqrt(count * (count + 1) / (6 * blocks)))
    p = float("nan")
    if count > 2 and blocks > 1 and np.ptp(mean) > 0:
        p = float(friedmanchisquare(*table.T).pvalue)
    return Ranks([names[i] for i in order], mean[order], difference, p, blocks)


def _ticks(low: float, high: float) -> Floats:
    """Whole ranks at equal distances, a dozen at most."""
    return np.arange(low, high + 1, max(1, math.ceil((high - low) / 12)))


def draw_ranks(found: Ranks, *paths: Path) -> None:
    """The critical-difference diagram: mean ranks on a line, and bars over those that do not differ significantly."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from recurrank._figures import INK, RED, STYLE
    from recurrank.experiments.figures import pretty

    half, groups = (len(found.names) + 1) // 2, found.groups() if np.isfinite(found.difference) else []
    low, high = 1.0, max(float(len(found.names)), 2.0)
    with rc_context(STYLE):
        figure = Figure(figsize=(6.75, 0.9 + 0.17 * half + 0.07 * len(groups)), layout="constrained")
        panel = figure.subplots()
        panel.set_axis_off()
        bars = 0.5 + 0.45 * len(groups)
        for line, (name, rank) in enumerate(zip(found.names, found.ranks, strict=True)):
            left = line < half
            depth = -bars - 0.9 * (line if left else len(found.names) - 1 - line)
            end = low - 0.03 * (high - low) if left else high + 0.03 * (high - low)
            panel.plot([rank, rank, end], [0, depth, depth], color=INK, linewidth=0.6)
            panel.text(end, depth, f" {pretty(name)} {rank:.2f} ", ha="right" if left else "left", va="center", fontsize=7)
        for number, (first, last) in enumerate(groups):
            panel.plot(found.ranks[[first, last]], [-0.45 * (number + 1)] * 2, color=RED, linewidth=2, solid_capstyle="round")
        panel.plot([low, high], [0, 0], color=INK, linewidth=0.8)
        for tick in _ticks(low, high):
            panel.plot([tick, tick], [0, 0.25], color=INK, linewidth=0.8)
            panel.text(tick, 0.4, f"{tick:g}", ha="center", va="bottom", fontsize=7)
        note = "one problem: no test" if not np.isfinite(found.difference) else f"critical difference {found.difference:.2f}"
        panel.set_title(f"mean rank over {found.blocks:,} problems; {note}", fontsize=8)
        panel.set_ylim(top=2.2)
        panel.set_xlim(low - 0.45 * (high - low), high + 0.45 * (high - low))
        for path in paths:
            figure.savefig(path, dpi=300, metadata={"CreationDate": None} if path.suffix == ".pdf" else None)
