"""Connections: limits of their number and of silence, and early refusal of requests under overload.

Adds to uvicorn's protocol:

- A connection must send the headers of a request within ``headers`` seconds, in at most ``HEAD`` bytes, and must take the
  answers in time; uvicorn closes connections that are silent between requests.
- The number of connections is limited, in total and per address. A new one over the limit replaces one that has never sent a
  request, or else the one that has been idle longest; it is refused only if all are busy.
- While ``waiting`` requests wait for their answers, further ones are answered 503 at once, so that the accepted ones are
  answered in time. /healthz and /readyz are always answered.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import selectors
import socket
import time
from collections import Counter
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from recurrank.serving.http.problems import TITLES, log, problem

HEAD = 64 << 10
"""Most bytes of the headers of a request."""
BODY = 256 << 10
"""Bytes of a body that may be buffered; asyncio reads as many at a time. Beyond them reading pauses."""
SWEEP = 1.0
"""Seconds between two looks for connections that are silent for too long."""
ACCEPT, BACKLOG = 8, 1_024
"""Connections accepted in one turn of the event loop, and connections that the system queues until then. Accepting takes as
long as answering: a burst of connections must not fill a turn in which others wait."""
MANY, TURNS = 32, 0.02
"""Under overload, when more than ``MANY`` connections were read in one turn of the event loop, the next turns read none for at
most ``TURNS`` seconds. A request takes several turns from its first byte to its answer: so the accepted ones are answered
before hundreds of others are refused."""
RESERVE = 320
"""File descriptors reserved for the store, uploads and other processes, and for connections that are just accepted."""
PROBES = (b"/healthz", b"/readyz")


class Crowd(NamedTuple):
    """Limits of a server's connections."""

    connections: int = 4_000
    per_address: int = 2_000
    waiting: int = 64  # requests that wait for their answers
    headers: float = 10.0  # seconds for the headers of a request
    stalled: float = 60.0  # seconds that a client may fail to take an answer


def _answer(status: int, detail: str, *headers: str) -> bytes:
    body = problem(status, detail)
    head = [f"HTTP/1.1 {status} {TITLES[status]}", "content-type: application/problem+json", f"content-length: {len(body)}"]
    return "\r\n".join([*head, *headers, "", ""]).encode() + body


_CLOSE = "connection: close"
_FULL = _answer(503, "connections: too many are open; try again later", _CLOSE, "retry-after: 5")
_BUSY = _answer(503, "server: more is asked for than can be answered in time; try again later", "retry-after: 1")
_LONG = _answer(431, f"headers: at most {HEAD:,} bytes are taken", _CLOSE)
_LATE = _answer(408, "headers: they are not here in time", _CLOSE)


class Connections:
    """All connections of a server; creates uvicorn's protocols."""

    def __init__(self, crowd: Crowd) -> None:
        most = descriptors()
        self.crowd = crowd if most is None else crowd._replace(connections=max(1, min(crowd.connections, most - RESERVE)))
        self.open: dict[Connection, None] = {}  # in the order of arrival
        self.silent: dict[Connection, None] = {}  # those without a request so far, in the same order
        self.idle: dict[Connection, None] = {}  # those without a request since the last answer; longest idle first
        self.addresses: Counter[str] = Counter()
        self.waiting = 0
        self.refused: Counter[str] = Counter()
        self._sweeping: asyncio.TimerHandle | None = None

    def protocol(self) -> Any:
        """The protocol factory, for uvicorn's configuration."""
        return functools.partial(Connection, self)

    def admit(self, new: Connection) -> bool:
        """Register a new connection, if there is room, or room can be made."""
        address = new.address
        for full, of in (
            (self.addresses[address] >= self.crowd.per_address, address),
            (len(self.open) >= self.crowd.connections, None),
        ):
            if full and not self._make_room(of):
                self.refused["connections"] += 1
                return False
        self.open[new] = self.silent[new] = None
        self.addresses[address] += 1
        if self._sweeping is None:
            self._sweeping = new.loop.call_later(SWEEP, self._sweep, new.loop)
        return True

    def full(self) -> bool:
        """Whether no more requests may wait for their answers."""
        return self.waiting >= self.crowd.waiting

    def forget(self, gone: Connection) -> None:
        if gone in self.open:
            del self.open[gone]
            self.silent.pop(gone, None)
            self.idle.pop(gone, None)
            self.addresses[gone.address] -= 1
            if not self.addresses[gone.address]:
                del self.addresses[gone.address]

    def _make_room(self, address: str | None) -> bool:
        """Close a connection without a pending request; False if there is none."""
        quiet = (one for those in (self.silent, self.idle) for one in those if address is None or one.address == address)
        idle = next(quiet, None)
        if idle is None:
            return False
        idle.transport.abort()
        self.forget(idle)
        self.refused["idle"] += 1
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self.open):
            connection.check(now)
        if self.refused:
            log.warning("connections or requests refused", open=len(self.open), **self.refused)
            self.refused.clear()
        self._sweeping = loop.call_later(SWEEP, self._sweep, loop) if self.open else None


class Connection(HttpToolsProtocol):
    """A connection of a server."""

    def __init__(self, all_: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._all = all_
        self.address = ""
        self._due = float("inf")  # when the headers of a request must be complete
        self._stalled = float("inf")  # when the client must have taken what was sent
        self._head = 0  # bytes of headers so far; -1 after the headers
        self._receiving = False  # whether a request, including its body, is incomplete
        self._counted = False  # whether it counts as a waiting request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._due = self.loop.time() + self._all.crowd.headers
        if not self._all.admit(self):
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.forget(self)
        self.answering()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._head == 0 and self._all.full() and (self.cycle is None or self.cycle.response_complete) and _whole(data):
            self._all.silent.pop(self, None)
            self._all.idle.pop(self, None)
            self._refuse()  # without parsing: refusing must be cheap
            return
        if self._head >= 0:  # the beginning of a request, or more of its headers
            if self._head == 0:
                self._all.idle.pop(self, None)
                self._due = self.loop.time() + self._all.crowd.headers
            self._head += len(data)
        super().data_received(data)
        if self._head > HEAD and not self.transport.is_closing():
            self.transport.write(_LONG)
            self.transport.close()

    def on_message_begin(self) -> None:
        self._receiving = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        long = not 0 <= self._head <= HEAD and self._head_size() > HEAD  # more than the headers may have come
        self._head, self._due = -1, float("inf")
        self._all.silent.pop(self, None)
        if long or self.transport.is_closing():  # a refused request may be followed by another one
            self.cycle = _DONE  # type: ignore[assignment]
            self.transport.write(_LONG)
            self.transport.close()
            return
        overloaded = self._all.full() and not self.url.startswith(PROBES)
        if overloaded and (self.cycle is None or self.cycle.response_complete):
            self.cycle = _DONE  # type: ignore[assignment]
            self._refuse()
            return
        self.scope["state"]["connection"] = self
        super().on_headers_complete()

    def _head_size(self) -> int:
        """Bytes of the headers of this request and of its first line."""
        return len("GET  HTTP/1.1\r\n\r\n") + len(self.url) + sum(len(n) + len(v) + len(": \r\n") for n, v in self.headers)

    def on_body(self, body: bytes) -> None:
        """Buffer up to BODY bytes; uvicorn's own method stops reading at 64 kB, although the gate takes a body at once."""
        if self.cycle.response_complete or self.parser.should_upgrade() or len(self.cycle.body) + len(body) > BODY:
            super().on_body(body)
        else:
            self.cycle.body += body
            self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._receiving = False
        if self.cycle.response_complete:
            self._rest()
        elif not self._counted and self.scope["method"] != "PUT":
            self._counted = True  # uploads have their own queue
            self._all.waiting += 1
        super().on_message_complete()

    def answering(self) -> None:
        """The answer begins: the request is not waiting any more."""
        if self._counted:
            self._counted = False
            self._all.waiting -= 1

    def on_response_complete(self) -> None:
        self.answering()
        super().on_response_complete()
        if not self.pipeline:
            self._rest()

    def _refuse(self) -> None:
        self._all.refused["requests"] += 1
        self.transport.write(_BUSY)
        self._rest()

    def _rest(self) -> None:
        """The connection has no pending request."""
        self._head = -1 if self._receiving else 0  # the rest of a refused body is not a header
        self._all.idle[self] = None
        self._due = self.loop.time() + self.timeout_keep_alive

    def pause_writing(self) -> None:
        self._stalled = self.loop.time() + self._all.crowd.stalled
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled = float("inf")
        super().resume_writing()

    def check(self, now: float) -> None:
        """Close the connection if one of its deadlines has passed."""
        if now > self._stalled:
            self.transport.abort()
        elif now > self._due and (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            if self._head > 0:
                self.transport.write(_LATE)
            self.transport.close()


class _Done:
    """Stands for uvicorn's cycle of a request and its answer, when a request was refused."""

    response_complete = True
    keep_alive = True
    message_event = asyncio.Event()


_DONE = _Done()

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,7})[ \t]*(?=\r\n)", re.IGNORECASE)
_TRICKY = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade|connection)[ \t]*:", re.IGNORECASE)


def _whole(data: bytes) -> bool:
    """Whether these bytes are certainly exactly one whole request, and not one that is always answered."""
    end = data.find(b"\r\n\r\n")
    if not 0 < end < 8192 or data.partition(b" ")[2].startswith(PROBES):
        return False
    head = data[: end + 2]
    lengths = _LENGTH.findall(head)
    if len(lengths) != head.lower().count(b"content-length") or len(lengths) > 1 or _TRICKY.search(head):
        return False
    return len(data) == end + 4 + (int(lengths[0]) if lengths else 0)


class FairSelector(selectors.DefaultSelector):
    """Reads from all ready connections, and then lets their requests be answered: see ``MANY``."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0  # when connections are read again, while the loop has other work

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 and time.monotonic() < self._next:  # the loop has callbacks to run
            return []
        ready = super().select(timeout)
        self._next = time.monotonic() + TURNS if len(ready) > MANY else 0.0
        return ready


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of a server."""
    return asyncio.SelectorEventLoop(FairSelector())


def lengthen_queue(listening: Any) -> None:
    """Let the system queue more connections than are accepted in a turn; asyncio has one number for both."""
    with socket.socket(fileno=os.dup(listening.fileno())) as same:
        same.listen(BACKLOG)


def descriptors() -> int | None:
    """The limit of open files and connections of this process, after raising it as far as possible."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (ValueError, OSError):
            pass
    return None if soft == resource.RLIM_INFINITY else int(soft)
