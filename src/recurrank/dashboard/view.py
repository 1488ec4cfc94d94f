"""The documents that pages show: one line per ranker, one ranker in full, the server's health."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from recurrank.dashboard.knowledge import Ranked, boxes, exploration, ranking
from recurrank.rankers.knowledge import Knowledge
from recurrank.serving.comparison import experiment_of
from recurrank.serving.events import Event, Kind, names_of, unpack_clicks
from recurrank.serving.hosted import RECENT, HostedRanker
from recurrank.serving.hosted_requests import MOMENTS, HostedRequestRanker
from recurrank.serving.service import Service
from recurrank.serving.status import requests_of, wilson
from recurrank.serving.tally import SPAN

if TYPE_CHECKING:
    from recurrank.serving.demo import Truth

RANKED = 100
"""Most positions of a ranking that are shown."""
SHOWN = 10
"""Most items of an event's slate that are shown."""
LATELY = 10.0
"""Length of the period over which requests are counted, in seconds."""
SOME = 8
"""Number of items that the form for a request begins with."""
LOOK_BACK = 5_000
"""Events of the log that are read to find a ranker's last ones after a start."""

Truths: TypeAlias = "Mapping[str, Truth]"
"""By ranker of a demonstration, what is known about its problem."""


def line(service: Service, hosted: HostedRanker) -> dict[str, Any]:
    """A ranker's line in the list: only numbers that take constant time."""
    counts, name = hosted.fold.counts, hosted.stored.name
    start, now = hosted.fold.tally.rates(counts["learned"])
    return {
        "name": name,
        "algorithm": hosted.spec.algorithm,
        "items": hosted.size,
        "positions": hosted.spec.positions,
        "served": counts["served"],
        "learned": counts["learned"],
        "dropped": counts["dropped"],
        "late": service.store.late[hosted.stored.number],
        "open": len(hosted.open),
        "start": start,
        "now": now,
        "exploration": exploration(hosted.fold),
        "broken": service.registry.broken.get(name),
    }


def health(service: Service) -> dict[str, Any]:
    """The state of the server as a whole, as far as it does not belong to a ranker."""
    reported = dict(service.reported)
    return {
        "rankers": len(service.names()),
        "learning": service.learner.learning,
        "failed": service.learner.failed,
        "broken": sorted(service.registry.broken)[:10],
        "lag": service.lag(),
        **{status: reported.get(status, 0) for status in ("late", "unknown", "invalid", "duplicate")},
    }


def whole(service: Service, name: str, truths: Truths) -> dict[str, Any]:
    """One ranker with everything that its page shows, except the table of items."""
    hosted = service.hosted(name)
    events, compared = _recent(service, hosted), experiment_of(hosted)
    with hosted.folding:
        fold = hosted.fold
        learned = fold.counts["learned"]
        margin, (width, clicks, last) = fold.tally.margin(learned), fold.tally.curve(learned)
        knowledge = fold.ranker.knowledge()
        ranked, about = ranking(hosted)
        truth = truths.get(name)
        summary = line(service, hosted)
        return {
            **summary,
            "dim": hosted.catalogue.dim,
            "rounds": hosted.spec.rounds,
            "version": fold.seq,
            "lag": service.lag(),
            "rate": {"start": summary.pop("start"), "now": summary.pop("now"), "margin": margin, "span": SPAN},
            "curve": {"width": width, "clicks": clicks, "last": last},
            "by_position": [int(seen) / learned if learned else 0.0 for seen in fold.at],
            "truth": None if truth is None else {"total": float(sum(truth.by_position)), **truth._asdict()},
            "flow": {"boxes": boxes(knowledge), "history": knowledge.history is not None},
            "experiment": compared,
            "requests": _requests(hosted, knowledge),
            "ranking": [{"position": k + 1, **_item(hosted, at.item), **_said(at)} for k, at in enumerate(ranked[:RANKED])],
            "ranking_about": about if len(ranked) <= RANKED else f"The first {RANKED} positions. {about}",
            "events": [_event(hosted, event) for event in reversed(events)],
        }


def _requests(hosted: HostedRanker, knowledge: Knowledge) -> dict[str, Any] | None:
    """The beliefs of a ranker of requests, and its requests to this server in the last seconds; None for other rankers."""
    believed = requests_of(hosted, knowledge)
    if believed is None or not isinstance(hosted, HostedRequestRanker):
        return None
    last = [candidates for at, candidates in list(hosted.asked) if time.monotonic() - at < LATELY]
    stock = hosted.stocked.stock
    return {
        **believed,
        "per_second": len(last) / LATELY if len(last) < MOMENTS else None,
        "lately": sum(last) / len(last) if last else None,
        "changes": hosted.stocked.seq,
        "rules": msgspec.to_builtins(hosted.stocked.rules, str_keys=True),
        "context": hosted.fold.ranker.context,
        "some": [str(stock.names[item]) for item in stock.alive[:SOME].tolist()],
    }


def _said(ranked: Ranked) -> dict[str, Any]:
    return {name: getattr(ranked, name) for name in ("certain", "first", "last", "competing")}


def _item(hosted: HostedRanker, item: int) -> dict[str, Any]:
    return item_line(hosted.ids[item], int(hosted.fold.shown[item]), int(hosted.fold.clicked[item]))


def item_line(name: str, shown: int, clicked: int) -> dict[str, Any]:
    """An item with its click rate."""
    low, high = wilson(clicked, shown)
    rate = clicked / shown if shown else None
    return {"id": name, "shown": shown, "clicked": clicked, "rate": rate, "low": low, "high": high}


def _recent(service: Service, hosted: HostedRanker) -> list[Event]:
    """The last events: from memory, or, if nothing has happened since the start, from near the end of the log."""
    if hosted.recent:
        return list(hosted.recent)
    return service.store.events(max(0, service.store.newest() - LOOK_BACK), LOOK_BACK, hosted.stored.number)[-RECENT:]


def _event(hosted: HostedRanker, event: Event) -> dict[str, Any]:
    positions = hosted.spec.positions
    items = names_of(event, positions, hosted.first_ids)
    clicks = unpack_clicks(event.clicks, positions).nonzero()[0] + 1
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": Kind(event.kind).name.lower(),
        "items": items[:SHOWN],
        "more": max(0, len(items) - SHOWN),
        "clicks": clicks.tolist(),
    }
