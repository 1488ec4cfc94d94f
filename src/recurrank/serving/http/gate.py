"""What every request passes: host, size and time limits, keys and roles, rates, metrics, a line in the log.

Plain ASGI: it reads the body itself, within a size and a time, and hands it on whole, so that no route ever waits for a client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram

from recurrank.serving import auth
from recurrank.serving.http.hot import Hot
from recurrank.serving.http.problems import Refused, explain, log, problem
from recurrank.serving.store import StoreError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OPEN_PATHS = ("/healthz", "/readyz")
KEYS_SECONDS = 2.0
DATA = ("/v1", "/dash")
"""Where rankers' own data is: to read it takes a role too."""


_CLOSE = {"connection": "close"}
"""The rest of a body that is refused is not read."""


class Limits(NamedTuple):
    """Of one request, and of one key."""

    body: int = 64 << 20
    json: int = 16 << 20  # of a body that is not a file: numbers in text take several times the memory
    reports: int = 2 << 20  # of feedback, and of a request to rank: read while others wait
    together: int = 256 << 20  # of all bodies under way
    seconds: float = 20.0
    rate: float = 10_000.0
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    origins: tuple[str, ...] = ()


class Gate:
    """ASGI middleware around the routes."""

    def __init__(
        self,
        app: Any,
        hot: Hot,
        keys: auth.Keys | None,
        limits: Limits,
        registry: CollectorRegistry,
        public: Callable[[str], bool] | None = None,
    ) -> None:
        self.app, self.hot, self.keys, self.limits = app, hot, keys, limits
        self._public = public or (lambda path: False)
        self._known: list[auth.Key] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._looked = float("-inf")
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if origin and origin in self.limits.origins:
                    message["headers"] = [
                        *message["headers"],
                        (b"access-control-allow-origin", origin.encode()),
                        (b"vary", b"origin"),
                    ]
            await send(message)

        try:
            self._check_host(headers)
            self._check_origin(scope["method"], origin, headers)
            if scope["method"] == "OPTIONS" and origin:
                await self._preflight(origin, answer)
                return
            if self.keys is not None and not self._open(scope["method"], scope["path"]):
                await self._look_at_keys(self.keys)
                self._check_key(scope, headers)
            body = await self._body(scope, headers, receive)
            self._holding += len(body)
            try:
                work = self.hot.answer(scope["path"], body) if scope["method"] == "POST" else None
                if work is None:
                    await self.app(scope, _once(body, receive), answer)
                else:
                    await _answered(work, scope["path"], answer)
            finally:
                self._holding -= len(body)
        except Exception as error:
            await _refuse(answer, Refused(*explain(error, scope["path"])))
        finally:
            route = _route(scope["path"])
            seconds = time.perf_counter() - began
            self._observe(route, status, seconds)
            if status >= 500 or status in (401, 403, 429):
                log.warning("request", method=scope["method"], route=route, status=status, seconds=round(seconds, 4))

    def _open(self, method: str, path: str) -> bool:
        """Whether no key is needed."""
        return not path.startswith("/v1") and (path in OPEN_PATHS or (method == "GET" and self._public(path)))

    def _observe(self, route: str, status: int, seconds: float) -> None:
        key = (route, status)
        if key not in self._observed:  # looking a label up costs more than counting
            self._observed[key] = (self.requests.labels(route, str(status)), self.latency.labels(route))
        counter, histogram = self._observed[key]
        counter.inc()
        histogram.observe(seconds)

    def _check_origin(self, method: str, origin: str, headers: dict[bytes, bytes]) -> None:
        """A page of another origin changes nothing, not even by the kind of request that browsers send unasked."""
        if origin and method not in ("GET", "HEAD", "OPTIONS") and origin not in self.limits.origins:
            host = headers.get(b"host", b"").decode("latin-1")
            if origin not in (f"http://{host}", f"https://{host}"):
                raise Refused(403, "origin: pages from there may not use this server; start it with --allow-origin for it")

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if "*" not in self.limits.hosts and name.lower() not in self.limits.hosts:
            raise Refused(421, "host: this name is not served here; start the server with --allow-host for it")

    async def _look_at_keys(self, keys: auth.Keys) -> None:
        """Keys may have been made or revoked. Only the first request waits for them: the store may be away."""
        if self._known is None:
            self._known, self._looked = await asyncio.to_thread(keys.all), time.monotonic()
        elif time.monotonic() - self._looked > KEYS_SECONDS and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._renew(keys))

    async def _renew(self, keys: auth.Keys) -> None:
        self._looked = time.monotonic()
        try:
            self._known = await asyncio.to_thread(keys.all)
        except (StoreError, ValueError) as error:  # those of before hold
            log.warning("keys cannot be read", why=str(error))

    def _check_key(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Roles are by route: rank, feedback, and admin for the rest that changes something."""
        if not self._known:
            return
        scheme, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        key = auth.owner(self._known, secret) if scheme.lower() == "bearer" else None
        if key is None:
            detail = "authorization: give a key, as in 'Authorization: Bearer rk_...'"
            raise Refused(401, detail, {"www-authenticate": "Bearer"})
        path, method = scope["path"], scope["method"]
        needed = "feedback" if path == "/v1/feedback" else "rank" if path.endswith("/rank") else "admin"
        if "admin" not in key.roles and needed not in key.roles and not (method == "GET" and not path.startswith(DATA)):
            raise Refused(403, f"authorization: this key may not do that; it needs the role {needed}")
        self._spend(key.name, time.monotonic())

    def _spend(self, name: str, now: float) -> None:
        """A bucket a key that fills at the rate and holds one second of it."""
        rate = self.limits.rate
        left, then = self._buckets.get(name, (rate, now))
        left = min(rate, left + (now - then) * rate)
        if left < 1:
            self._buckets[name] = (left, now)
            raise Refused(429, f"rate: more than {rate:g} requests a second with this key", {"retry-after": "1"})
        self._buckets[name] = (left - 1, now)

    async def _body(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        text = headers.get(b"content-type", b"application/json").startswith(b"application/json")
        most = min(self.limits.body, self.limits.json) if text else self.limits.body
        if scope["method"] == "POST":
            text, most = False, min(most, self.limits.reports)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise Refused(400, "content-length: not a number")
        refused: Refused | None = None
        if len(length) > 18 or int(length) > most:
            refused = _too_large(most, text)
            if b"expect" in headers:  # it waits to be told to send
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
                    if refused is not None:  # what is still to come is thrown away: who sends may only listen afterwards
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
        if origin not in self.limits.origins:
            raise Refused(403, "origin: pages from there may not use this server; start it with --allow-origin for it")
        allowed = [
            (b"access-control-allow-methods", b"GET, PUT, POST, DELETE"),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-max-age", b"600"),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": allowed})
        await send({"type": "http.response.body", "body": b""})


def _too_large(most: int, text: bool) -> Refused:
    instead = "; send a large catalogue as a .npy or Parquet file" if text else ""
    return Refused(413, f"body: at most {most:,} bytes are taken{instead}", _CLOSE)


def _once(body: bytes, receive: Receive) -> Receive:
    """The body as one message; then whatever comes."""
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _answered(work: Awaitable[bytes], path: str, send: Send) -> None:
    try:
        body = await work
    except Exception as error:
        await _refuse(send, Refused(*explain(error, path)))
        return
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _refuse(send: Send, refused: Refused) -> None:
    body = problem(refused.status, refused.detail)
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
    headers += [(name.encode(), value.encode()) for name, value in refused.headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _route(path: str) -> str:
    """A path without names in it, for metrics and logs."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["v1", "rankers"] and len(parts) > 2:
        parts[2] = "{name}"
    route = "/" + "/".join(parts if parts[0] != "dash" else parts[:1])
    known = ("/v1/rankers", "/v1/rankers/{name}", "/v1/rankers/{name}/rank", "/v1/feedback", "/dash", "/metrics", *OPEN_PATHS)
    return route if route in known else "other"
