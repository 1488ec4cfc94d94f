"""Tables searched, sorted and paged on the server, so that pages stay small."""

from __future__ import annotations

import bisect
import functools
import weakref
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from recurrank._arrays import Ints
from recurrank.dashboard.view import item_line, line
from recurrank.serving.hosted import HostedRanker
from recurrank.serving.service import Service

LINES, ITEMS = 50, 25
"""Rows per page."""
BETWEEN = "\n"

SORTS = ("id", "shown", "clicked", "rate")


def rankers(service: Service, search: str, sort: str, page: int) -> dict[str, Any]:
    """A page of the list of rankers; only its own lines are computed."""
    names = service.names()
    wanted = search.strip().casefold()
    if wanted:
        names = [name for name in names if wanted in name.casefold()]
    key = sort.removeprefix("-")
    if key in ("items", "learned"):
        names.sort(key=lambda name: _size(service, name, key))
    if sort.startswith("-"):
        names.reverse()
    page, pages, part = _page(len(names), LINES, page)
    rows = [line(service, hosted) for name in names[part] if (hosted := service.registry.find(name)) is not None]
    return {"rows": rows, "total": len(names), "page": page, "pages": pages}


def _size(service: Service, name: str, key: str) -> int:
    hosted = service.registry.find(name)
    return 0 if hosted is None else hosted.size if key == "items" else hosted.fold.counts["learned"]


def items(hosted: HostedRanker, search: str, sort: str, page: int) -> dict[str, Any]:
    """A page of a ranker's items."""
    with hosted.folding:
        shown, clicked = hosted.fold.shown.copy(), hosted.fold.clicked.copy()
        index = _index(hosted)
    matching = index.search(search)
    key, descending = sort.removeprefix("-"), sort.startswith("-")
    if key == "id":
        order = matching[np.argsort(index.alphabetical[matching], kind="stable")]
    else:
        values = {"shown": shown, "clicked": clicked, "rate": np.where(shown > 0, clicked / np.maximum(shown, 1), -1.0)}[key]
        order = matching[np.argsort(values[matching] * (-1 if descending else 1), kind="stable")]
    if key == "id" and descending:
        order = order[::-1]
    page, pages, part = _page(len(order), ITEMS, page)
    rows = [item_line(index.ids[i], int(shown[i]), int(clicked[i])) for i in order[part]]
    return {"rows": rows, "total": len(order), "page": page, "pages": pages}


def _page(total: int, size: int, page: int) -> tuple[int, int, slice]:
    """The page nearest to the requested one, the number of pages, and the slice of the page."""
    pages = max(1, -(-total // size))
    page = min(max(page, 1), pages)
    return page, pages, slice((page - 1) * size, page * size)


class Index:
    """Data for searching and sorting by id, computed once per catalogue."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids

    @functools.cached_property
    def _folded(self) -> tuple[str, array[int]]:
        """All ids in one text, which takes a tenth of the memory and time of separate ones; and the start of each."""
        starts, parts, at = array("q"), [], 0
        for name in self.ids:
            parts.append(_plain(name))
            starts.append(at)
            at += len(parts[-1]) + len(BETWEEN)
        return BETWEEN.join(parts), starts

    @functools.cached_property
    def _there(self) -> Ints:
        """All items; a free index has an empty id."""
        return np.array([item for item, name in enumerate(self.ids) if name], np.int64)

    @functools.cached_property
    def alphabetical(self) -> Ints:
        """By item, its rank in the order of ids."""
        rank = np.empty(len(self.ids), np.int64)
        rank[sorted(range(len(self.ids)), key=lambda item: self.ids[item].casefold())] = np.arange(len(self.ids))
        return rank

    def search(self, wanted: str) -> Ints:
        """The items whose ids contain this text, ignoring case and kinds of white space."""
        wanted = _plain(wanted)
        if not wanted:
            return self._there
        text, starts = self._folded
        items: list[int] = []
        at = text.find(wanted)
        while at >= 0:
            items.append(bisect.bisect_right(starts, at) - 1)
            if items[-1] + 1 == len(starts):
                break
            at = text.find(wanted, starts[items[-1] + 1])
        return np.array(items, np.int64)


def _plain(text: str) -> str:
    """The text with folded case and single spaces, so that it does not contain BETWEEN."""
    return " ".join(text.casefold().split())


_indices: weakref.WeakKeyDictionary[HostedRanker, Index] = weakref.WeakKeyDictionary()


def _index(hosted: HostedRanker) -> Index:
    known = _indices.get(hosted)
    if known is None or known.ids is not hosted.ids:  # items come and go
        known = _indices[hosted] = Index(hosted.ids)
    return known
