"""What each kind of ranker can tell about itself: blocks, the ranking it would show, and how certain each position is.

Some algorithms work in blocks, neighbouring positions with the items that compete for them (``Ranker.knowledge``). For
others only the slates are known. Nothing here changes a ranker; callers hold the lock of its fold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recurrank.rankers.knowledge import Knowledge, KnownBlock
from recurrank.serving.events import unpack_items
from recurrank.serving.fold import Fold
from recurrank.serving.hosted import HostedRanker

CERTAIN = (
    "Click rates are over all slates that showed the item, with Wilson's interval. A position is certain when no other item "
    "can take it any more. An item is certainly among some positions when there are no more items left than positions."
)
DRAWN = (
    "The slate that the next visitor would get, tried items included. This algorithm does not say which positions are certain. "
    "Click rates are over all slates that showed the item, with Wilson's interval."
)


BELIEVED = (
    "The best items by what is believed about their features, for a visitor who has all of them as candidates. Click rates are "
    "over all slates that showed the item, with Wilson's interval."
)


class Ranked(NamedTuple):
    """An item of the ranking: ``certain`` is "place", "shown" or "no", or None if the algorithm does not say."""

    item: int
    certain: str | None
    first: int
    last: int
    competing: int


def boxes(knowledge: Knowledge) -> list[dict[str, Any]]:
    """The boxes of the flow chart, including finished blocks; empty if the algorithm does not work in blocks."""
    return [_box(block) for block in sorted([*(knowledge.history or []), *(knowledge.blocks or [])])]


def _box(block: KnownBlock) -> dict[str, Any]:
    positions = {"first": block.first + 1, "last": block.first + block.width}  # counted from 1, as in the paper
    life = {"parent": block.parent, "opened": block.opened, "closed": block.closed, "progress": block.progress}
    return {"id": block.id, "phase": block.phase, **positions, "items": block.items, **life}


def ranking(hosted: HostedRanker) -> tuple[list[Ranked], str]:
    """The ranking that would be shown now, and an explanation of its certainty."""
    knowledge = hosted.fold.ranker.knowledge()
    if knowledge.blocks is not None and knowledge.leaders is not None:
        leaders = knowledge.leaders
        return [_ranked(leaders[block.first + j], block) for block in knowledge.blocks for j in range(block.width)], CERTAIN
    if hosted.spec.takes_requests:
        return [Ranked(item, None, k + 1, k + 1, 0) for k, item in enumerate(knowledge.leaders or [])], BELIEVED
    items = unpack_items(hosted.peek(), hosted.spec.positions)
    return [Ranked(item, None, k + 1, k + 1, 0) for k, item in enumerate(items)], DRAWN


def _ranked(item: int, block: KnownBlock) -> Ranked:
    return Ranked(item, block.certain, block.first + 1, block.first + block.width, block.items)


def exploration(fold: Fold) -> float | None:
    """The share of positions in the last slates that showed an item to try it, rather than the one ranked there.

    A block tries items only at its first position, so only these are compared. None without blocks or slates.
    """
    knowledge, slates = fold.ranker.knowledge(), fold.tally.last_slates(fold.counts["learned"])
    if knowledge.blocks is None or knowledge.leaders is None or len(slates) == 0:
        return None
    firsts = [block.first for block in knowledge.blocks]
    tried = (slates[:, firsts] != [knowledge.leaders[first] for first in firsts]).sum()
    return float(tried) / float(slates.size)
