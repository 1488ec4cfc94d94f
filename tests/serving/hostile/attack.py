"""Send hostile bodies to a real server, one after the other, and look at it meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.serving.hostile.bodies import Hostile


class Outcome(NamedTuple):
    """What a body came to: the answer, seconds until it, the slowest /healthz meanwhile, and the most memory of the server."""

    name: str
    size: int
    status: int
    detail: str
    seconds: float
    healthz: float
    memory: int


class Watch:
    """Asks for /healthz and looks at the memory of a process and its children, all the time."""

    def __init__(self, url: str, pid: int) -> None:
        self._host, self._pid = urlsplit(url).netloc, pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._fresh = threading.Event()
        self.slowest, self.memory = 0.0, 0
        self._thread.start()

    def reset(self) -> None:
        """Forget what was seen, and wait until it looks again: making a body may have kept this process busy."""
        self._fresh.clear()
        assert self._fresh.wait(timeout=120)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        line = http.client.HTTPConnection(self._host, timeout=60)
        while not self._over.wait(0.02):
            if not self._fresh.is_set():
                self.slowest, self.memory = 0.0, 0
                self._fresh.set()
            began = time.monotonic()
            line.request("GET", "/healthz")
            assert line.getresponse().read()
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.memory = max(self.memory, sum(map(_resident, [self._pid, *children(self._pid)])))
        line.close()


def children(pid: int) -> list[int]:
    """The child processes of a process."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # threads end meanwhile
            found += path.read_text().split()
    return [int(child) for child in found]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0


def attack(url: str, pid: int, bodies: Iterable[Hostile]) -> Iterator[Outcome]:
    """Send them all."""
    watch = Watch(url, pid)
    try:
        for hostile in bodies:
            line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
            watch.reset()
            began = time.monotonic()
            line.request(hostile.method, hostile.path, hostile.body, {"content-type": hostile.kind})
            answer = line.getresponse()
            detail = answer.read(500).decode("utf-8", "replace")
            seconds = time.monotonic() - began
            line.close()
            size = len(hostile.body)
            yield Outcome(hostile.name, size, answer.status, detail, seconds, watch.slowest, watch.memory)
    finally:
        watch.stop()
