"""What the pages fetch: JSON about rankers, live events, and files. All of it asks for a key where the server has keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import msgspec
from litestar import Request, Response
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from recurrank.dashboard import tables, view
from recurrank.dashboard.live import Live
from recurrank.dashboard.preview import preview
from recurrank.serving.events import Event, Kind, unpack_clicks, unpack_items
from recurrank.serving.http.routes import Route, route
from recurrank.serving.service import Desk, Service

PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
EVENTS = {**PRIVATE, "x-accel-buffering": "no"}
CHUNK = 2_000
"""Events of the log that are sent at a time."""
KEPT = 1.0
"""Seconds that a page of the list of rankers is good for: everybody who looks at the same one gets the same."""

Search = Annotated[str, QueryParameter(max_length=200)]
Sort = Annotated[str, QueryParameter(max_length=20)]
Page = Annotated[int, QueryParameter(ge=1, le=10**9)]


def _json(document: Any) -> Response[bytes]:
    return Response(msgspec.json.encode(document), media_type="application/json", headers=PRIVATE)


def routes(service: Service, live: Live) -> list[Route]:
    """The routes."""
    lists = _Kept(lambda *asked: msgspec.json.encode(tables.rankers(service, *asked)))

    @route("GET", "/dash/rankers", "admin", include_in_schema=False)
    async def list_rankers(search: Search = "", sort: Sort = "", page: Page = 1) -> Response[bytes]:
        _check_sort(sort, ("", "name", "items", "learned"))
        return Response(await lists.get(search, sort, page), media_type="application/json", headers=PRIVATE)

    @route("GET", "/dash/server", "admin", include_in_schema=False)
    async def server() -> Response[bytes]:
        return _json(await asyncio.to_thread(view.health, service))

    @route("GET", "/dash/rankers/{name}/live", "admin", include_in_schema=False)
    async def follow(name: FromPath[str]) -> Stream:
        return Stream(live.open(name), media_type="text/event-stream", headers=EVENTS)

    @route("GET", "/dash/rankers/{name}/items", "admin", include_in_schema=False)
    async def items(name: FromPath[str], search: Search = "", sort: Sort = "-rate", page: Page = 1) -> Response[bytes]:
        _check_sort(sort, tables.SORTS)
        return _json(await asyncio.to_thread(tables.items, service.desk(name), search, sort, page))

    @route("GET", "/dash/rankers/{name}/state", "admin", include_in_schema=False)
    async def state(name: FromPath[str]) -> Response[bytes]:
        saved = await asyncio.to_thread(_saved, service.desk(name))
        return Response(saved, media_type="application/octet-stream", headers=_named(f"{name}.recurrank"))

    @route("GET", "/dash/rankers/{name}/log", "admin", include_in_schema=False)
    async def log(name: FromPath[str]) -> Stream:
        lines = _log(service, service.desk(name))
        return Stream(lines, media_type="application/x-ndjson", headers=_named(f"{name}.ndjson"))

    @route("PUT", "/dash/preview", "admin", file=True, include_in_schema=False, status_code=200)
    async def look(request: Request[Any, Any, Any]) -> Response[bytes]:
        body = await request.body()
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        return _json(await request.app.state.decoder.document(kind, body, preview))

    return [list_rankers, server, follow, items, state, log, look]


def _check_sort(sort: str, known: tuple[str, ...]) -> None:
    if sort.removeprefix("-") not in known:
        raise ValueError(f"sort: {sort[:40]!r} is no column to sort by; choose from {', '.join(filter(None, known))}")


def _named(name: str) -> dict[str, str]:
    return {**PRIVATE, "content-disposition": f'attachment; filename="{name}"'}


def _saved(desk: Desk) -> bytes:
    with desk.folding:
        return desk.fold.ranker.save()


class _Kept:
    """Answers that are good for a while, made off the event loop, one at a time."""

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


async def _log(service: Service, desk: Desk) -> AsyncIterator[bytes]:
    """A ranker's events, a line of JSON each, read as they are sent: memory does not grow with the log."""
    after = 0
    while True:
        after, lines = await asyncio.to_thread(_lines, service, desk, after)
        if not lines:
            return
        yield lines


def _lines(service: Service, desk: Desk, after: int) -> tuple[int, bytes]:
    events = service.store.events(after, CHUNK, desk.stored.number)
    encoded = [msgspec.json.encode(_row(desk, event)) for event in events]
    return events[-1].seq if events else after, b"".join(line + b"\n" for line in encoded)


def _row(desk: Desk, event: Event) -> dict[str, Any]:
    positions, row = desk.config.positions, {"seq": event.seq, "at": event.at, "kind": Kind(event.kind).name.lower()}
    more: dict[str, Any] = {"served": event.served} if event.served else {}
    if event.payload:
        more["items"] = [desk.ids[item] for item in unpack_items(event.payload, positions)]
    if event.kind in (Kind.LEARNED, Kind.REPORTED):
        more["clicks"] = unpack_clicks(event.clicks, positions).tolist()
    return row | more
