"""Simulated users of a running service: slates over HTTP, clicks drawn from a model, reports late, lost and repeated."""

from __future__ import annotations

import asyncio
import heapq
import json
from typing import Any, NamedTuple

import numpy as np

from recurrank.clicks.model import ClickModel

GROUP = 50
"""Reports in one request."""


class Habits(NamedTuple):
    """How reports are lost, repeated and delayed; ``delay`` is the number of slates served before a report is sent."""

    lost: float = 0.0
    repeated: float = 0.0
    delay: int = 0


class Outcome(NamedTuple):
    """Every slate's items, whether its report was lost, and how often each status was answered."""

    items: np.ndarray[Any, Any]
    lost: np.ndarray[Any, Any]
    statuses: dict[str, int]


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes) -> Any:
    writer.write(
        b"POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
        % (path.encode(), len(body), body)
    )
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    answer = json.loads(await reader.readexactly(length))
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(str(answer))
    return answer


async def visit(
    port: int, ranker: str, model: ClickModel, slates: int, habits: Habits, seed: int, connections: int = 16
) -> Outcome:
    """Show this many slates. The ids of items must be their indices."""
    rng = np.random.default_rng(seed)
    seen: list[list[int]] = []
    lost: list[bool] = []
    statuses: dict[str, int] = {}
    waiting: list[tuple[int, int, bytes]] = []  # the slate when it is due, a tie-break, the report
    requested = 0

    async def report(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, all_of_them: bool) -> None:
        due = [heapq.heappop(waiting)[2] for _ in range(min(GROUP, len(waiting))) if all_of_them or waiting[0][0] <= len(seen)]
        if due:
            for answer in await post(reader, writer, "/v1/feedback", b"[" + b",".join(due) + b"]"):
                statuses[answer["status"]] = statuses.get(answer["status"], 0) + 1

    async def one_connection() -> None:
        nonlocal requested
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while requested < slates:
            requested += 1
            answer = await post(reader, writer, f"/v1/rankers/{ranker}/rank", b"{}")
            items = [int(item) for item in answer["items"]]
            number = len(seen)
            seen.append(items)
            lost.append(bool(rng.random() < habits.lost))
            if not lost[-1]:
                clicks = np.flatnonzero(model.sample(items, rng)).tolist()
                sent = json.dumps({"slate": answer["slate"], "clicks": clicks}).encode()
                for _ in range(2 if rng.random() < habits.repeated else 1):
                    heapq.heappush(waiting, (number + int(rng.integers(0, habits.delay + 1)), len(sent) + number, sent))
            if len(waiting) >= GROUP and waiting[GROUP // 2][0] <= len(seen):
                await report(reader, writer, all_of_them=False)
        while waiting:
            await report(reader, writer, all_of_them=True)
        writer.close()

    await asyncio.gather(*(one_connection() for _ in range(connections)))
    return Outcome(np.array(seen), np.array(lost), statuses)


def regret_of(model: ClickModel, outcome: Outcome) -> tuple[float, float]:
    """Expected clicks lost against the best slate: of the slates that were reported on, and of all."""
    best = model.expected(model.best(outcome.items.shape[1])).sum()
    rows, which = np.unique(outcome.items, axis=0, return_inverse=True)
    lost = np.array([best - model.expected(row).sum() for row in rows])[which.ravel()]
    return float(lost[~outcome.lost].sum()), float(lost.sum())
