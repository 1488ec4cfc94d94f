"""The paper's Figure 1 from a real run: how the blocks of positions split over time.

Each box is one call of Algorithm 1. Its vertical extent is its positions, its column the round in which it opened; in it are
its phase and the number of its items; arrows lead to the blocks it split into. The block explores above the dashed line, at its
first position. A key below the chart explains this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from recurrank.rankers.recurrank import RecurRank

INK, SOFT, ACCENT = "#1f2d3a", "#8795a1", "#c0392b"
CLOSED, OPEN, SETTLED = "#eef2f5", "#cfe6f7", "#d3f0dd"
WIDTH, GAP = 2.2, 1.3


class Box(NamedTuple):
    """A block to draw; ``closed`` is None while it is open. Positions count from 1, as in the paper."""

    id: int
    phase: int
    first: int
    last: int
    items: int
    parent: int
    opened: int
    closed: int | None


def flow_of(ranker: RecurRank) -> list[Box]:
    """All blocks of a ranker, finished and open, in the order of opening."""
    boxes = [
        Box(b.id, b.phase, b.first + 1, b.first + b.width, b.items, b.parent, b.opened, b.closed) for b in ranker.history
    ] + [Box(b.id, b.phase, b.first + 1, b.first + b.width, b.size, b.parent, b.opened, None) for b in ranker.blocks]
    return sorted(boxes, key=lambda box: box.id)


def draw_flow(boxes: list[Box], positions: int, rounds: int, path: Path) -> None:
    """Draw the chart; the ending of ``path`` decides the format."""
    from matplotlib.figure import Figure

    moments = sorted({box.opened for box in boxes})
    column = {moment: (WIDTH + GAP) * i for i, moment in enumerate(moments)}
    right = column[moments[-1]] + WIDTH + 1.2
    figure = Figure(figsize=(max(5.0, 0.62 * (right + 1.2)), 0.46 * positions + 1.3), layout="constrained")
    axes = figure.subplots()
    by_id = {box.id: box for box in boxes}
    for box in boxes:
        _draw_box(axes, box, column[box.opened])
        if box.parent >= 0:
            _draw_arrow(axes, by_id[box.parent], box, column)
    line = positions + 0.7
    for moment in moments:
        x = column[moment] + WIDTH / 2
        axes.plot([x, x], [line - 0.15, line], color=SOFT, linewidth=0.9)
        axes.text(x, line + 0.15, f"{moment:,}", ha="center", va="top", fontsize=8, color=INK)
    axes.annotate("", (right, line), (-0.6, line), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1})
    axes.text(right, line - 0.2, f"{rounds:,} rounds", ha="right", va="bottom", fontsize=8, color=INK)
    axes.set_xlim(-0.8, right + 0.1)
    axes.set_ylim(line + 0.9, -0.2)
    axes.set_axis_off()
    figure.legend(handles=_key(), loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    figure.savefig(path, dpi=160)


def _key() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    faces = ((CLOSED, "finished"), (OPEN, "open"), (SETTLED, "open, its item is found"))
    boxes = [Patch(facecolor=face, edgecolor=INK, linewidth=0.8, label=label) for face, label in faces]
    above = Line2D([], [], color=ACCENT, linewidth=1, linestyle=(0, (4, 3)), label="it explores above this line")
    phase = Line2D([], [], linestyle="none", marker="$\\ell$", color=INK, markersize=6, label="phase")
    number = Line2D([], [], linestyle="none", marker="$1$", color=INK, markersize=5, label="position, from 1")
    return [*boxes, above, phase, number]


def _draw_box(axes: Any, box: Box, x: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    top, bottom = box.first - 1 + 0.08, box.last - 0.08
    face = CLOSED if box.closed is not None else SETTLED if box.items == 1 else OPEN
    shape = "round,pad=0,rounding_size=0.15"
    axes.add_patch(FancyBboxPatch((x, top), WIDTH, bottom - top, boxstyle=shape, facecolor=face, edgecolor=INK, linewidth=1))
    if box.last > box.first:  # the line below the first position, where the block explores
        axes.plot([x, x + WIDTH], [box.first, box.first], color=ACCENT, linewidth=1, linestyle=(0, (4, 3)))
        axes.text(x + 0.12, box.last - 0.5, str(box.last), ha="left", va="center", fontsize=8, color=INK)
    axes.text(x + 0.12, box.first - 0.5, str(box.first), ha="left", va="center", fontsize=8, color=INK)
    count = "1 item" if box.items == 1 else f"{box.items:,} items"
    middle = (box.first + box.last) / 2 if box.last > box.first else box.first - 0.5
    phase = f"$\\ell$ = {box.phase}"
    text = f"{phase}, {count}" if box.last - box.first < 2 else f"{phase}\n{count}"
    axes.text(x + WIDTH / 2 + 0.12, middle, text, ha="center", va="center", fontsize=8, color=INK, linespacing=1.5)


def _draw_arrow(axes: Any, parent: Box, box: Box, column: dict[int, float]) -> None:
    start = (column[parent.opened] + WIDTH, (parent.first + parent.last - 1) / 2)
    end = (column[box.opened], (box.first + box.last - 1) / 2)
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": SOFT, "linewidth": 1, "shrinkA": 1, "shrinkB": 0})
