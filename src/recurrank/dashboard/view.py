"""What the pages show, as documents: one line per ranker, one ranker in full, the server's health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recurrank.dashboard.knowledge import boxes, exploration, ranking
from recurrank.serving.events import Event, Kind, unpack_clicks, unpack_items
from recurrank.serving.service import RECENT, Desk, Service
from recurrank.serving.status import wilson
from recurrank.serving.tally import SPAN

PLACES = 100
"""Of a ranking, at most."""
SHOWN = 10
"""Items of an event's slate, at most."""
LOOK_BACK = 5_000
"""Events of the log that are read to find a ranker's last ones after a start."""

Truths = Mapping[str, Sequence[float]]
"""Where it is known: the click rate at each place that a perfect ranking would get, by ranker."""


def line(service: Service, desk: Desk) -> dict[str, Any]:
    """A ranker in the list of all: numbers that are there already, whatever its size."""
    counts, name = desk.fold.counts, desk.stored.name
    start, now = desk.fold.tally.rates(counts["learned"])
    return {
        "name": name,
        "algorithm": desk.config.algorithm,
        "items": len(desk.catalogue),
        "positions": desk.config.positions,
        "served": counts["served"],
        "learned": counts["learned"],
        "dropped": counts["dropped"],
        "late": service.store.late[desk.stored.number],
        "open": len(desk.open),
        "start": start,
        "now": now,
        "exploration": exploration(desk.fold),
        "broken": service.broken.get(name),
    }


def health(service: Service) -> dict[str, Any]:
    """The server as a whole; what cannot be told ranker by ranker is here."""
    reported = dict(service.reported)
    return {
        "rankers": len(service.names()),
        "learning": service.learning,
        "failed": service.failed,
        "broken": sorted(service.broken)[:10],
        "lag": service.lag(),
        **{status: reported.get(status, 0) for status in ("late", "unknown", "invalid", "duplicate")},
    }


def whole(service: Service, name: str, truths: Truths) -> dict[str, Any]:
    """One ranker with all that its page shows but the table of items."""
    desk = service.desk(name)
    events = _recent(service, desk)
    with desk.folding:
        fold = desk.fold
        learned = fold.counts["learned"]
        width, clicks, last = fold.tally.curve(learned)
        drawn, why = boxes(fold.ranker)
        places, about = ranking(desk)
        truth = truths.get(name)
        summary = line(service, desk)
        return {
            **summary,
            "dim": desk.catalogue.dim,
            "rounds": desk.config.rounds,
            "version": fold.seq,
            "lag": service.lag(),
            "rate": {"start": summary.pop("start"), "now": summary.pop("now"), "span": SPAN},
            "curve": {"width": width, "clicks": clicks, "last": last},
            "by_position": [int(seen) / learned if learned else 0.0 for seen in fold.at],
            "truth": {"total": float(sum(truth)), "by_position": list(truth)} if truth is not None else None,
            "flow": {"boxes": drawn, "why": why},
            "ranking": [{"place": k + 1, **_item(desk, at.item), **_said(at)} for k, at in enumerate(places[:PLACES])],
            "ranking_about": about if len(places) <= PLACES else f"The first {PLACES} places. {about}",
            "events": [_event(desk, event) for event in reversed(events)],
        }


def _said(place: Any) -> dict[str, Any]:
    return {name: getattr(place, name) for name in ("certain", "first", "last", "competing")}


def _item(desk: Desk, item: int) -> dict[str, Any]:
    return item_line(desk.ids[item], int(desk.fold.shown[item]), int(desk.fold.clicked[item]))


def item_line(name: str, shown: int, clicked: int) -> dict[str, Any]:
    """An item with its click rate."""
    low, high = wilson(clicked, shown)
    rate = clicked / shown if shown else None
    return {"id": name, "shown": shown, "clicked": clicked, "rate": rate, "low": low, "high": high}


def _recent(service: Service, desk: Desk) -> list[Event]:
    """The last events: from memory, or, when nothing has happened since the start, from near the end of the log."""
    if desk.recent:
        return list(desk.recent)
    return service.store.events(max(0, service.store.newest() - LOOK_BACK), LOOK_BACK, desk.stored.number)[-RECENT:]


def _event(desk: Desk, event: Event) -> dict[str, Any]:
    positions = desk.config.positions
    items = [desk.ids[item] for item in unpack_items(event.payload, positions)[:SHOWN]] if event.payload else []
    clicks = unpack_clicks(event.clicks, positions).nonzero()[0] + 1
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": Kind(event.kind).name.lower(),
        "items": items,
        "more": max(0, positions - SHOWN) if items else 0,
        "clicks": clicks.tolist(),
    }
