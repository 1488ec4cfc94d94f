"""The table of routes, the only place that says which requests there are and who may make them.

A route is declared once, beside its handler: method, path, role, what its body may be. Routing, roles, metrics and the OpenAPI
document are all read from it. What is not in the table is not there: a path is looked up as it was sent, byte
by byte, so that no second spelling of it exists (no ``//``, ``..``, ``%2F``, trailing slash), and whoever checks a key
and whoever answers look at the same route.
"""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from recurrank.serving.auth import Key

PUBLIC, ANY_KEY = "public", "any key"
"""Roles of routes besides those of keys: no key is needed; any key will do."""

Method = Literal["GET", "PUT", "POST", "PATCH", "DELETE"]

_PATH = re.compile(rb"/|(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)+")
"""The one spelling of a path: segments of unreserved characters, none of them empty, ``.`` or ``..``."""
_REMEMBERED = 4096
"""Paths whose routes are remembered; looking one up is five times as fast as matching it."""


class Request(NamedTuple):
    """What a handler gets: the path's parameters, the query, headers, the body, whole, the client's address, and its key."""

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
    """What a handler gives: bytes, or parts that are sent as they come until there are no more or the client has gone."""

    body: bytes | AsyncIterator[bytes]
    media: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = {}


Handler = Callable[[Request], Awaitable[Answer]]


class Operation(NamedTuple):
    """What the OpenAPI document says about a route beside the handler's docstring."""

    id: str
    tag: str
    answer: Any = None  # the type of a JSON answer; str for text, None for nothing
    problems: tuple[int, ...] = ()  # statuses of refusals that not every route has


class Route(NamedTuple):
    """One method of one path.

    Attributes:
        method: of HTTP.
        path: a template, as ``/v1/rankers/{name}``; also the label in metrics and logs.
        role: the role that a key needs (``admin`` may do everything), or ``PUBLIC`` or ``ANY_KEY``.
        handler: answers.
        file: whether the body may be a catalogue; otherwise it is small.
        about: for the OpenAPI document; None for what is only for the pages.

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
    """Declare a route; every route has to state its role."""
    return lambda handler: Route(method, path, role, handler, file, about)


class Found(NamedTuple):
    """What the table has for a path: its routes by method, and the values of the path's parameters."""

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
        self.find = functools.lru_cache(_REMEMBERED)(self._find)

    def _find(self, raw: bytes) -> Found | None:
        """The routes of a path as it was sent; None where there are none, or for another spelling of one."""
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
