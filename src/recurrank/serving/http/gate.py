"""What every request passes through: host, size and time limits, keys and roles, rates, metrics, a line in the log.

Plain ASGI: the gate reads the whole body itself, within limits of size and time, so that no route ever waits for a client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from prometheus_client import CollectorRegistry, Counter, Histogram

from recurrank.serving.auth import Key
from recurrank.serving.http.decoder import Decoder
from recurrank.serving.http.keyring import KeyRing
from recurrank.serving.http.problems import Refused, explain, log, problem
from recurrank.serving.http.routes import ANY_KEY, PUBLIC, Answer, Request, Route, Table

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

ONCE = (b"host", b"origin", b"authorization", b"content-type", b"content-length")
"""Headers that may be sent only once: of two, a proxy in front of the server may have used the other one."""

PIECE = 128 << 10
"""Bytes of an answer that are sent at a time."""

PARAMETERS = 100
"""Most parameters of a query."""

_CLOSE = {"connection": "close"}
"""Header of refusals after which the rest of the body is not read."""


class Limits(NamedTuple):
    """Limits of one request, and of one key; sizes in bytes."""

    body: int = 64 << 20
    json: int = 16 << 20  # of a body that is not a file: numbers in text take several times the memory
    reports: int = 2 << 20  # of feedback, and of a request to rank: read while others wait
    catalogue: int = 256 << 20  # of an uploaded catalogue, decoded
    together: int = 256 << 20  # of all bodies being read or handled
    seconds: float = 20.0  # seconds until a body is complete
    decoding: float = 60.0  # seconds until it is decoded
    rate: float | None = None  # requests per second and key; overload is refused even without it
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    origins: tuple[str, ...] = ()


class Gate:
    """The ASGI application: a table of routes, and the checks before it."""

    def __init__(
        self, table: Table, keys: KeyRing | None, limits: Limits, registry: CollectorRegistry, decoder: Decoder
    ) -> None:
        self.table, self.keys, self.limits, self._decoder = table, keys, limits, decoder
        self._buckets: dict[str, tuple[float, float]] = {}
        self._holding = 0  # bytes of bodies under way
        self._observed: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.requests = Counter("recurrank_requests", "Requests by route and status.", ["route", "status"], registry=registry)
        self.latency = Histogram(
            "recurrank_request_seconds",
            "Time from the first byte of a request to its answer.",
            ["route"],
            registry=registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
        )

    def stop(self) -> None:
        """End streams and processes: the server is about to stop."""
        self._decoder.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is served
        began, status, started = time.perf_counter(), 500, False
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        method: str = scope["method"]
        label = "other"
        connection = scope.get("state", {}).get("connection")

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                if connection is not None:
                    connection.answering()
                if origin and self._welcome(origin):
                    message["headers"] = [
                        *message["headers"],
                        (b"access-control-allow-origin", origin.encode()),
                        (b"access-control-expose-headers", b"retry-after"),
                        (b"vary", b"origin"),
                    ]
            elif len(message.get("body", b"")) > PIECE:
                await _in_pieces(message, send)
                return
            await send(message)

        try:
            if len(headers) < len(scope["headers"]):
                _check_once(scope["headers"])
            self._check_host(headers)
            if self.keys is not None and origin:
                await self.keys.look()
            self._check_origin(method, origin, headers)
            found = self.table.find(scope["raw_path"])
            if found is None:
                raise Refused(404, "path: there is nothing here; /docs lists what there is")
            if method == "OPTIONS" and origin:
                await self._preflight(origin, answer)
                return
            label = next(iter(found.routes.values())).path
            route = found.routes.get(method)
            if route is None:
                raise Refused(405, f"method: {method} is not one of this path", {"allow": ", ".join(found.routes)})
            key = await self._check_key(route, headers, found.parameters, origin)
            body = await self._body(route, headers, receive)
            self._holding += len(body)
            try:
                request = Request(found.parameters, _query(scope), headers, body, (scope.get("client") or ("",))[0], key)
                await _answer(await route.handler(request), receive, answer)
            finally:
                self._holding -= len(body)
        except Exception as error:
            refused = Refused(*explain(error, label))
            if started:  # too late for another answer: uvicorn closes the connection
                raise
            await _refuse(answer, refused)
        finally:
            seconds = time.perf_counter() - began
            self._observe(label, status, seconds)
            if status >= 500 or status in (401, 403, 429):
                log.warning("request", method=method, route=label, status=status, seconds=round(seconds, 4))

    def _observe(self, route: str, status: int, seconds: float) -> None:
        key = (route, status)
        if key not in self._observed:  # looking up a label costs more than counting
            self._observed[key] = (self.requests.labels(route, str(status)), self.latency.labels(route))
        counter, histogram = self._observed[key]
        counter.inc()
        histogram.observe(seconds)

    def _check_origin(self, method: str, origin: str, headers: dict[bytes, bytes]) -> None:
        """Refuse changes by pages of other origins, even those that browsers send without a preflight."""
        if origin and method not in ("GET", "HEAD", "OPTIONS") and not self._welcome(origin):
            host = headers.get(b"host", b"").decode("latin-1")
            if origin not in (f"http://{host}", f"https://{host}"):
                raise Refused(403, "origin: pages from there may not use this server; start it with --allow-origin for it")

    def _welcome(self, origin: str) -> bool:
        """Whether pages of this origin may use the server, entirely or with a key bound to the origin."""
        return origin in self.limits.origins or (self.keys is not None and origin in self.keys.origins)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if "*" not in self.limits.hosts and name.lower() not in self.limits.hosts:
            raise Refused(421, "host: this name is not served here; start the server with --allow-host for it")

    async def _check_key(
        self, route: Route, headers: dict[bytes, bytes], parameters: tuple[str, ...], origin: str
    ) -> Key | None:
        """Check the client's key and its rate, if the route needs a key; returns the key."""
        if self.keys is None:
            return None
        await self.keys.look(wait=route.role != PUBLIC)
        if route.role == PUBLIC or not self.keys.required:
            return None
        key = self.keys.owner(headers.get(b"authorization", b""))
        if route.role != ANY_KEY and route.role not in key.roles and "admin" not in key.roles:
            raise Refused(403, f"authorization: this key may not do that; it needs the role {route.role}")
        if route.role == ANY_KEY and (key.bound("origin") or key.bound("ranker")):  # such a key is in a page, so it is public
            raise Refused(403, "authorization: this key is bound to a ranker or to pages, and may not read what is about all")
        bound, rates = key.bound("origin"), [self.limits.rate, float(key.bound("rate") or "inf")]
        if bound is not None and origin != bound:
            raise Refused(403, f"authorization: this key is for pages of {bound}")
        if origin and origin not in self.limits.origins and origin in self.keys.origins and bound is None:
            raise Refused(403, "authorization: pages from there need a key that is bound to their origin")
        if (ranker := key.bound("ranker")) is not None and "{name}" in route.path and parameters[0] != ranker:
            raise Refused(403, f"authorization: this key is for the ranker {ranker!r}")
        if (rate := min(one for one in rates if one is not None)) < float("inf"):
            self._spend(key.name, rate, time.monotonic())
        return key

    def _spend(self, name: str, rate: float, now: float) -> None:
        """Count a request: each key has a bucket that fills at the rate, and holds one second of it."""
        most = max(1.0, rate)
        left, then = self._buckets.get(name, (most, now))
        left = min(most, left + (now - then) * rate)
        if left < 1:
            self._buckets[name] = (left, now)
            raise Refused(429, f"rate: more than {rate:g} requests per second with this key", {"retry-after": "1"})
        self._buckets[name] = (left - 1, now)

    async def _body(self, route: Route, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        text = headers.get(b"content-type", b"application/json").startswith(b"application/json")
        most = min(self.limits.body, self.limits.json) if text else self.limits.body
        if not route.file:
            text, most = False, min(most, self.limits.reports)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise Refused(400, "content-length: not a number")
        refused: Refused | None = None
        if len(length) > 18 or int(length) > most:
            refused = _too_large(most, text)
            if b"expect" in headers:  # the client waits to be told to send
                raise refused
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "body: the connection ended before it did")
                    part = message.get("body", b"")
                    if refused is None and size + len(part) > most:
                        refused = _too_large(most, text)
                    elif refused is None and self._holding + len(part) > self.limits.together:
                        again = {**_CLOSE, "retry-after": "1"}
                        refused = Refused(503, "body: too much is being sent at once; try again later", again)
                    if refused is not None:  # discard the rest: the client may read the answer only after sending
                        self._holding, size = self._holding - size, 0
                        parts.clear()
                    else:
                        parts.append(part)
                        self._holding, size = self._holding + len(part), size + len(part)
                    if not message.get("more_body"):
                        if refused is not None:
                            raise refused
                        return b"".join(parts) if len(parts) > 1 else part
        except TimeoutError as error:
            raise (refused or Refused(408, f"body: not here after {self.limits.seconds:g} seconds", _CLOSE)) from error
        finally:
            self._holding -= size

    async def _preflight(self, origin: str, send: Send) -> None:
        if not self._welcome(origin):
            raise Refused(403, "origin: pages from there may not use this server; start it with --allow-origin for it")
        allowed = [
            (b"access-control-allow-methods", b"GET, PUT, POST, PATCH, DELETE"),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-max-age", b"600"),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": allowed})
        await send({"type": "http.response.body", "body": b""})


def _too_large(most: int, text: bool) -> Refused:
    instead = "; send a large catalogue as a .npy or Parquet file" if text else ""
    return Refused(413, f"body: at most {most:,} bytes are taken{instead}", _CLOSE)


def _query(scope: Scope) -> dict[str, str]:
    query = scope["query_string"]
    if not query:
        return {}
    try:
        given = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=PARAMETERS)
    except ValueError as error:
        raise Refused(400, f"query: more than {PARAMETERS} parameters") from error
    found = dict(given)
    if len(found) < len(given):
        names = [name for name, _ in given]
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(400, f"query: {twice[:60]!r} is given twice; give it once")
    return found


async def _answer(given: Answer, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", given.media.encode())] if given.status != 204 else []
    headers += [(name.encode(), value.encode("latin-1")) for name, value in given.headers.items()]
    if isinstance(given.body, bytes):
        headers.append((b"content-length", b"%d" % len(given.body)))
        await send({"type": "http.response.start", "status": given.status, "headers": headers})
        await send({"type": "http.response.body", "body": given.body})
    else:
        await send({"type": "http.response.start", "status": given.status, "headers": headers})
        await _stream(given.body, receive, send)


async def _stream(parts: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send parts as they come, until the end or until the client has gone."""

    async def pump() -> None:
        async for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    pumping, waiting = asyncio.ensure_future(pump()), asyncio.ensure_future(gone())
    try:
        await asyncio.wait((pumping, waiting), return_when=asyncio.FIRST_COMPLETED)
        if pumping.done():
            pumping.result()
    finally:
        for task in (pumping, waiting):
            task.cancel()
        await asyncio.gather(pumping, waiting, return_exceptions=True)
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()


async def _refuse(send: Send, refused: Refused) -> None:
    body = problem(refused.status, refused.detail)
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
    headers += [(name.encode(), value.encode()) for name, value in refused.headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _in_pieces(message: MutableMapping[str, Any], send: Send) -> None:
    """Send a large body no faster than the client takes it: otherwise all of it would be buffered for each slow client."""
    body = memoryview(message["body"])
    for start in range(0, len(body), PIECE):
        more = start + PIECE < len(body) or message.get("more_body", False)
        await send({"type": "http.response.body", "body": bytes(body[start : start + PIECE]), "more_body": more})


def _check_once(headers: list[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in headers]
    for name in ONCE:
        if names.count(name) > 1:
            raise Refused(400, f"{name.decode()}: sent twice; send one such header")
