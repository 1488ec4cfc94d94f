"""A client of the service, for programs: :class:`Client`, and :class:`AsyncClient` for event loops.

Calls that fail on the way, or find the service busy, are made again: that is safe, since every call is idempotent. A slate's
id is chosen here, so that a repeated ``rank`` is the same slate.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from recurrank.slate import new_id

try:
    import httpx
except ImportError as error:
    raise ImportError("recurrank.Client needs httpx; install recurrank[client]") from error

AGAIN = (408, 429, 502, 503, 504)


class ServiceError(Exception):
    """The service refused: ``status`` and ``detail`` say why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status, self.detail = status, detail


class ServedSlate(NamedTuple):
    """A slate to show: report on it under ``slate``."""

    slate: str
    items: list[str]
    version: int


class _Requests:
    """What the two clients share: requests as data."""

    def __init__(self, url: str, key: str | None, timeout: float, tries: int) -> None:
        if tries < 1:
            raise ValueError(f"tries: {tries} is not a number of tries; give 1 or more")
        self._options: dict[str, Any] = {
            "base_url": url,
            "timeout": timeout,
            "headers": {} if key is None else {"authorization": f"Bearer {key}"},
        }
        self._tries = tries

    @staticmethod
    def _ranker(positions: int, items: Iterable[tuple[str, Sequence[float]]], settings: dict[str, Any]) -> dict[str, Any]:
        listed = [{"id": name, "features": [float(x) for x in features]} for name, features in items]
        return {"positions": positions, "items": listed, **settings}

    @staticmethod
    def _report(
        slate: str | ServedSlate, clicked: Iterable[int] | None, clicks: Iterable[int] | None, final: bool
    ) -> list[dict[str, Any]]:
        if (clicked is None) == (clicks is None):
            raise ValueError("clicked: give the positions that were clicked, counted from 0, once")
        positions = list(clicks if clicked is None else clicked)  # type: ignore[arg-type]
        if any(type(position).__name__.startswith("bool") for position in positions):  # numpy's, too
            raise ValueError("clicked: true and false are not positions; give the positions that were clicked, counted from 0")
        name = slate if isinstance(slate, str) else slate.slate
        return [{"slate": name, "clicks": [int(position) for position in positions], "final": final}]

    def _pause(self, attempt: int) -> float:
        return float(min(5.0, 0.1 * 2.0**attempt) * random.uniform(0.5, 1.0))

    @staticmethod
    def _done_before(attempt: int, method: str, answer: httpx.Response) -> bool:
        """A ranker that is gone when it is deleted again was deleted by the try before, whose answer was lost."""
        return attempt > 0 and method == "DELETE" and answer.status_code == 404

    @staticmethod
    def _read(answer: httpx.Response) -> Any:
        if answer.is_success:
            return answer.json() if answer.content else None
        try:
            detail = str(answer.json()["detail"])
        except (ValueError, KeyError, TypeError):
            detail = answer.reason_phrase
        raise ServiceError(answer.status_code, detail)


class Client(_Requests):
    """Rank and report over HTTP.

    Args:
        url: of the service, for example ``http://127.0.0.1:8080``.
        key: an API key, where the service asks for one.
        timeout: of one try, in seconds.
        tries: how often a call is made before it fails.

    ::

        with Client("http://127.0.0.1:8080") as client:
            slate = client.rank("films")
            client.feedback(slate, clicked=[0])  # the first item was clicked: "learned"

    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 10.0, tries: int = 5) -> None:
        super().__init__(url, key, timeout, tries)
        self._http = httpx.Client(**self._options)

    def create(self, name: str, positions: int, items: Iterable[tuple[str, Sequence[float]]], **settings: Any) -> bool:
        """Make a ranker of ``(id, features)`` items; True if it is new, False if the same one was there."""
        return bool(self._call("PUT", f"/v1/rankers/{name}", self._ranker(positions, items, settings))["created"])

    def rank(self, name: str, slate: str | None = None) -> ServedSlate:
        """A slate to show."""
        asked = {"slate": slate or new_id()}
        return ServedSlate(**self._call("POST", f"/v1/rankers/{name}/rank", asked))

    def feedback(
        self,
        slate: str | ServedSlate,
        clicked: Iterable[int] | None = None,
        final: bool = True,
        *,
        clicks: Iterable[int] | None = None,
    ) -> str:
        """Report the *positions* that were clicked, counted from 0 (not one boolean per position); what became of the report.

        ``clicks`` is an older name of ``clicked``.
        """
        return str(self._call("POST", "/v1/feedback", self._report(slate, clicked, clicks, final))[0]["status"])

    def status(self, name: str) -> dict[str, Any]:
        """What the ranker has learned."""
        return dict(self._call("GET", f"/v1/rankers/{name}"))

    def rankers(self) -> list[dict[str, Any]]:
        """All rankers."""
        return list(self._call("GET", "/v1/rankers"))

    def delete(self, name: str) -> None:
        """Delete a ranker."""
        self._call("DELETE", f"/v1/rankers/{name}")

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        for attempt in range(self._tries):
            last = attempt == self._tries - 1
            try:
                answer = self._http.request(method, path, json=body)
                if self._done_before(attempt, method, answer):
                    return None
                if answer.status_code not in AGAIN or last:
                    return self._read(answer)
            except httpx.TransportError:
                if last:
                    raise
            time.sleep(self._pause(attempt))
        raise AssertionError("the last try returns or raises")


class AsyncClient(_Requests):
    """:class:`Client` for an event loop: the same methods, awaited."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 10.0, tries: int = 5) -> None:
        super().__init__(url, key, timeout, tries)
        self._http = httpx.AsyncClient(**self._options)

    async def create(self, name: str, positions: int, items: Iterable[tuple[str, Sequence[float]]], **settings: Any) -> bool:
        """Make a ranker of ``(id, features)`` items; True if it is new, False if the same one was there."""
        return bool((await self._call("PUT", f"/v1/rankers/{name}", self._ranker(positions, items, settings)))["created"])

    async def rank(self, name: str, slate: str | None = None) -> ServedSlate:
        """A slate to show."""
        asked = {"slate": slate or new_id()}
        return ServedSlate(**await self._call("POST", f"/v1/rankers/{name}/rank", asked))

    async def feedback(
        self,
        slate: str | ServedSlate,
        clicked: Iterable[int] | None = None,
        final: bool = True,
        *,
        clicks: Iterable[int] | None = None,
    ) -> str:
        """Report the *positions* that were clicked, counted from 0 (not one boolean per position); what became of the report.

        ``clicks`` is an older name of ``clicked``.
        """
        return str((await self._call("POST", "/v1/feedback", self._report(slate, clicked, clicks, final)))[0]["status"])

    async def status(self, name: str) -> dict[str, Any]:
        """What the ranker has learned."""
        return dict(await self._call("GET", f"/v1/rankers/{name}"))

    async def rankers(self) -> list[dict[str, Any]]:
        """All rankers."""
        return list(await self._call("GET", "/v1/rankers"))

    async def delete(self, name: str) -> None:
        """Delete a ranker."""
        await self._call("DELETE", f"/v1/rankers/{name}")

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        for attempt in range(self._tries):
            last = attempt == self._tries - 1
            try:
                answer = await self._http.request(method, path, json=body)
                if self._done_before(attempt, method, answer):
                    return None
                if answer.status_code not in AGAIN or last:
                    return self._read(answer)
            except httpx.TransportError:
                if last:
                    raise
            await asyncio.sleep(self._pause(attempt))
        raise AssertionError("the last try returns or raises")
