"""The table of routes, the only place that says which requests there are and who may make them.

A route is declared once, beside its handler: method, path, role, what its body may be. Routing, roles, metrics, the fast path
and the OpenAPI document are all read from it. What is not in the table is not there: a path is looked up as it was sent, byte
by byte, so that no second spelling of it exists (no ``//``, ``..``, ``%2F``, trailing slash), and whoever checks a key
and whoever answers look at the same route.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import litestar
from litestar.connection import ASGIConnection
from litestar.exceptions import NotFoundException
from litestar.handlers import BaseRouteHandler

PUBLIC, ANY_KEY = "public", "any key"
"""Roles of routes besides those of keys: no key is needed; any key will do."""

Method = Literal["GET", "PUT", "POST", "DELETE"]

Fast = Callable[[tuple[str, ...], bytes], Awaitable[bytes]]
"""A handler from the path's parameters and the body to a JSON answer, without litestar."""

_PATH = re.compile(rb"/|(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)+")
"""The one spelling of a path: segments of unreserved characters, none of them empty, ``.`` or ``..``."""
_REMEMBERED = 4096
"""Paths whose routes are remembered; looking one up is five times as fast as matching it."""


class Route(NamedTuple):
    """One method of one path.

    Attributes:
        method: of HTTP.
        path: a template, as ``/v1/rankers/{name}``; also the label in metrics and logs.
        role: the role that a key needs (``admin`` may do everything), or ``PUBLIC`` or ``ANY_KEY``.
        handler: litestar's handler.
        fast: answers instead of the handler where litestar would take longer than the work itself.
        file: whether the body may be a catalogue; otherwise it is small.

    """

    method: str
    path: str
    role: str
    handler: Any
    fast: Fast | None = None
    file: bool = False


def route(
    method: Method, path: str, role: str, *, fast: Fast | None = None, file: bool = False, **more: Any
) -> Callable[[Callable[..., Any]], Route]:
    """Declare a route; ``more`` goes to litestar. Every route has to state its role."""

    def declared(function: Callable[..., Any]) -> Route:
        template = re.sub(r"{(\w+)}", r"{\1:str}", path)
        handler = litestar.route(template, http_method=[method], opt={"route": (method, path)}, **more)(function)
        return Route(method, path, role, handler, fast, file)

    return declared


class Found(NamedTuple):
    """What the table has for a path: its routes by method, and the values of the path's parameters."""

    routes: Mapping[str, Route]
    parameters: tuple[str, ...]


class Table:
    """All routes of a server."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._tree: dict[str, Any] = {}
        for one in self.routes:
            node = self._tree
            for segment in one.path.split("/")[1:]:
                node = node.setdefault("{}" if segment.startswith("{") else segment, {})
            methods = node.setdefault("", {})  # the only empty segment is that of "/"
            if one.method in methods:
                raise ValueError(f"routes: {one.method} {one.path} is declared twice")
            methods[one.method] = one
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


def same_route(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Litestar finds the handler by the path again; it has to be the one that was checked."""
    checked: Route = connection.scope["state"]["route"]
    if handler.opt.get("route") != (checked.method, checked.path):
        raise NotFoundException
