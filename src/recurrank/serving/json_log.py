"""The server's own log: one line of JSON per event on standard error, with no secret and nothing of a request in it.

Of an exception the log has its type and where it came from. Its message and the variables of its frames may hold what a client
sent, keys included, so they are left out.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from recurrank.serving.auth import PREFIX

_SECRET = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9_-]{8,}")


def frames(error: BaseException) -> list[str]:
    """Where an exception came from: its type and, outermost call first, file, line and function; then the same of its cause."""
    calls = traceback.extract_tb(error.__traceback__)
    lines = [type(error).__name__, *(f"{call.filename}:{call.lineno} {call.name}" for call in calls)]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return lines if cause is None else [*lines, "because of", *frames(cause)]


def log_as_json(file: TextIO | None = None) -> Any:
    """Write log lines as JSON, to standard error by default; the log of the server itself."""
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    render = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, _only_frames, render, _without_secrets],
        logger_factory=structlog.PrintLoggerFactory(file=file or sys.stderr),
        cache_logger_on_first_use=file is None,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    return structlog.get_logger("recurrank.run")


def _only_frames(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """In place of structlog's own tracebacks, which show variables."""
    given = event.pop("exc_info", None)
    error = sys.exc_info()[1] if given is True else given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        event["frames"] = frames(error)
    return event


def _without_secrets(_: Any, __: str, line: Any) -> Any:
    """The last resort: whatever put a key there, it is not written."""
    return _SECRET.sub(PREFIX + "[redacted]", line)
