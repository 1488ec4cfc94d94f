"""Run a server until it is told to stop; it then drains within ten seconds, whatever the store does."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import structlog
import uvicorn

from recurrank.serving.garbage import collected_by_the_hour
from recurrank.serving.http.app import Pages, make_app
from recurrank.serving.http.connections import ACCEPT, Connections, Crowd, lengthen_queue, new_event_loop
from recurrank.serving.http.gate import Limits
from recurrank.serving.http.keyring import KeyRing
from recurrank.serving.json_log import log_as_json
from recurrank.serving.service import Service
from recurrank.serving.traces import traced

log = structlog.get_logger("recurrank.run")

DRAIN, END = 5, 9.0
"""Seconds after SIGTERM or Ctrl-C that requests may still take, and after which the process ends in any case."""


def serve(
    service: Service,
    keys: KeyRing,
    limits: Limits,
    host: str,
    port: int,
    ready: Callable[[str], None],
    pages: Pages | None = None,
    crowd: Crowd | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. ``ready`` is called with the address once the server listens."""
    log_as_json()
    with traced(make_app(service, keys, limits, pages)) as app:
        _serve(app, host, port, ready, pages, Connections(crowd or Crowd()))


def _serve(app: Any, host: str, port: int, ready: Callable[[str], None], pages: Pages | None, connections: Connections) -> None:
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN,
        timeout_keep_alive=30,
        backlog=ACCEPT,
        lifespan="off",
        ws="none",
        http=connections.protocol(),
    )
    # uvicorn raises the signal again once it has drained; it must have no effect then
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with (
            collected_by_the_hour(lambda: connections.waiting > 0) as collecting,
            asyncio.Runner(loop_factory=new_event_loop) as runner,
        ):
            collecting(runner.get_loop())
            server = _Server(config, ready, pages)
            runner.run(server.serve())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if not server.listened:
        raise ValueError(f"port: nothing can listen at {host}:{port} (in use, or not allowed); give another port")


def end_process(code: int) -> NoReturn:
    """End the process at once, after its exit handlers, when everything is closed.

    Python would clear its modules and collect garbage first: seconds on a busy machine, and the watchdog is dead by then.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, or nobody reads it
            stream.flush()
    os._exit(code)


class _Server(uvicorn.Server):
    """uvicorn's server, which also reports when and where it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None], pages: Pages | None) -> None:
        super().__init__(config)
        self._ready, self._pages = ready, pages
        self.listened = False

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        try:
            await super().startup(sockets=sockets)  # type: ignore[arg-type]
        except SystemExit:  # uvicorn cannot bind, and has logged why
            self.should_exit = True
            return
        if self.started:
            self.listened = True
            for listening in (listening for server in self.servers for listening in server.sockets):
                lengthen_queue(listening)
            name, port = self.servers[0].sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{name}]' if ':' in name else name}:{port}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            watchdog = threading.Timer(END, _end)
            watchdog.daemon = True
            watchdog.start()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        if self._pages is not None:
            self._pages.stop()  # streams do not end by themselves
        self.config.app.stop()  # type: ignore[union-attr]
        await super().shutdown(sockets=sockets)  # type: ignore[arg-type]


def _end() -> None:
    """End the process although a store or a client still blocks it: everything acknowledged is on disk."""
    log.error("stopped before everything had ended; nothing that was acknowledged is lost", seconds=END)
    os._exit(1)
