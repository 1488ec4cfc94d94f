"""Traces for OpenTelemetry, off unless ``recurrank[otel]`` is installed and the ``OTEL_*`` variables ask for them.

Spans cover requests (:class:`Traced`), transactions, learning, snapshots and retention (:func:`span`). While traces are off,
the application is not wrapped at all, and a span costs a fraction of a microsecond per transaction, not per request.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import structlog

import recurrank

log = structlog.get_logger("recurrank.run")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_OFF: AbstractContextManager[Any] = nullcontext()
_tracer: Any = None
SENDING = 2.0
"""Time limit for sending the last spans when the server ends, in seconds."""


class Application(Protocol):
    """An ASGI application that knows its routes (``gate.py``)."""

    table: Any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

    def stop(self) -> None:
        """The server is about to end."""


def span(name: str, **attributes: int | str) -> AbstractContextManager[Any]:
    """A context manager that records a span; does nothing while traces are off."""
    tracer = _tracer  # it may become None meanwhile
    if tracer is None:
        return _OFF
    started: AbstractContextManager[Any] = tracer.start_as_current_span(name, attributes=attributes)
    return started


def asked_for(environment: MutableMapping[str, str]) -> bool:
    """Whether the variables ask for traces.

    >>> asked_for({"OTEL_TRACES_EXPORTER": "otlp"}), asked_for({"OTEL_SERVICE_NAME": "shop"})
    (True, False)
    """
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return False
    return exporter == "otlp" or any(environment.get(name) for name in _ENDPOINTS)


@contextmanager
def traced(application: Application) -> Iterator[Any]:
    """The application to serve: itself, or, if traces are asked for, a wrapper that records spans.

    Remaining spans are sent at the end.
    """
    provider = _provider() if asked_for(os.environ) else None
    if provider is None:
        yield application
        return
    try:
        with tracing(provider):
            yield Traced(application)
    finally:  # an unresponsive collector must not keep the server from its last snapshots
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(SENDING)


@contextmanager
def tracing(provider: Any) -> Iterator[None]:
    """Record spans with this provider inside."""
    global _tracer
    _tracer = provider.get_tracer("recurrank", recurrank.__version__)
    try:
        yield
    finally:
        _tracer = None


def _provider() -> Any:
    """The provider that sends spans to the collector; None, and a warning in the log, if there is none."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in (None, "http/protobuf"):
        log.warning("no traces: only http/protobuf is known", protocol=protocol)
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("no traces: OpenTelemetry is not installed; install recurrank[otel]")
        return None
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "recurrank"}
    provider = TracerProvider(resource=Resource.create({**named, "service.version": recurrank.__version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class Traced:
    """Wraps an application: records a span per request, named by method and route, a child of the caller's span if given."""

    def __init__(self, application: Application) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        self._application = application
        self._extract, self._kind, self._failed = extract, SpanKind.SERVER, Status(StatusCode.ERROR)
        self.stop = application.stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        found = self._application.table.find(scope["raw_path"])
        route = next(iter(found.routes.values())).path if found else "none"
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        attributes = {"http.request.method": scope["method"], "http.route": route}
        with _tracer.start_as_current_span(
            f"{scope['method']} {route}", self._extract(carrier), self._kind, attributes
        ) as current:  # fmt: skip

            async def answer(message: MutableMapping[str, Any]) -> None:
                if message["type"] == "http.response.start":
                    current.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        current.set_status(self._failed)
                await send(message)

            await self._application(scope, receive, answer)
