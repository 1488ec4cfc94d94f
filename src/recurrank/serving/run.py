"""A server that runs until it is told to stop, and then drains within ten seconds."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from typing import Any

import structlog
import uvicorn

from recurrank.serving import auth
from recurrank.serving.http.app import Pages, make_app
from recurrank.serving.http.gate import Limits
from recurrank.serving.service import Service

DRAIN = 8
"""Seconds that requests may take after SIGTERM or Ctrl-C; the rest of ten is for the last commit and snapshot."""


def serve(
    service: Service,
    keys: auth.Keys,
    limits: Limits,
    host: str,
    port: int,
    ready: Callable[[str], None],
    pages: Pages | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. ``ready`` is called with the address once it listens."""
    _log_as_json()
    config = uvicorn.Config(
        make_app(service, keys, limits, pages),
        host=host,
        port=port,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN,
        timeout_keep_alive=30,
        lifespan="off",
    )
    server = _Server(config, ready, pages)
    # uvicorn raises a signal again once it has drained; by then it has done its work
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if not server.listened:
        raise ValueError(f"port: nothing can listen at {host}:{port} (in use, or not allowed); give another --port")


class _Server(uvicorn.Server):
    """uvicorn's, that says when and where it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None], pages: Pages | None) -> None:
        super().__init__(config)
        self._ready, self._pages = ready, pages
        self.listened = False

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        try:
            await super().startup(sockets=sockets)  # type: ignore[arg-type]
        except SystemExit:  # how uvicorn says that it cannot bind; it has logged why
            self.should_exit = True
            return
        if self.started:
            self.listened = True
            name, port = self.servers[0].sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{name}]' if ':' in name else name}:{port}")

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        if self._pages is not None:
            self._pages.stop()  # streams have no end of their own
        await super().shutdown(sockets=sockets)  # type: ignore[arg-type]


def _log_as_json() -> None:
    """A line of JSON an event, on standard error."""
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    plain: list[Any] = [structlog.processors.add_log_level, stamp, structlog.processors.dict_tracebacks]
    structlog.configure(
        processors=[*plain, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
