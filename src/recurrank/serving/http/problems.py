"""What went wrong, as an answer: a problem document (RFC 9457) with one line that says what, and what instead."""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec
import structlog
from litestar.exceptions import HTTPException

from recurrank.serving.service import Conflict, NotFound
from recurrank.serving.store import StoreError

log = structlog.get_logger("recurrank.http")


class Refused(Exception):
    """An answer instead of the route's."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}


TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def problem(status: int, detail: str) -> bytes:
    """A problem document."""
    document = {"title": TITLES.get(status, "Error"), "status": status, "detail": detail, "type": "about:blank"}
    return json.dumps(document).encode()


class Problem(NamedTuple):
    """Status, one line, and headers of the answer."""

    status: int
    detail: str
    headers: dict[str, str]


def explain(error: Exception, path: str) -> Problem:
    """What to answer, whatever went wrong; a stack trace goes only to the log."""
    match error:
        case Refused():
            return Problem(error.status, error.detail, error.headers)
        case NotFound():
            return Problem(404, str(error), {})
        case Conflict():
            return Problem(409, str(error), {})
        case StoreError():
            return Problem(503, "store: it cannot be written now; nothing was taken, try again", {"retry-after": "1"})
        case HTTPException():
            headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
            return Problem(error.status_code, _said(error), headers)
        case RecursionError():
            return Problem(400, "body: nested too deeply", {})
        case msgspec.MsgspecError():
            return Problem(400, f"body: {error}", {})
        case ValueError():
            return Problem(400, str(error), {})
    log.error("request failed", route=path, error=type(error).__name__, exc_info=error)
    return Problem(500, "something went wrong here; it was logged", {})


def _said(error: HTTPException) -> str:
    extra = error.extra
    if isinstance(extra, list) and extra and isinstance(extra[0], dict):
        where, what = extra[0].get("key"), extra[0].get("message", error.detail)
        return f"{where}: {what}" if where else str(what)
    return str(error.detail)
