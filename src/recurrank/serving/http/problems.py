"""Errors as answers: a problem document (RFC 9457) with one line that says what is wrong, and what to do instead."""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec
import structlog

from recurrank.serving.commit import Unanswered
from recurrank.serving.json_log import frames
from recurrank.serving.service import Conflict, NotFound, Unavailable
from recurrank.serving.store import StoreError

log = structlog.get_logger("recurrank.http")


class Refused(Exception):
    """Raised to answer with a problem document."""

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
    431: "Request Header Fields Too Large",
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


def explain(error: Exception, route: str) -> Problem:
    """The answer to any error; unknown errors are logged with their traceback, but nothing of the request."""
    match error:
        case Refused():
            return Problem(error.status, error.detail, error.headers)
        case NotFound():
            return Problem(404, str(error), {})
        case Conflict():
            return Problem(409, str(error), {})
        case Unavailable():
            return Problem(503, str(error), {"retry-after": "1"})
        case Unanswered():
            detail = "store: it does not answer; repeat the request, under the same slate id: what was written counts once"
            return Problem(503, detail, {"retry-after": "1"})
        case StoreError():
            return Problem(503, "store: it cannot be written now; nothing was taken, try again", {"retry-after": "1"})
        case RecursionError():
            return Problem(400, "body: nested too deeply", {})
        case msgspec.MsgspecError():
            return Problem(400, f"body: {error}", {})
        case ValueError():
            return Problem(400, str(error), {})
    log.error("request failed", route=route, error=type(error).__name__, frames=frames(error))
    return Problem(500, "something went wrong here; it was logged", {})
