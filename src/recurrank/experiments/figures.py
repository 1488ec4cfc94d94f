"""Figures of regret curves, in a style fit for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurrank._figures import BLUE, DASHES, INK, OTHERS, RED, STYLE, tidy
from recurrank.experiments.summary import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AS_THE_PAPER = {"recurrank": RED, "cascade-linucb": INK, "toprank": BLUE}
BOUND = "Theorem 1"
"""The name of the bound's curve."""


def colours(rankers: list[str]) -> dict[str, str]:
    """One colour per ranker: the paper's for its three; rankers of one name with other options share a colour."""
    chosen: dict[str, str] = {}
    free = iter(OTHERS * (1 + len(rankers) // len(OTHERS)))
    for ranker in rankers:
        name = ranker.partition(":")[0]
        colour = AS_THE_PAPER.get(name) or next((chosen[r] for r in chosen if r.partition(":")[0] == name), None)
        chosen[ranker] = "#9aa5b1" if ranker == BOUND else colour or next(free)
    return chosen


def dashes(rankers: list[str]) -> dict[str, str]:
    """Solid for the first ranker of a name, broken lines for the same ranker with other options."""
    names = [ranker.partition(":")[0] for ranker in rankers]
    return {ranker: DASHES[names[:i].count(names[i]) % len(DASHES)] for i, ranker in enumerate(rankers)}


def pretty(ranker: str) -> str:
    """The name of a ranker in its paper.

    >>> pretty("cascade-linucb"), pretty("toprank:delta=T^-1")
    ('CascadeLinUCB', 'TopRank (delta=T^-1)')
    """
    from recurrank.rankers.documents import registered as of_documents
    from recurrank.rankers.ranker import registered

    name, _, options = ranker.partition(":")
    classes: dict[str, Any] = {**registered(), **of_documents()}
    title = classes[name].__name__ if name in classes else name
    return f"{title} ({options.replace(':', ', ')})" if options else title


REGRET = "regret (lost clicks)"
MOST_NAMED = 7
"""Named curves of a panel with many more."""
UNNAMED = "#c9ced6"
"""The colour of curves without names."""


def draw_curves(figures: dict[str, list[Curve]], *paths: Path, log: tuple[str, ...] = (), label: str = REGRET) -> None:
    """Save :func:`regret_figure` to every path."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure = regret_figure(figures, log, label)
        for path in paths:  # without the time of writing: the same results give the same bytes
            figure.savefig(path, dpi=300, metadata={"CreationDate": None} if path.suffix == ".pdf" else None)


def regret_figure(figures: dict[str, list[Curve]], log: tuple[str, ...] = (), label: str = REGRET) -> Figure:
    """One panel per environment, one curve per ranker; regret is logarithmic in panels of ``log`` and those with a bound."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(3.35 * len(figures), 2.5), layout="constrained")
        panels = figure.subplots(1, len(figures), squeeze=False)[0]
        for panel, (title, curves) in zip(panels, figures.items(), strict=True):
            _draw_panel(panel, title, curves, title in log or any(curve.ranker == BOUND for curve in curves))
        panels[0].set_ylabel(label)
    return figure


def _draw_panel(panel: Any, title: str, curves: list[Curve], log: bool) -> None:
    from matplotlib.ticker import FuncFormatter

    named = _named(curves)
    rankers = [curve.ranker for curve in named]
    colour, dash = colours(rankers), dashes(rankers)
    for number, curve in enumerate(curve for curve in curves if curve.ranker not in rankers):
        label = f"{len(curves) - len(named)} others" if number == 0 else None
        panel.plot(curve.rounds, curve.regret, color=UNNAMED, label=label, linewidth=0.6, zorder=1)
    for curve in named:
        style = (0, (1, 1.5)) if curve.ranker == BOUND else dash[curve.ranker]
        panel.plot(
            curve.rounds, curve.regret, color=colour[curve.ranker], label=pretty(curve.ranker), linewidth=1.3, linestyle=style
        )
        if curve.error is not None:
            low, high = curve.regret - curve.error, curve.regret + curve.error
            panel.fill_between(curve.rounds, low, high, color=colour[curve.ranker], alpha=0.18, linewidth=0)
    panel.set_title(title)
    panel.set_xlabel("rounds")
    panel.set_xlim(left=0)
    if log:
        panel.set_yscale("log")
        lowest = [curve.regret[curve.regret > 0].min() for curve in curves if (curve.regret > 0).any()]
        panel.set_ylim(bottom=min(lowest, default=1.0) / 1.5)
    else:
        panel.set_ylim(bottom=min(0.0, *(curve.regret.min() for curve in curves)))
        panel.yaxis.set_major_formatter(FuncFormatter(_short))
    panel.xaxis.set_major_formatter(FuncFormatter(_short))
    tidy(panel)
    panel.legend(frameon=False, fontsize=7 if len(named) == len(curves) else 5.5)


def _named(curves: list[Curve]) -> list[Curve]:
    """The curves with a name and a colour: all, or if they are many those that end lowest, the lowest first."""
    return curves if len(curves) <= MOST_NAMED + 2 else sorted(curves, key=lambda curve: curve.regret[-1])[:MOST_NAMED]


def _short(value: float, _: int) -> str:
    """5000000 as 5M, 20000 as 20k, small numbers as they are."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
