"""Ranking and feedback, the two routes that are called thousands of times a second.

litestar describes them; requests are answered here, from bytes to bytes. Its way through parameters and response objects takes
longer than drawing a slate and its share of a commit.
"""

from __future__ import annotations

import msgspec

from recurrank.serving.http import schema as s
from recurrank.serving.http.problems import Refused
from recurrank.serving.service import Service
from recurrank.serving.store.base import Report

REPORTS = 1_000
"""In one feedback request."""


class FastRoutes:
    """The two routes of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._ask = msgspec.json.Decoder(s.AskSlate | None)
        self._reports = msgspec.json.Decoder(list[s.NewReport])
        self._encode = msgspec.json.Encoder().encode

    async def rank(self, name: str, asked: s.AskSlate | None) -> s.RankedSlate:
        ranked = await self._service.rank_async(name, asked.slate if asked else None)
        return s.RankedSlate(ranked.slate, ranked.items, ranked.version)

    async def feedback(self, reports: list[s.NewReport]) -> list[s.Reported]:
        if len(reports) > REPORTS:
            raise Refused(413, f"body: {len(reports):,} reports; at most {REPORTS:,} at once")
        outcomes = await self._service.feedback_async([Report(r.slate, tuple(r.clicks), r.final) for r in reports])
        return [s.Reported(report.slate, outcome) for report, outcome in zip(reports, outcomes, strict=True)]  # type: ignore[arg-type]

    async def rank_bytes(self, parameters: tuple[str, ...], body: bytes) -> bytes:
        """:meth:`rank`, from bytes to bytes."""
        return self._encode(await self.rank(parameters[0], self._ask.decode(body) if body else None))

    async def feedback_bytes(self, parameters: tuple[str, ...], body: bytes) -> bytes:
        """:meth:`feedback`, from bytes to bytes."""
        return self._encode(await self.feedback(self._reports.decode(body)))
