"""What a ranker can tell about itself, whichever it is: blocks, the ranking it would show, and how certain each place is.

Two algorithms work in blocks, runs of neighbouring places with the items that compete for them (RecurRank, Balanced). Of any
other one only the slates are known. Nothing here changes a ranker; callers hold the lock of its fold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recurrank.experiments.flow import flow_of
from recurrank.rankers.balanced import Balanced
from recurrank.rankers.ranker import Ranker
from recurrank.rankers.recurrank import RecurRank
from recurrank.serving.events import unpack_items
from recurrank.serving.fold import Fold
from recurrank.serving.service import Desk

CERTAIN = (
    "Click rates are over all slates that showed the item, with Wilson's interval. A place is certain when no other item is "
    "left that could take it; an item is certainly among some places when only as many items are left as these have."
)
DRAWN = (
    "The slate that the next visitor would get, tried items included. This algorithm does not say which places are certain. "
    "Click rates are over all slates that showed the item, with Wilson's interval."
)


class Place(NamedTuple):
    """A place of the ranking: ``certain`` is "place", "shown" or "no", and None where the algorithm does not say."""

    item: int
    certain: str | None
    first: int
    last: int
    competing: int


def boxes(ranker: Ranker) -> tuple[list[dict[str, Any]], str | None]:
    """The boxes of the flow chart, and what is to be said about them."""
    if isinstance(ranker, RecurRank):
        progress = {block.id: block.progress for block in ranker.blocks}
        return [{**box._asdict(), "progress": progress.get(box.id)} for box in flow_of(ranker)], None
    if isinstance(ranker, Balanced):
        why = "Balanced estimates all the time, in no phases, and keeps no history. These are its blocks as they are now."
        return [_present(at, block) for at, block in enumerate(ranker.blocks)], why
    return [], f"{ranker.name} does not work in blocks, so that there is nothing to draw. RecurRank and Balanced do."


def _present(at: int, block: Any) -> dict[str, Any]:
    places = {"first": block.first + 1, "last": block.first + block.width}
    rest = {"parent": -1, "opened": 0, "closed": None, "progress": None}
    return {"id": at, "phase": None, **places, "items": block.size, **rest}


def ranking(desk: Desk) -> tuple[list[Place], str]:
    """The ranking that it would show now, and in words what is certain about it."""
    ranker = desk.fold.ranker
    if isinstance(ranker, RecurRank | Balanced):
        leaders = ranker.state.leaders
        return [_place(int(leaders[k]), block) for block in ranker.blocks for k in block.positions], CERTAIN
    items = unpack_items(desk.next(), desk.config.positions)
    return [Place(item, None, k + 1, k + 1, 0) for k, item in enumerate(items)], DRAWN


def _place(item: int, block: Any) -> Place:
    left = block.size
    certain = "place" if left == 1 else "shown" if left == block.width else "no"
    return Place(item, certain, block.first + 1, block.first + block.width, left)


def exploration(fold: Fold) -> float | None:
    """Of the places in the last slates, how many held an item to try it instead of the one ranked there.

    A block tries items at its first place only, so that it is enough to look there; None where there are no blocks or slates.
    """
    state = fold.ranker.state
    slates = fold.tally.last_slates(fold.counts["learned"])
    if not isinstance(fold.ranker, RecurRank | Balanced) or len(slates) == 0:
        return None
    firsts = state.block[:, 1]
    tried = (slates[:, firsts] != state.leaders[firsts]).sum()
    return float(tried) / float(slates.size)
