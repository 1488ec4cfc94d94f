"""What a ranker's state says to people: progress, counts, and the items that lead, with intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from recurrank.rankers.recurrank import RecurRank

if TYPE_CHECKING:
    from recurrank.serving.service import Desk

BEST = 10
Z = 1.959963984540054  # of a 95 % interval


def status_of(desk: Desk) -> dict[str, Any]:
    """All numbers are of the slates that were learned from."""
    with desk.folding:
        fold, config = desk.fold, desk.config
        ranker = fold.ranker
        learned = fold.counts["learned"]
        rate = fold.clicked / np.maximum(fold.shown, 1)
        if isinstance(ranker, RecurRank):
            leading = [int(item) for item in ranker.state.leaders[:BEST]]
        else:
            leading = [int(item) for item in np.argsort(-rate, kind="stable")[:BEST]]
        return {
            "name": desk.stored.name,
            "algorithm": config.algorithm,
            "items": len(desk.catalogue),
            "dim": desk.catalogue.dim,
            "positions": config.positions,
            "rounds": config.rounds,
            "window_seconds": config.window_seconds,
            "unreported": config.unreported,
            "version": fold.seq,
            **fold.counts,
            "open": len(desk.open),
            "click_rate": fold.counts["clicks"] / learned if learned else None,
            "click_rate_by_position": [int(clicks) / learned for clicks in fold.at] if learned else None,
            "blocks": _blocks(ranker) if isinstance(ranker, RecurRank) else None,
            "best": [_item(desk, item) for item in leading],
        }


def _blocks(ranker: RecurRank) -> list[dict[str, Any]]:
    return [
        {
            "id": block.id,
            "phase": block.phase,
            "first": block.first,
            "last": block.first + block.width - 1,
            "items": block.size,
            "progress": block.progress,
        }
        for block in ranker.blocks
    ]


def _item(desk: Desk, item: int) -> dict[str, Any]:
    shown, clicked = int(desk.fold.shown[item]), int(desk.fold.clicked[item])
    low, high = wilson(clicked, shown)
    return {"id": desk.ids[item], "shown": shown, "clicked": clicked, "low": low, "high": high}


def wilson(clicked: int, shown: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a click rate.

    >>> [round(end, 3) for end in wilson(5, 10)], wilson(0, 0)
    ([0.237, 0.763], (0.0, 1.0))
    """
    if shown == 0:
        return 0.0, 1.0
    p, n = clicked / shown, shown
    middle, spread = p + Z * Z / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return max(0.0, (middle - spread) / (1 + Z * Z / n)), min(1.0, (middle + spread) / (1 + Z * Z / n))
