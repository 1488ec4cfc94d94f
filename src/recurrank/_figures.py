"""The style of all figures: small, fit for a paper, and readable without colours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

STYLE: Any = {"font.size": 8, "axes.linewidth": 0.6, "pdf.fonttype": 42, "svg.fonttype": "none"}
RED, INK, BLUE = "#c0392b", "#20262d", "#2471a3"
OTHERS = ("#1e8449", "#b9770e", "#7d3c98", "#138d90", "#8d6e63", "#d35f8d", "#6c7a89")
DASHES = ("solid", "dashed", "dotted", "dashdot")


def lines() -> Iterator[dict[str, Any]]:
    """The looks of one curve after the other: a colour, a marker, and dashes that do not hide the curve below."""
    looks = zip(itertools.cycle((RED, BLUE, *OTHERS)), itertools.cycle("os^vDPX"), itertools.cycle(DASHES), strict=False)
    for size, (colour, marker, dash) in enumerate(looks):
        face = {"markersize": max(3.0, 7.0 - 0.6 * size), "markerfacecolor": "none", "markeredgewidth": 0.8}
        yield {"color": colour, "marker": marker, "linestyle": dash, "linewidth": 1.2, **face}


def tidy(axes: Any) -> None:
    """A light grid, and a frame only along the axes."""
    axes.tick_params(width=0.6)
    axes.title.set_fontsize(9)
    axes.grid(True, alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
