"""The table of routes: the single source for which requests exist and who may make them.

A route is declared once, at its handler: method, path, role, kind of body. Routing, roles, metrics and the OpenAPI document
are all read from it. Nothing else is served: a path is looked up as it was sent, byte by byte, so that it has no second
spelling (no ``//``, ``..``, ``%2F``, trailing slash), and the check of the key and the handler always see the same
route.
"""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from recurrank.serving.auth import Key

PUBLIC, ANY_KEY = "public", "any key"
"""Roles of routes in addition to those of keys: no key needed; any key accepted."""

PROBED = ("/healthz", "/readyz", "/")
"""Paths that take HEAD, with which some load balancers probe: the answer to GET, without its body."""

Method = Literal["GET", "PUT", "POST", "PATCH", "DELETE"]

_PATH = re.compile(rb"/|(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)+")
"""Paths that are looked up: segments of unreserved characters, none of them empty, ``.`` or ``..``."""
_REMEMBERED = 4096
"""Size of the cache of routes by path; a lookup is five times as fast as matching."""


class Request(NamedTuple):
    """The input of a handler: the path's parameters, the query, headers, the whole body, the client's address, and its key."""

    parameters: tuple[str, ...]
    query: dict[str, str]
    headers: dict[bytes, bytes]
    body: bytes
    client: str
    key: Key | None = None

    @property
    def media(self) -> str:
        """The media type of the body; empty when none was given."""
        return self.headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()


class Answer(NamedTuple):
    """The output of a handler: bytes, or parts that are sent as they come, until the end or until the client has gone."""

    body: bytes | AsyncIterator[bytes]
    media: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = {}


Handler = Callable[[Request], Awaitable[Answer]]


class Operation(NamedTuple):
    """What the OpenAPI document says about a route, in addition to the handler's docstring."""

    id: str
    tag: str
    answer: Any = None  # the type of a JSON answer; str for text, None for nothing
    problems: tuple[int, ...] = ()  # statuses of refusals that not every route has


class Route(NamedTuple):
    """One method of one path.

    Attributes:
        method: the HTTP method.
        path: a template such as ``/v1/rankers/{name}``; also the label in metrics and logs.
        role: the role that a key needs (``admin`` may do everything), or ``PUBLIC`` or ``ANY_KEY``.
        handler: answers requests.
        file: whether the body may be a catalogue; otherwise it is small.
        about: for the OpenAPI document; None for routes that only the pages use.

    """

    method: str
    path: str
    role: str
    handler: Handler
    file: bool = False
    about: Operation | None = None


def route(
    method: Method, path: str, role: str, about: Operation | None = None, *, file: bool = False
) -> Callable[[Handler], Route]:
    """Declare a route; every route must state its role."""
    return lambda handler: Route(method, path, role, handler, file, about)


class Found(NamedTuple):
    """The result of looking up a path: its routes by method, and the values of its parameters."""

    routes: Mapping[str, Route]
    parameters: tuple[str, ...]


class Table:
    """All routes of a server."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._tree: dict[str, Any] = {}
        for declared in self.routes:
            node = self._tree
            for segment in declared.path.split("/")[1:]:
                node = node.setdefault("{}" if segment.startswith("{") else segment, {})
            methods = node.setdefault("", {})  # the only empty segment is that of "/"
            if declared.method in methods:
                raise ValueError(f"routes: {declared.method} {declared.path} is declared twice")
            methods[declared.method] = declared
            if declared.method == "GET" and declared.path in PROBED:
                methods["HEAD"] = declared  # the protocol leaves the body out
        self.find = functools.lru_cache(_REMEMBERED)(self._find)

    def _find(self, raw: bytes) -> Found | None:
        """The routes of a path as it was sent; None if there are none, or for another spelling."""
        if not _PATH.fullmatch(raw):
            return None
        node, parameters = self._tree, []
        for segment in raw.decode("ascii").split("/")[1:]:
            if segment in node:
                node = node[segment]
            elif "{}" in node:
                node = node["{}"]
                parameters.append(segment)
            else:
                return None
        methods = node.get("")
        return Found(methods, tuple(parameters)) if methods else None
