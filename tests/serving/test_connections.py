"""Connections that are silent, slow or too many, and more requests than can be answered: others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import selectors
import socket
import threading
import time
from unittest.mock import MagicMock

import httpx
import pytest
import uvicorn
from tests.serving.running import COMMAND, ITEMS, serving, until
from uvicorn.server import ServerState

from recurrank.client import Client
from recurrank.serving.http.connections import HEAD, MANY, TURNS, Connections, Crowd, FairSelector, _whole
from recurrank.serving.http.problems import Refused
from recurrank.serving.http.slots import Slots

SMALL = Crowd(connections=20, per_address=12, waiting=4, headers=0.5, stalled=1.5)


class Application:
    """Answers when it is let; ``/large`` has a large answer."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.seen = 0

    async def __call__(self, scope, receive, send) -> None:
        self.seen += 1
        while (await receive()).get("more_body"):
            pass
        if scope["path"] == "/slow":
            await self.let.wait()
        body = bytes(1 << 20) if scope["path"] == "/large" else b"ok"
        scope["state"]["connection"].answering()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(50 if scope["path"] == "/large" else 1):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def small():
    """A real server with small limits, in a thread: its port, its application and its connections."""
    app, connections = Application(), Connections(SMALL)
    config = uvicorn.Config(
        app,
        port=0,
        log_level="critical",
        lifespan="off",
        http=connections.protocol(),
        timeout_keep_alive=5,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1], app, connections
    server.should_exit = True
    thread.join(timeout=20)


def dial(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0))


def ask(line: socket.socket, path: str = "/", method: str = "GET") -> bytes:
    line.sendall(f"{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    return line.recv(1 << 16)


def test_silent_connections_make_room_for_others(small):
    port, _, connections = small
    with contextlib.ExitStack() as held:
        silent = [held.enter_context(dial(port)) for _ in range(30)]
        until(lambda: len(connections.open) == SMALL.per_address)
        for _ in range(30):
            with dial(port) as line:
                assert ask(line).startswith(b"HTTP/1.1 200")
        others = [held.enter_context(dial(port, f"127.0.0.{n}")) for n in range(2, 32)]
        assert ask(others[-1]).startswith(b"HTTP/1.1 200")
        until(lambda: len(connections.open) == SMALL.connections)
        until(lambda: not connections.silent, seconds=10)  # all of them were silent for too long
        assert silent[-1].recv(100) == b""
    until(lambda: not connections.open)
    assert not connections.addresses


def test_when_all_are_busy_a_new_connection_is_refused(small):
    port, app, connections = small
    with contextlib.ExitStack() as held:
        busy = [held.enter_context(dial(port)) for _ in range(SMALL.per_address)]
        for line in busy:  # uploads do not count as waiting
            line.sendall(b"PUT /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        until(lambda: app.seen == len(busy))
        with dial(port) as line:
            answer = b"".join(iter(lambda: line.recv(1 << 16), b""))
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"connections: too many" in answer
        with dial(port, "127.0.0.2") as line:
            assert ask(line).startswith(b"HTTP/1.1 200")
        connections.open.copy().popitem()[0].loop.call_soon_threadsafe(app.let.set)
        assert all(line.recv(1 << 16).startswith(b"HTTP/1.1 200") for line in busy)


def test_dripping_and_long_headers_are_cut_off(small):
    port, _, connections = small
    with dial(port) as drip, dial(port) as again:
        assert ask(again).startswith(b"HTTP/1.1 200")  # a second request may not drip either
        again.sendall(b"GET / HTTP/1.1\r\n")
        drip.sendall(b"GET / HTTP/1.1\r\n")
        began, got = time.monotonic(), b""
        drip.settimeout(0.1)
        while not got and time.monotonic() < began + 20:
            with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
                drip.sendall(b"a: b\r\n")
                got = drip.recv(1000)
        assert got.startswith(b"HTTP/1.1 408")
        said = b""
        while b"HTTP/1.1 408" not in said and (part := again.recv(1000)):  # the end of the first answer may come before it
            said += part
        assert b"HTTP/1.1 408" in said
    with dial(port) as long:
        long.sendall(b"GET / HTTP/1.1\r\nx: " + b"a" * (HEAD + 100))
        assert long.recv(1000).startswith(b"HTTP/1.1 431")
    until(lambda: not connections.open)


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"])
def test_long_headers_in_one_piece_are_refused(small, before):
    """Also those of a second request, and nothing that follows them is answered."""
    port, app, _ = small
    end = b"\r\n\r\n"
    for head, seen in ((b"a" * (HEAD - 100), 2), (b"a" * (HEAD - 10), 0), (b"a" * 100_000, 0)):
        app.seen = 0
        with dial(port) as line:
            line.sendall(before + b"GET / HTTP/1.1\r\nx: " + head + end + b"GET / HTTP/1.1\r\nconnection: close" + end)
            answer = b"".join(iter(lambda: line.recv(1 << 16), b""))
        assert (b"HTTP/1.1 431" in answer) == (not seen)
        assert app.seen <= seen + bool(before)
        assert not seen or answer.count(b"HTTP/1.1 200") == app.seen == seen + bool(before)


def test_a_large_body_in_one_piece_is_not_a_header(small):
    port, _, _ = small
    with dial(port) as line:
        line.sendall(b"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" + bytes(200_000))
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_only_whole_and_plain_requests_are_refused_unread():
    rank = b"POST /v1/rankers/films/rank HTTP/1.1\r\nhost: x\r\n"
    assert _whole(rank + b"Content-Length: 2\r\n\r\n{}")
    assert _whole(b"GET /v1/rankers HTTP/1.1\r\nhost: x\r\n\r\n")
    for data in (
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",  # always answered
        b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n",
        rank + b"content-length: 2\r\n\r\n{",  # not all of it
        rank + b"content-length: 2\r\n\r\n{}GET",  # more than it
        rank + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
        rank + b"content-length : 2\r\n\r\n{}",
        rank + b"x: y\r\n content-length: 2\r\n\r\n",
        rank + b"transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n",
        rank + b"connection: close\r\n\r\n",
        rank,
    ):
        assert not _whole(data), data


def test_after_many_connections_were_read_what_was_taken_moves_on_first():
    with contextlib.ExitStack() as held:
        selector = held.enter_context(contextlib.closing(FairSelector()))
        pairs = [socket.socketpair() for _ in range(MANY + 1)]
        for near, far in pairs:
            held.enter_context(near), held.enter_context(far)
            selector.register(near, selectors.EVENT_READ)
            far.send(b"x")
        assert len(selector.select(0)) == MANY + 1  # an overload is read whole, to be refused at once
        assert selector.select(0) == []  # while callbacks wait, they run
        assert len(selector.select(1.0)) == MANY + 1  # when none does, there is nothing to wait for
        time.sleep(2 * TURNS)
        assert len(selector.select(0)) == MANY + 1  # and not for long
        selector.unregister(pairs[0][0])
        time.sleep(2 * TURNS)
        assert [len(selector.select(0)) for _ in range(2)] == [MANY, MANY]  # few connections are read in every turn


def test_the_rest_of_a_refused_body_is_not_a_header(small):
    port, app, _ = small
    with contextlib.ExitStack() as held:
        waiting = [held.enter_context(dial(port)) for _ in range(SMALL.waiting)]
        for line in waiting:
            line.sendall(b"POST /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        until(lambda: app.seen == SMALL.waiting)
        with dial(port) as line:
            line.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n")
            assert line.recv(1 << 16).startswith(b"HTTP/1.1 503")
            line.sendall(bytes(200_000))
            assert b"more is asked for" in ask(line)
            assert ask(line, "/healthz").startswith(b"HTTP/1.1 200")
        waiting[0].close()  # who leaves does not wait any more
        until(lambda: _free(port))


def _free(port: int) -> bool:
    with dial(port) as line:
        return ask(line, method="POST").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("parts", "paused"), [(1, False), (2, True)])
def test_a_connection_is_read_until_a_body_is_large(parts, paused):
    transport = MagicMock()
    transport.is_closing.return_value, transport.get_extra_info.return_value = False, None

    async def receive() -> None:
        config = uvicorn.Config(Application(), lifespan="off", ws="none")
        config.load()
        line = Connections(SMALL).protocol()(config=config, server_state=ServerState(), app_state={})
        line.connection_made(transport)
        line.data_received(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n")
        for _ in range(parts):
            line.data_received(bytes(200_000))
        assert len(line.cycle.body) == 200_000 * parts
        line.connection_lost(None)

    asyncio.run(receive())
    assert transport.pause_reading.called == paused


def test_who_does_not_take_the_answer_is_cut_off(small):
    port, _, connections = small
    with dial(port) as line:
        line.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        until(lambda: len(connections.open) == 1)
        until(lambda: not connections.open, seconds=60)
        line.settimeout(60)
        taken, more = 0, b"-"
        with contextlib.suppress(ConnectionResetError):
            while more:
                more = line.recv(1 << 20)
                taken += len(more)
        assert taken < 50 << 20  # the rest was never sent


def test_slots_are_taken_before_the_work_and_come_back():
    slots = Slots(2, "full", retry=1)
    held = [slots.take(), slots.take()]
    with pytest.raises(Refused, match="full"):
        slots.take()
    held[0].release()
    held[0].release()
    again = slots.take()
    with pytest.raises(Refused, match="full"):
        slots.take()

    async def never_started(slot) -> None:
        yield slot

    stream = never_started(held[1])
    held.clear()
    with pytest.raises(Refused, match="full"):
        slots.take()
    del stream  # nobody refers to the slot any more
    slots.take().release()
    again.release()


def test_idle_connections_at_a_low_limit_of_descriptors(tmp_path, monkeypatch):
    """600 idle sockets at ``ulimit -n 512``: others are answered."""
    limited = ["bash", "-c", 'ulimit -n 512; exec "$@"', "bash", *COMMAND]
    monkeypatch.setattr("tests.serving.running.COMMAND", limited)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("left out: fewer than 2,000 file descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with serving("--store", f"sqlite:///{tmp_path}/x.db") as (_, url), contextlib.ExitStack() as held:
        asked = {"positions": 2, "rounds": 1000, "items": [{"id": name, "features": row} for name, row in ITEMS]}
        assert httpx.put(f"{url}/v1/rankers/films", json=asked, timeout=120).status_code == 200
        port = int(url.rpartition(":")[2])
        for _ in range(600):
            held.enter_context(dial(port))
        with Client(url) as client:
            for _ in range(5):
                assert client.feedback(client.rank("films"), [0]) == "learned"
        assert httpx.get(f"{url}/healthz").status_code == 200
