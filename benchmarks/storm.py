"""Requests at a steady rate, regardless of their answers: ``python -m benchmarks.storm PORT PATH CONNECTIONS RATE SECONDS``.

Each connection sends a POST when it is due, if its last one is answered. Prints as JSON, by status: how many, and the median
and 99th percentile of the seconds until the answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time


class Sender(asyncio.Protocol):
    """One connection."""

    def __init__(self, request: bytes, times: dict[str, list[float]]) -> None:
        self.request, self.times, self.waiting, self.lost = request, times, False, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self) -> None:
        if not self.waiting and not self.lost:
            self.waiting, self.began = True, time.perf_counter()
            self.transport.write(self.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Answers are small: the first data is the whole answer, or all but the body of a slow one."""
        if self.waiting and data.startswith(b"HTTP/1.1 "):
            self.waiting = False
            self.times.setdefault(data[9:12].decode(), []).append(time.perf_counter() - self.began)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True


async def main(port: int, path: str, connections: int, rate: float, seconds: float) -> None:
    request = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\n\r\n{{}}".encode()
    times: dict[str, list[float]] = {}
    loop = asyncio.get_running_loop()
    senders = [(await loop.create_connection(lambda: Sender(request, times), "127.0.0.1", port))[1] for _ in range(connections)]
    began, sent = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        while sent < passed * rate:
            senders[sent % connections].send()
            sent += 1
        await asyncio.sleep(0.001)
    results = {}
    for status, took in times.items():
        took.sort()
        results[status] = {"number": len(took), "p50": took[len(took) // 2], "p99": took[int(len(took) * 0.99)]}
    print(json.dumps({"seconds": seconds, "statuses": results, "lost": sum(sender.lost for sender in senders)}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])))
