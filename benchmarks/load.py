"""A load generator: ``python -m benchmarks.load PORT CONNECTIONS SECONDS`` reads requests from standard input, a JSON list of
[method, path, body] per line, one line per connection (with a media type as a fourth element the body is base64); sends each
connection's requests in a cycle (once with SECONDS = 0), and prints the results as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time


class Connection(asyncio.Protocol):
    """One request after the other; an answer ends after its content length."""

    def __init__(self, requests: list[bytes], until: float, times: list[float], statuses: dict[str, int]) -> None:
        self.requests, self.until, self.times, self.statuses = requests, until, times, statuses
        self.sent, self.buffer = 0, b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.began = time.perf_counter()
        self.transport.write(self.requests[self.sent % len(self.requests)])  # type: ignore[attr-defined]
        self.sent += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        low = head.lower()
        start = low.find(b"content-length:")
        length = int(low[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
        if len(body) < length:
            return
        self.buffer = body[length:]
        now = time.perf_counter()
        self.times.append(now - self.began)
        status = head[9:12].decode()
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if now < self.until or (self.until == 0 and self.sent < len(self.requests)):
            self.send()
        else:
            self.transport.close()
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.statuses["lost"] = self.statuses.get("lost", 0) + 1
            self.done.set_result(None)


async def main(port: int, connections: int, seconds: float) -> None:
    prepared = []
    for line in sys.stdin:
        encoded = []
        for method, path, text, *kind in json.loads(line):
            body = base64.b64decode(text) if kind else text.encode()
            head = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-type: {kind[0] if kind else 'application/json'}"]
            encoded.append("\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode() + body)
        prepared.append(encoded)
    times: list[float] = []
    statuses: dict[str, int] = {}
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    done = []
    for number in range(connections):
        requests = prepared[number % len(prepared)]
        _, protocol = await loop.create_connection(
            lambda requests=requests: Connection(requests, began + seconds if seconds else 0, times, statuses),
            "127.0.0.1",
            port,
        )
        done.append(protocol.done)
    await asyncio.gather(*done)
    elapsed = time.perf_counter() - began
    times.sort()
    results = {"a_second": len(times) / elapsed, "p50": times[len(times) // 2], "p99": times[int(len(times) * 0.99)]}
    print(json.dumps({**results, "statuses": statuses}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
