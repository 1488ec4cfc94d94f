"""The routes that change items, and the rules of all slates."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from recurrank.serving.changes import SlateRules
from recurrank.serving.hosted_stock import HostedStock
from recurrank.serving.http import schema as s
from recurrank.serving.http.decoder import Decoder
from recurrank.serving.http.patching import MSGPACKS, read_patch, wanted_of
from recurrank.serving.http.problems import Refused
from recurrank.serving.http.routes import Answer, Operation, Request, Route, route
from recurrank.serving.http.upload import JSON
from recurrank.serving.service import Service

_encode = msgspec.json.Encoder().encode
_read_rules = msgspec.json.Decoder(SlateRules).decode


class Page(msgspec.Struct, forbid_unknown_fields=True):
    """The query parameters of a page of items."""

    after: Annotated[int, Meta(ge=0, le=10**9)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


def item_routes(service: Service, decoder: Decoder) -> list[Route]:
    """The routes."""
    changing = asyncio.Semaphore(1)  # each change takes several times the memory of the items

    @route(
        "PATCH",
        "/v1/rankers/{name}/items",
        "admin",
        Operation("change_items", "items", s.ItemsPatched, (404, 409, 415)),
        file=True,
    )
    async def change_items(request: Request) -> Answer:
        """Add, change and remove items, thousands at a time. Only for `anchored`, `balanced`, `recurrank`; others answer 409.

        All changes are made, or none. Once it is answered, no server shows a removed item. Removing an unknown item, and adding
        an existing one with the same features, is not an error: repeating the request changes nothing.
        """
        kind = request.media or JSON
        if kind != JSON and kind not in MSGPACKS:
            raise Refused(415, f"content-type: {kind[:60]!r} is not taken; send {JSON} or {MSGPACKS[0]}")
        async with changing:
            wanted = wanted_of(await decoder.rows(kind, request.body, read_patch))
            done = await asyncio.to_thread(service.change_items, request.parameters[0], wanted)
            return Answer(_encode(s.ItemsPatched(*done)))

    @route("GET", "/v1/rankers/{name}/items", "admin", Operation("list_items", "items", s.ItemsPage, (404,)))
    async def list_items(request: Request) -> Answer:
        """The items of a ranker with their features, one page at a time. `limit` is how many, `after` how many to skip."""
        try:
            page = msgspec.convert(request.query, Page, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"query: {error}") from error
        return Answer(_encode(await asyncio.to_thread(_page, service, request.parameters[0], page)))

    @route("PUT", "/v1/rankers/{name}/rules", "admin", Operation("set_rules", "items", s.RulesSet, (404, 409)))
    async def set_rules(request: Request) -> Answer:
        """Replace the rules of all slates of a ranker of requests. Once it is answered every server follows them.

        An excluded item is never shown, and a request that pins it is answered with 400. A pinned item is shown at its position
        whenever it is a candidate. `explore` limits the exploration of every request.
        """
        rules = _read_rules(request.body)
        version = await asyncio.to_thread(service.set_rules, request.parameters[0], rules)
        return Answer(_encode(s.RulesSet(rules, version)))

    @route("GET", "/v1/rankers/{name}/rules", "admin", Operation("show_rules", "items", s.RulesSet, (404, 409)))
    async def show_rules(request: Request) -> Answer:
        """The rules of all slates of a ranker of requests."""
        known = await asyncio.to_thread(service.rules, request.parameters[0])
        return Answer(_encode(s.RulesSet(known.rules, known.seq)))

    return [change_items, list_items, set_rules, show_rules]


def _page(service: Service, name: str, page: Page) -> s.ItemsPage:
    hosted, following = service.hosted(name), page.after + page.limit
    stock = service.stocked(name).stock if isinstance(hosted, HostedStock) else None
    if stock is not None and stock.origin is None:
        indices, total = stock.alive[page.after : following].tolist(), len(stock)
        items = [s.NewItem(str(stock.names[i]), stock.features[i].tolist()) for i in indices]
    else:
        features, total = hosted.catalogue.features, len(hosted.catalogue)
        items = [s.NewItem(hosted.first_ids[i], features[i].tolist()) for i in range(total)[page.after : following]]
    return s.ItemsPage(items, total, following if following < total else None)
