"""An endless stream of visitors of a ranker: ``python -m benchmarks.stream PORT CONNECTIONS SLATES PARTS``.

Every connection asks for slates one after the other and reports on ten at a time. A line of JSON after each part
of the slates has its times of ``/rank``. Only counts are kept, so that it can run for hours.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import numpy as np

TOGETHER = 10
"""Slates reported on in one request."""

BINS, FINEST = 4_000, 1e-5
"""Bins of times, each half a percent longer than the last, and the seconds of the first: the precision of percentiles."""


class Times:
    """A histogram of times."""

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)

    def add(self, seconds: float) -> None:
        self.counts[min(BINS - 1, max(0, int(np.log(seconds / FINEST) / np.log(1.005))))] += 1

    def quantile(self, share: float) -> float:
        total = np.cumsum(self.counts)
        return float(FINEST * 1.005 ** int(np.searchsorted(total, share * total[-1])))


class Stream:
    """The state that all connections share."""

    def __init__(self, slates: int, parts: int) -> None:
        self.left, self.each, self.done = slates, slates // parts, 0
        self.times, self.began = Times(), time.perf_counter()
        self.refused = 0

    def next(self) -> str | None:
        """The id of the next slate; None after the last."""
        if self.left == 0:
            return None
        self.left -= 1
        return f"{self.left:x}-{self.left * 2654435761 % 2**32:08x}"

    def took(self, seconds: float, status: bytes) -> None:
        self.times.add(seconds)
        self.refused += status != b"200"
        self.done += 1
        if self.done % self.each == 0:
            elapsed = time.perf_counter() - self.began
            figures = {"p50": self.times.quantile(0.5), "p99": self.times.quantile(0.99), "a_second": self.each / elapsed}
            print(json.dumps({**figures, "refused": self.refused}), flush=True)
            self.times, self.began, self.refused = Times(), time.perf_counter(), 0


class Visitor(asyncio.Protocol):
    """One connection."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.shown, self.buffer, self.ranking = stream, list[str](), b"", False
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send()

    def send(self) -> None:
        slate = self.stream.next() if len(self.shown) < TOGETHER else None
        self.ranking = slate is not None
        if slate is not None:
            self.shown.append(slate)
            path, body = "/v1/rankers/films/rank", json.dumps({"slate": slate})
        elif self.shown:
            path, body = "/v1/feedback", json.dumps([{"slate": slate, "clicks": [1]} for slate in self.shown])
            self.shown = []
        else:
            self.transport.close()
            return
        self.began = time.perf_counter()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self.transport.write((head + body).encode())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        start = head.lower().find(b"content-length:")
        if not found or len(body) < (length := int(head[start + 15 :].split(b"\r\n", 1)[0])):
            return
        self.buffer = body[length:]
        if self.ranking:
            self.stream.took(time.perf_counter() - self.began, head[9:12])
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set_result(error)


async def main(port: int, connections: int, slates: int, parts: int) -> None:
    loop, stream = asyncio.get_running_loop(), Stream(slates, parts)
    visitors = [(await loop.create_connection(lambda: Visitor(stream), "127.0.0.1", port))[1] for _ in range(connections)]
    lost = [error for error in await asyncio.gather(*(visitor.ended for visitor in visitors)) if error is not None]
    if lost:
        raise SystemExit(f"{len(lost)} connections were lost: {lost[0]}")


if __name__ == "__main__":
    asyncio.run(main(*(int(argument) for argument in sys.argv[1:5])))
