"""The server's own log: one line of JSON per event on standard error, without secrets or contents of requests.

An exception is logged with its type and traceback. Its message and the variables of its frames may hold what a client sent,
including keys, so they are left out.
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
    """The traceback of an exception: its type; file, line and function of each call, outermost first; the same of its cause."""
    calls = traceback.extract_tb(error.__traceback__)
    lines = [type(error).__name__, *(f"{call.filename}:{call.lineno} {call.name}" for call in calls)]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return lines if cause is None else [*lines, "because of", *frames(cause)]


def log_as_json(file: TextIO | None = None) -> Any:
    """Write log lines as JSON, by default to standard error; returns the server's logger."""
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
    """Replaces structlog's own tracebacks, which show variables."""
    given = event.pop("exc_info", None)
    error = sys.exc_info()[1] if given is True else given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        event["frames"] = frames(error)
    return event


def _without_secrets(_: Any, __: str, line: Any) -> Any:
    """Last resort: removes any key from the line, however it got there."""
    return _SECRET.sub(PREFIX + "[redacted]", line)
