"""Regret curves as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from recurrank._arrays import Floats, Ints

COLOURS = ("#c0392b", "#2c3e50", "#2471a3", "#1e8449", "#b9770e", "#7d3c98", "#566573")


class Curve(NamedTuple):
    """A ranker's regret over time, with standard errors when there are several runs."""

    ranker: str
    rounds: Ints
    regret: Floats
    error: Floats | None


def draw_curves(figures: dict[str, list[Curve]], path: Path, log: tuple[str, ...] = ()) -> None:
    """One panel an environment, a curve a ranker, logarithmic axes for those in ``log``; the path's ending is the format."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(4.6 * len(figures), 3.4), layout="constrained")
    panels = figure.subplots(1, len(figures), squeeze=False)[0]
    for panel, (title, curves) in zip(panels, figures.items(), strict=True):
        for colour, curve in zip(COLOURS, curves, strict=False):
            panel.plot(curve.rounds, curve.regret, color=colour, label=curve.ranker, linewidth=1.8)
            if curve.error is not None:
                panel.fill_between(
                    curve.rounds, curve.regret - curve.error, curve.regret + curve.error, color=colour, alpha=0.2, linewidth=0
                )
        panel.set_title(title, fontsize=11)
        panel.set_xlabel("rounds")
        if title in log:
            panel.loglog()
        else:
            panel.set_xlim(left=0)
            panel.set_ylim(bottom=0)
        panel.xaxis.set_major_formatter(FuncFormatter(_short))
        panel.yaxis.set_major_formatter(FuncFormatter(_short))
        panel.grid(True, alpha=0.25, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=9)
    panels[0].set_ylabel("regret (lost clicks)")
    figure.savefig(path, dpi=160)


def _short(value: float, _: int) -> str:
    """5000000 as 5M, 20000 as 20k, small numbers as they are."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
