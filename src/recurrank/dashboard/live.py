"""Server-sent events: one document per ranker, made at most once per period, and sent to all pages that show it.

Fifty pages cost little more than one: a document is made once, off the event loop, and only if something has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import structlog

from recurrank.serving.http.slots import Slot, Slots
from recurrank.serving.service import NotFound, Service

log = structlog.get_logger("recurrank.dashboard")

PERIOD = 1.0
"""Seconds between two documents of a ranker."""
HEARTBEAT = 15.0
"""Seconds after which something is sent, so that a dead connection is noticed."""
STREAMS = 500
"""Most streams open at a time."""


def event(name: str, document: Any) -> bytes:
    """A server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(document) + b"\n\n"


class Live:
    """The streams of all rankers. Everything runs in one event loop, except making documents."""

    def __init__(self, service: Service, document: Callable[[str], Any]) -> None:
        self._service, self._document = service, document
        self._channels: dict[str, _Channel] = {}
        self._slots = Slots(STREAMS, f"live: {STREAMS} pages are open already; close some", retry=10)
        self._ended = False

    def stop(self) -> None:
        """End every stream."""
        self._ended = True
        for channel in self._channels.values():
            channel.wake()

    def open(self, name: str) -> AsyncIterator[bytes]:
        """A stream of a ranker's documents; NotFound if there is no such ranker."""
        self._service.hosted(name)
        return self._stream(name, self._slots.take())

    async def _stream(self, name: str, slot: Slot) -> AsyncIterator[bytes]:
        channel = self._channels.setdefault(name, _Channel())
        channel.readers += 1
        if channel.task is None:
            channel.task = asyncio.create_task(self._feed(name, channel))
        sent: bytes | None = None
        try:
            while not self._ended:
                changed, message = channel.changed, channel.latest
                if message is not None and message is not sent:
                    sent = message
                    yield message
                elif channel.over:
                    return
                else:
                    try:
                        await asyncio.wait_for(changed.wait(), HEARTBEAT)
                    except TimeoutError:
                        yield b": still there\n\n"
        finally:
            slot.release()
            channel.readers -= 1
            if channel.readers == 0:
                channel.task.cancel()
                if self._channels.get(name) is channel:
                    del self._channels[name]

    async def _feed(self, name: str, channel: _Channel) -> None:
        """Make a document in each period in which the ranker has changed."""
        known: Any = None
        while not self._ended:
            try:
                state = self._state(name)
                if state != known:
                    channel.latest = event("ranker", await asyncio.to_thread(self._document, name))
                    known = state
                    channel.wake()
            except NotFound:
                channel.latest, channel.over = event("gone", {"name": name}), True
                channel.wake()
                return
            except Exception as error:  # for example the store is not available: it may come back
                if known != repr(error):
                    log.error("a page cannot be fed", ranker=name, why=repr(error))
                known = repr(error)
            await asyncio.sleep(PERIOD)

    def _state(self, name: str) -> Any:
        """A value that changes whenever there is something new to show."""
        hosted = self._service.hosted(name)
        late = self._service.store.late[hosted.stored.number]
        return hosted.stored.number, hosted.fold.seq, len(hosted.open), late, self._service.registry.broken.get(name)


class _Channel:
    """The readers of one ranker."""

    def __init__(self) -> None:
        self.readers = 0
        self.latest: bytes | None = None
        self.over = False
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()
