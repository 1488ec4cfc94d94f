"""What a ranker can tell about itself, whichever it is: blocks, the ranking it would show, and how certain each place is.

Some algorithms work in blocks, neighbouring positions with the items that compete for them (``Ranker.knowledge``). Of
others only the slates are known. Nothing here changes a ranker; callers hold the lock of its fold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recurrank.rankers.knowledge import KnownBlock
from recurrank.rankers.ranker import Ranker
from recurrank.serving.events import unpack_items
from recurrank.serving.fold import Fold
from recurrank.serving.hosted import HostedRanker

CERTAIN = (
    "Click rates are over all slates that showed the item, with Wilson's interval. A place is certain when no other item is "
    "left that could take it; an item is certainly among some places when only as many items are left as these have."
)
DRAWN = (
    "The slate that the next visitor would get, tried items included. This algorithm does not say which places are certain. "
    "Click rates are over all slates that showed the item, with Wilson's interval."
)


BELIEVED = (
    "The best of all items by what is believed about their features, for whoever has them all as candidates. Click rates are "
    "over all slates that showed the item, with Wilson's interval."
)


class Place(NamedTuple):
    """A place of the ranking: ``certain`` is "place", "shown" or "no", and None where the algorithm does not say."""

    item: int
    certain: str | None
    first: int
    last: int
    competing: int


def boxes(ranker: Ranker) -> tuple[list[dict[str, Any]], str | None]:
    """The boxes of the flow chart, finished blocks included, and what is to be said about them."""
    known = ranker.knowledge()
    if known.blocks is None:
        return [], f"{ranker.name} does not work in blocks, so there is nothing to draw. RecurRank and Balanced do."
    drawn = [_box(block) for block in sorted([*(known.history or []), *known.blocks])]
    if known.history is None:
        return drawn, f"{ranker.name} works without phases and keeps no history. These are its blocks as they are now."
    return drawn, None


def _box(block: KnownBlock) -> dict[str, Any]:
    positions = {"first": block.first + 1, "last": block.first + block.width}  # counted from 1, as in the paper
    life = {"parent": block.parent, "opened": block.opened, "closed": block.closed, "progress": block.progress}
    return {"id": block.id, "phase": block.phase, **positions, "items": block.items, **life}


def ranking(hosted: HostedRanker) -> tuple[list[Place], str]:
    """The ranking that it would show now, and in words what is certain about it."""
    known = hosted.fold.ranker.knowledge()
    if known.blocks is not None and known.leaders is not None:
        leaders = known.leaders
        return [_place(leaders[block.first + j], block) for block in known.blocks for j in range(block.width)], CERTAIN
    if hosted.spec.takes_requests:
        return [Place(item, None, k + 1, k + 1, 0) for k, item in enumerate(known.leaders or [])], BELIEVED
    items = unpack_items(hosted.peek(), hosted.spec.positions)
    return [Place(item, None, k + 1, k + 1, 0) for k, item in enumerate(items)], DRAWN


def _place(item: int, block: KnownBlock) -> Place:
    return Place(item, block.certain, block.first + 1, block.first + block.width, block.items)


def exploration(fold: Fold) -> float | None:
    """Of the places in the last slates, how many held an item to try it instead of the one ranked there.

    A block tries items at its first place only, so that it is enough to look there; None where there are no blocks or slates.
    """
    known, slates = fold.ranker.knowledge(), fold.tally.last_slates(fold.counts["learned"])
    if known.blocks is None or known.leaders is None or len(slates) == 0:
        return None
    firsts = [block.first for block in known.blocks]
    tried = (slates[:, firsts] != [known.leaders[first] for first in firsts]).sum()
    return float(tried) / float(slates.size)
