"""The routes. Each reads what it was sent, calls the service and says what happened; all else is in ``gate.py``."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import msgspec
from litestar import Litestar, MediaType, Request, Response
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig, ResponseSpec
from litestar.params import JSONBody, PathParameter
from prometheus_client import CollectorRegistry, generate_latest

from recurrank import __version__
from recurrank.serving.http import schema as s
from recurrank.serving.http.decoder import Decoder
from recurrank.serving.http.fast_routes import FastRoutes
from recurrank.serving.http.gate import Gate, Limits
from recurrank.serving.http.keyring import KeyRing
from recurrank.serving.http.metrics import ServiceCollector
from recurrank.serving.http.openapi import complete
from recurrank.serving.http.problems import Refused, explain, problem
from recurrank.serving.http.routes import ANY_KEY, PUBLIC, Route, Table, route, same_route
from recurrank.serving.http.upload import Bounds
from recurrank.serving.service import Service

RankerName = Annotated[str, PathParameter(pattern=s.Name, description="letters, digits, dots, dashes, underscores")]


def _problems(*statuses: int) -> dict[int, ResponseSpec]:
    always = (400, 401, 403, 408, 413, 421, 429, 503)
    media = "application/problem+json"
    return {status: ResponseSpec(s.Problem, media_type=media) for status in sorted({*always, *statuses})}


class Pages(Protocol):
    """What else is served: pages for people, and what they are made of."""

    @property
    def routes(self) -> Sequence[Route]:
        """Their part of the table of routes."""

    def stop(self) -> None:
        """End what would go on: the server is about to."""


def make_app(service: Service, keys: KeyRing | None = None, limits: Limits | None = None, pages: Pages | None = None) -> Any:
    """The ASGI application of a service."""
    limits = limits or Limits()
    registry = CollectorRegistry()
    registry.register(ServiceCollector(service))
    fast = FastRoutes(service)
    creating = asyncio.Semaphore(1)  # a ranker takes several times the memory of its catalogue while it is made
    decoder = Decoder(Bounds(bytes=limits.catalogue), limits.decoding)

    @route(
        "PUT", "/v1/rankers/{name}", "admin", file=True,
        status_code=200, responses=_problems(404, 409, 415), operation_id="create_ranker", tags=["rankers"],
    )  # fmt: skip
    async def create_ranker(name: RankerName, request: Request[Any, Any, Any]) -> s.Created:
        """Make a ranker. The very same request again changes nothing; another one under the name is a conflict.

        A large catalogue may be sent as a file, .npy, Parquet or CSV, with the settings in the query.
        """
        _check_name(name)
        body = await request.body()
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        asked = await decoder.ranker(kind, body, dict(request.query_params))
        async with creating:
            return s.Created(name, await asyncio.to_thread(service.create, name, *asked))

    @route("GET", "/v1/rankers", "admin", responses=_problems(), operation_id="list_rankers", tags=["rankers"])
    async def list_rankers() -> list[s.RankerLine]:
        """All rankers."""
        service.check_started()
        return [_line(service, name) for name in service.names()]

    @route("GET", "/v1/rankers/{name}", "admin", responses=_problems(404), operation_id="show_ranker", tags=["rankers"])
    async def show_ranker(name: RankerName) -> s.RankerStatus:
        """What a ranker has learned: blocks, phases, counts, click rates, the leading items with intervals."""
        status = await asyncio.to_thread(service.status, name)  # it may have to wait for a decision that is being made
        return msgspec.convert(status, s.RankerStatus)

    @route(
        "DELETE", "/v1/rankers/{name}", "admin",
        status_code=204, responses=_problems(404), operation_id="delete_ranker", tags=["rankers"],
    )  # fmt: skip
    async def delete_ranker(name: RankerName) -> None:
        """Delete a ranker. Its events stay in the log."""
        await asyncio.to_thread(service.delete, name)

    @route(
        "POST", "/v1/rankers/{name}/rank", "rank", fast=fast.rank_bytes,
        status_code=200, responses=_problems(404, 409), operation_id="rank", tags=["slates"],
    )  # fmt: skip
    async def rank(name: RankerName, data: JSONBody[s.AskSlate | None] = None) -> s.RankedSlate:
        """A slate to show. It is on disk before it is answered; the same id again gives the same slate."""
        return await fast.rank(name, data)

    @route(
        "POST", "/v1/feedback", "feedback", fast=fast.feedback_bytes,
        status_code=200, responses=_problems(), operation_id="feedback", tags=["slates"],
    )  # fmt: skip
    async def feedback(data: JSONBody[list[s.NewReport]]) -> list[s.Reported]:
        """Report clicks, up to 1,000 slates at once. Repeating or splitting reports changes nothing; each gets its status."""
        return await fast.feedback(data)

    @route("GET", "/healthz", PUBLIC, responses=_problems(), operation_id="healthz", tags=["operation"])
    async def healthz() -> s.Health:
        """The process answers."""
        return s.Health("ok", service.learning, 0)

    @route("GET", "/readyz", PUBLIC, responses=_problems(), operation_id="readyz", tags=["operation"])
    async def readyz() -> s.Health:
        """Whether this server can rank and take feedback. Rankers whose log is damaged are listed; the others work."""
        if keys is not None and keys.problem:
            raise Refused(503, keys.problem)
        service.check_started()
        if service.trouble():
            raise Refused(503, "store: it cannot be used now; nothing that was acknowledged is lost", {"retry-after": "1"})
        return s.Health("ok", service.learning, service.lag(), service.failed, sorted(service.broken))

    @route(
        "GET", "/metrics", ANY_KEY, media_type=MediaType.TEXT, responses=_problems(), operation_id="metrics", tags=["operation"]
    )
    async def metrics() -> str:
        """For Prometheus."""
        return generate_latest(registry).decode()

    @route("GET", "/openapi.json", ANY_KEY, include_in_schema=False, sync_to_thread=False)
    def openapi() -> dict[str, Any]:
        return document()

    @functools.cache
    def document() -> dict[str, Any]:
        return complete(inner.openapi_schema.to_schema())

    table = Table([
        create_ranker, list_rankers, show_ranker, delete_ranker, rank, feedback, healthz, readyz, metrics, openapi,
        *(pages.routes if pages else ()),
    ])  # fmt: skip
    inner = Litestar(
        route_handlers=[one.handler for one in table.routes],
        guards=[same_route],
        openapi_config=OpenAPIConfig(
            title="recurrank", version=__version__, path="/litestar-docs", render_plugins=[], use_handler_docstrings=True
        ),
        exception_handlers={Exception: _explain},
        request_max_body_size=None,
        logging_config=None,
        debug=False,
    )
    inner.state.decoder = decoder
    return Gate(inner, table, keys, limits, registry)


def _check_name(name: str) -> None:
    if not re.fullmatch(s.Name, name):
        raise ValueError(f"name: {name[:80]!r} is not a valid name; give 1 to 64 letters, digits, dots, dashes or underscores")


def _line(service: Service, name: str) -> s.RankerLine:
    desk = service.desk(name)
    counts = desk.fold.counts
    rate = counts["clicks"] / counts["learned"] if counts["learned"] else None
    served, learned = counts["served"], counts["learned"]
    items, positions = len(desk.catalogue), desk.config.positions
    return s.RankerLine(name, desk.config.algorithm, items, positions, served, learned, len(desk.open), rate)


def _explain(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    if isinstance(error, HTTPException):
        error = Refused(error.status_code, _said(error))
    status, detail, headers = explain(error, request.scope["state"]["route"].path)
    return Response(problem(status, detail), status_code=status, media_type="application/problem+json", headers=headers)


def _said(error: HTTPException) -> str:
    extra = error.extra
    if isinstance(extra, list) and extra and isinstance(extra[0], dict):
        where, what = extra[0].get("key"), extra[0].get("message", error.detail)
        return f"{where}: {what}" if where else str(what)
    return str(error.detail)
