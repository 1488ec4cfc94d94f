"""A ranker's status for people: progress, counts, and the leading items with intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from recurrank.rankers.knowledge import Knowledge, KnownBlock
from recurrank.serving.request_fold import RequestFold

if TYPE_CHECKING:
    from recurrank.serving.hosted import HostedRanker

BEST = 10
Z = 1.959963984540054  # normal quantile of a 95 % interval


def status_of(hosted: HostedRanker) -> dict[str, Any]:
    """The status of a ranker; all numbers are over the slates that were learned from."""
    with hosted.folding:
        fold, config = hosted.fold, hosted.spec
        learned = fold.counts["learned"]
        knowledge = fold.ranker.knowledge()
        leading = knowledge.leaders
        if leading is None:
            leading = np.argsort(-(fold.clicked / np.maximum(fold.shown, 1)), kind="stable").tolist()
        return {
            "name": hosted.stored.name,
            "algorithm": config.algorithm,
            "items": hosted.size,
            "dim": hosted.catalogue.dim,
            "positions": config.positions,
            "rounds": config.rounds,
            "window_seconds": config.window_seconds,
            "unreported": config.unreported,
            "version": fold.seq,
            **fold.counts,
            "open": len(hosted.open),
            "click_rate": fold.counts["clicks"] / learned if learned else None,
            "click_rate_by_position": [int(clicks) / learned for clicks in fold.at] if learned else None,
            "blocks": None if knowledge.blocks is None else [_block(block) for block in knowledge.blocks],
            "best": [_item(hosted, item) for item in leading[:BEST]],
            "requests": requests_of(hosted, knowledge),
        }


def requests_of(hosted: HostedRanker, knowledge: Knowledge) -> dict[str, Any] | None:
    """What a ranker of requests believes about features and examination, its guard, and its mean number of candidates."""
    fold = hosted.fold
    if knowledge.coefficients is None or not isinstance(fold, RequestFold):
        return None
    return {
        "coefficients": [coefficient._asdict() for coefficient in knowledge.coefficients],
        "examination": [row._asdict() for row in knowledge.examination or []],
        "guard": list(knowledge.guard or ()),
        "candidates": fold.candidates / fold.counts["served"] if fold.counts["served"] else None,
    }


def _block(block: KnownBlock) -> dict[str, Any]:
    positions = {"first": block.first, "last": block.first + block.width - 1}
    return {"id": block.id, "phase": block.phase, **positions, "items": block.items, "progress": block.progress}


def _item(hosted: HostedRanker, item: int) -> dict[str, Any]:
    shown, clicked = int(hosted.fold.shown[item]), int(hosted.fold.clicked[item])
    low, high = wilson(clicked, shown)
    return {"id": hosted.ids[item], "shown": shown, "clicked": clicked, "low": low, "high": high}


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
