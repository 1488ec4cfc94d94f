"""Connections that the server takes for open pages: ``python -m benchmarks.viewers PORT RANKER COUNT`` follows a ranker's
events with COUNT connections until its standard input ends; then it prints, as JSON, the connection, the number of
slates learned from and the time of each event.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time


async def follow(port: int, ranker: str, number: int, heard: list[tuple[int, int, float]]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(f"GET /dash/rankers/{ranker}/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    try:
        while line := await reader.readline():
            if line.startswith(b"data: "):
                learned = int(line.partition(b'"learned":')[2].split(b",", 1)[0])
                heard.append((number, learned, time.monotonic()))
    finally:
        writer.close()


async def main(port: int, ranker: str, count: int) -> None:
    heard: list[tuple[int, int, float]] = []
    tasks = [asyncio.create_task(follow(port, ranker, number, heard)) for number in range(count)]
    while len({number for number, _, _ in heard}) < count:
        await asyncio.sleep(0.05)
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    print(json.dumps(heard))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
