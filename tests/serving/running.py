"""Real servers for tests, in processes of their own or in a thread."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import uvicorn
from tests import prepared

from recurrank.client import Client

ITEMS = [(f"i{n}", [1.0, n / 10]) for n in range(8)]
COMMAND = [sys.executable, "-W", "ignore", "-m", "recurrank", "serve", "--port", "0"]


SECRET = re.compile(r"rk_[A-Za-z0-9_-]{20,}")
"""A key, as no log may have it."""


class InThread:
    """An application behind a real server in a thread, on a port of its own or a given one."""

    def __init__(self, app, port: int = 0, **config) -> None:
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", port))
            self.port = free.getsockname()[1]
        self.server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=self.port, log_level="error", **config))
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        deadline = time.monotonic() + 20
        while not self.server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=20)


class Drained:
    """A pipe that is read as it fills, so that a server that has much to say never waits for a reader."""

    def __init__(self, pipe) -> None:
        self._pipe, self._text = pipe, ""
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with self._pipe:
            self._text = self._pipe.read()

    def read(self) -> str:
        """All of it, when the other side has ended."""
        self._thread.join(timeout=30)
        return self._text


@contextlib.contextmanager
def serving(*arguments: str, ready: bool = True, fresh: bool = False, **environment: str):
    """A server process and its address; by default once its rankers are restored: it listens before that.

    It is forked from a process that has loaded everything, unless it shall be ``fresh``.
    """
    start = subprocess.Popen if fresh else prepared.start
    process = start(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
    )
    process.stderr = Drained(process.stderr)
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+:\d+", line)
        assert found, (line, process.stderr.read() if process.poll() is not None else "")
        if ready:
            until(lambda: httpx.get(f"{found[0]}/readyz", timeout=30).status_code == 200, seconds=60)
        yield process, found[0]
    finally:
        process.kill()
        process.stdout.close()
        process.wait(timeout=30)
        said = process.stderr.read()
    assert not SECRET.search(said), "a server wrote a key to its log"


def use(client: Client, rounds: int, rng: np.random.Generator) -> list[str]:
    slates = []
    for _ in range(rounds):
        slate = client.rank("films")
        assert client.feedback(slate, [k for k in range(2) if rng.random() < 0.5]) == "learned"
        slates.append(slate.slate)
    return slates


def until(condition, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
