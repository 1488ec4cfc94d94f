"""The routes of the API. Each decodes its request, calls the service and encodes the answer; ``gate.py`` does the rest."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

from recurrank.serving.http import schema as s
from recurrank.serving.http.asking import read_ask
from recurrank.serving.http.decoder import Decoder
from recurrank.serving.http.experiment_routes import experiment_routes
from recurrank.serving.http.gate import Gate, Limits
from recurrank.serving.http.item_routes import item_routes
from recurrank.serving.http.keyring import KeyRing
from recurrank.serving.http.metrics import ServiceCollector
from recurrank.serving.http.openapi import document
from recurrank.serving.http.problems import Refused
from recurrank.serving.http.routes import ANY_KEY, PUBLIC, Answer, Operation, Request, Route, Table, route
from recurrank.serving.http.upload import JSON, Bounds
from recurrank.serving.service import Service
from recurrank.serving.store.records import Report

REPORTS = 1_000
"""Most reports in one request."""

_encode = msgspec.json.Encoder().encode
_read_reports = msgspec.json.Decoder(list[s.NewReport]).decode


class Pages(Protocol):
    """What else is served: pages for people, and their files and data."""

    def routes(self, decoder: Decoder) -> Sequence[Route]:
        """Their part of the table of routes; ``decoder`` decodes uploads."""

    def stop(self) -> None:
        """End streams and processes: the server is about to stop."""


def make_app(service: Service, keys: KeyRing | None = None, limits: Limits | None = None, pages: Pages | None = None) -> Gate:
    """The ASGI application of a service."""
    limits = limits or Limits()
    registry = CollectorRegistry()
    registry.register(ServiceCollector(service))
    decoder = Decoder(Bounds(bytes=limits.catalogue), limits.decoding)
    routes = [*_ranker_routes(service, decoder), *_slate_routes(service), *item_routes(service, decoder)]
    routes += experiment_routes(service)
    routes += _operation_routes(service, keys, registry)

    @route("GET", "/openapi.json", ANY_KEY)
    async def openapi(_: Request) -> Answer:
        return Answer(described())

    @functools.cache
    def described() -> bytes:
        return _encode(document(routes))

    table = Table([*routes, openapi, *(pages.routes(decoder) if pages else ())])
    return Gate(table, keys, limits, registry, decoder)


def _ranker_routes(service: Service, decoder: Decoder) -> list[Route]:
    creating = asyncio.Semaphore(1)  # creating a ranker takes several times the memory of its catalogue

    @route("PUT", "/v1/rankers/{name}", "admin", Operation("create_ranker", "rankers", s.Created, (404, 409, 415)), file=True)
    async def create_ranker(request: Request) -> Answer:
        """Make a ranker. The same request again changes nothing; another one under this name is a conflict.

        A large catalogue may be sent as a file, .npy, Parquet or CSV, with the settings in the query.
        """
        name = _name(request)
        asked = await decoder.ranker(request.media or JSON, request.body, request.query)
        async with creating:
            return _json(s.Created(name, await asyncio.to_thread(service.create, name, *asked)))

    @route("GET", "/v1/rankers", "admin", Operation("list_rankers", "rankers", list[s.RankerLine]))
    async def list_rankers(_: Request) -> Answer:
        """All rankers."""
        service.registry.check_started()
        return _json([_line(service, name) for name in service.names()])

    @route("GET", "/v1/rankers/{name}", "admin", Operation("show_ranker", "rankers", s.RankerStatus, (404,)))
    async def show_ranker(request: Request) -> Answer:
        """What a ranker has learned: blocks, phases, counts, click rates, the leading items with intervals."""
        return _json(await asyncio.to_thread(service.status, _name(request)))  # a decision may be under way

    @route("DELETE", "/v1/rankers/{name}", "admin", Operation("delete_ranker", "rankers", None, (404,)))
    async def delete_ranker(request: Request) -> Answer:
        """Delete a ranker. Its events stay in the log."""
        await asyncio.to_thread(service.delete, _name(request))
        return Answer(b"", status=204)

    return [create_ranker, list_rankers, show_ranker, delete_ranker]


def _slate_routes(service: Service) -> list[Route]:
    @route("POST", "/v1/rankers/{name}/rank", "rank", Operation("rank", "slates", s.RankedSlate, (404, 409, 415)))
    async def rank(request: Request) -> Answer:
        """A slate to show. It is on disk before it is answered; the same id again gives the same slate.

        A ranker of requests (`anchored`) takes this visitor's candidates: ids of its items, or objects with `id` and
        `features`; features also as MessagePack, or as a .npy file with everything else in the query.
        """
        return Answer(_encode(s.RankedSlate(*await service.rank_async(request.parameters[0], *read_ask(request)))))

    @route("POST", "/v1/feedback", "feedback", Operation("feedback", "slates", list[s.Reported]))
    async def feedback(request: Request) -> Answer:
        """Report clicks, up to 1,000 slates at once. Repeating or splitting reports changes nothing; each gets its status."""
        reports = _read_reports(request.body)
        if len(reports) > REPORTS:
            raise Refused(413, f"body: {len(reports):,} reports; at most {REPORTS:,} at once")
        only = request.key.bound("ranker") if request.key is not None else None
        number = None if only is None else service.hosted(only).stored.number
        statuses = await service.feedback_async([_report(report, number) for report in reports])
        return Answer(_encode([s.Reported(r.slate, status) for r, status in zip(reports, statuses, strict=True)]))  # type: ignore[arg-type]

    return [rank, feedback]


def _operation_routes(service: Service, keys: KeyRing | None, registry: CollectorRegistry) -> list[Route]:
    @route("GET", "/healthz", PUBLIC, Operation("healthz", "operation", s.Health))
    async def healthz(_: Request) -> Answer:
        """Whether the process answers."""
        return _json(s.Health("ok", service.learner.learning, 0))

    @route("GET", "/readyz", PUBLIC, Operation("readyz", "operation", s.Health))
    async def readyz(_: Request) -> Answer:
        """Whether this server can rank and take feedback. Rankers whose log is damaged are listed; the others work."""
        if keys is not None and keys.problem:
            raise Refused(503, keys.problem)
        service.registry.check_started()
        if service.trouble():
            raise Refused(503, "store: it cannot be used now; nothing that was acknowledged is lost", {"retry-after": "1"})
        learner, broken = service.learner, sorted(service.registry.broken)
        return _json(s.Health("ok", learner.learning, service.lag(), learner.failed, broken))

    @route("GET", "/metrics", ANY_KEY, Operation("metrics", "operation", str))
    async def metrics(_: Request) -> Answer:
        """The metrics of this server, for Prometheus."""
        return Answer(generate_latest(registry), "text/plain; charset=utf-8")

    return [healthz, readyz, metrics]


def _report(report: s.NewReport, ranker: int | None) -> Report:
    return Report(report.slate, tuple(report.clicks), report.final, None if report.seen is None else tuple(report.seen), ranker)


def _json(document: Any) -> Answer:
    return Answer(_encode(document))


def _name(request: Request) -> str:
    name = request.parameters[0]
    if not re.fullmatch(s.Name, name):
        raise ValueError(f"name: {name[:80]!r} is not a valid name; give 1 to 64 letters, digits, dots, dashes or underscores")
    return name


def _line(service: Service, name: str) -> s.RankerLine:
    hosted = service.hosted(name)
    counts = hosted.fold.counts
    rate = counts["clicks"] / counts["learned"] if counts["learned"] else None
    served, learned = counts["served"], counts["learned"]
    items, positions = hosted.size, hosted.spec.positions
    return s.RankerLine(name, hosted.spec.algorithm, items, positions, served, learned, len(hosted.open), rate)
