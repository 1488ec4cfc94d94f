"""What the pages fetch: JSON about rankers, live events, and files. All of it needs a key if the server has keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from recurrank.dashboard import tables, view
from recurrank.dashboard.live import Live
from recurrank.dashboard.preview import preview
from recurrank.serving.events import Event, Kind, names_of, shown_in, unpack_clicks
from recurrank.serving.hosted import HostedRanker
from recurrank.serving.http.decoder import Decoder
from recurrank.serving.http.routes import Answer, Request, Route, route
from recurrank.serving.service import Service

PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
EVENTS = {**PRIVATE, "x-accel-buffering": "no"}
CHUNK = 2_000
"""Events of the log that are sent at a time."""
KEPT = 1.0
"""Seconds for which a page of the list of rankers is cached for all clients."""


class Table(msgspec.Struct):
    """The query parameters of a part of a table."""

    search: Annotated[str, Meta(max_length=200)] = ""
    sort: Annotated[str, Meta(max_length=20)] = ""
    page: Annotated[int, Meta(ge=1, le=10**9)] = 1


def _json(document: Any) -> Answer:
    return Answer(msgspec.json.encode(document), headers=PRIVATE)


def routes(service: Service, live: Live, decoder: Decoder) -> list[Route]:
    """The routes."""
    lists = _Kept(lambda *asked: msgspec.json.encode(tables.rankers(service, *asked)))

    @route("GET", "/dash/rankers", "admin")
    async def list_rankers(request: Request) -> Answer:
        asked = _table(request, ("", "name", "items", "learned"))
        return Answer(await lists.get(asked.search, asked.sort, asked.page), headers=PRIVATE)

    @route("GET", "/dash/server", "admin")
    async def server(_: Request) -> Answer:
        return _json(await asyncio.to_thread(view.health, service))

    @route("GET", "/dash/rankers/{name}/live", "admin")
    async def follow(request: Request) -> Answer:
        return Answer(live.open(request.parameters[0]), "text/event-stream; charset=utf-8", headers=EVENTS)

    @route("GET", "/dash/rankers/{name}/items", "admin")
    async def items(request: Request) -> Answer:
        asked, hosted = _table(request, tables.SORTS, "-rate"), service.hosted(request.parameters[0])
        return _json(await asyncio.to_thread(tables.items, hosted, asked.search, asked.sort, asked.page))

    @route("GET", "/dash/rankers/{name}/state", "admin")
    async def state(request: Request) -> Answer:
        (name,) = request.parameters
        saved = await asyncio.to_thread(_saved, service.hosted(name))
        return Answer(saved, "application/octet-stream", headers=_named(f"{name}.recurrank"))

    @route("GET", "/dash/rankers/{name}/log", "admin")
    async def log(request: Request) -> Answer:
        (name,) = request.parameters
        return Answer(_log(service, service.hosted(name)), "application/x-ndjson", headers=_named(f"{name}.ndjson"))

    @route("PUT", "/dash/preview", "admin", file=True)
    async def look(request: Request) -> Answer:
        return _json(await decoder.document(request.media, request.body, preview))

    return [list_rankers, server, follow, items, state, log, look]


def _table(request: Request, sorts: tuple[str, ...], usual: str = "") -> Table:
    try:
        asked = msgspec.convert({"sort": usual, **request.query}, Table, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"query: {error}") from error
    _check_sort(asked.sort, sorts)
    return asked


def _check_sort(sort: str, known: tuple[str, ...]) -> None:
    if sort.removeprefix("-") not in known:
        raise ValueError(f"sort: {sort[:40]!r} is not a column to sort by; choose from {', '.join(filter(None, known))}")


def _named(name: str) -> dict[str, str]:
    return {**PRIVATE, "content-disposition": f'attachment; filename="{name}"'}


def _saved(hosted: HostedRanker) -> bytes:
    with hosted.folding:
        return hosted.fold.ranker.save()


class _Kept:
    """Answers cached for KEPT seconds, made off the event loop, one at a time."""

    def __init__(self, make: Callable[..., bytes]) -> None:
        self._make = make
        self._made: dict[tuple[Any, ...], tuple[float, bytes]] = {}
        self._making = asyncio.Lock()

    async def get(self, *asked: Any) -> bytes:
        async with self._making:
            now = asyncio.get_running_loop().time()
            self._made = {key: kept for key, kept in self._made.items() if now - kept[0] < KEPT}
            if asked not in self._made:
                self._made[asked] = (now, await asyncio.to_thread(self._make, *asked))
            return self._made[asked][1]


async def _log(service: Service, hosted: HostedRanker) -> AsyncIterator[bytes]:
    """A ranker's events, one line of JSON each, read while they are sent: memory does not grow with the log."""
    after = 0
    while True:
        after, lines = await asyncio.to_thread(_lines, service, hosted, after)
        if not lines:
            return
        yield lines


def _lines(service: Service, hosted: HostedRanker, after: int) -> tuple[int, bytes]:
    events = service.store.events(after, CHUNK, hosted.stored.number)
    encoded = [msgspec.json.encode(_row(hosted, event)) for event in events]
    return events[-1].seq if events else after, b"".join(line + b"\n" for line in encoded)


def _row(hosted: HostedRanker, event: Event) -> dict[str, Any]:
    positions, row = hosted.spec.positions, {"seq": event.seq, "at": event.at, "kind": Kind(event.kind).name.lower()}
    more: dict[str, Any] = {"served": event.served} if event.served else {}
    if items := names_of(event, positions, hosted.first_ids):
        more["items"] = items
    if event.kind in (Kind.LEARNED, Kind.REPORTED):
        more["clicks"] = unpack_clicks(event.clicks, positions)[: shown_in(event.payload, positions)].tolist()
    return row | more
