"""Clients of the service for programs: :class:`Client`, and :class:`AsyncClient` for event loops.

A call that fails in transit, or finds the service busy or starting, is repeated: every call is idempotent. The client chooses
the slate's id, so that a repeated ``rank`` returns the same slate.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Iterable, Mapping
from typing import Any

from recurrank import _calls
from recurrank._calls import Call, Items, ServedSlate, T

try:
    import httpx
except ImportError as error:
    raise ImportError("recurrank.Client needs httpx; install recurrank[client]") from error

AGAIN = (408, 429, 502, 503, 504)
"""Statuses after which a call is repeated."""
LONGEST_PAUSE = 5.0
"""Most seconds between two tries, whatever the service asks for."""


class ServiceError(Exception):
    """The service refused: ``status`` and ``detail`` say why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status, self.detail = status, detail


class _Policy:
    """When a call is repeated, and what its last answer means."""

    def __init__(self, tries: int, timeout: float = 10.0) -> None:
        if tries < 1:
            raise ValueError(f"tries: {tries} is not a number of tries; give 1 or more")
        self._tries, self._timeout = tries, timeout

    def request(self, call: Call[Any]) -> dict[str, Any]:
        """The arguments of httpx's ``request``."""
        timeout = max(self._timeout, call.seconds)
        sent = {"method": call.method, "url": call.path, "params": call.query, "timeout": timeout}
        if call.content is None:
            return {**sent, "json": call.body}
        return {**sent, "content": call.content, "headers": {"content-type": "application/x-npy"}}

    def pause(self, attempt: int, outcome: httpx.Response | httpx.TransportError) -> float | None:
        """Seconds until the next try; None if this was the last one."""
        if attempt + 1 == self._tries:
            return None
        pause = 0.1 * 2.0**attempt * random.uniform(0.5, 1.0)
        if isinstance(outcome, httpx.Response):
            if outcome.status_code not in AGAIN:
                return None
            asked = outcome.headers.get("retry-after", "")
            pause = max(pause, float(asked) if asked.isdecimal() else 0.0)
        return min(pause, LONGEST_PAUSE)

    @staticmethod
    def read(call: Call[T], attempt: int, outcome: httpx.Response | httpx.TransportError) -> T:
        """The decoded answer; raises ServiceError or the error of the transport."""
        if isinstance(outcome, httpx.TransportError):
            raise outcome
        deleted_before = attempt > 0 and call.method == "DELETE" and outcome.status_code == 404  # by the try before
        if outcome.is_success or deleted_before:
            return call.read(outcome.json() if outcome.is_success and outcome.content else None)
        try:
            detail = str(outcome.json()["detail"])
        except (ValueError, KeyError, TypeError):
            detail = outcome.reason_phrase
        raise ServiceError(outcome.status_code, detail)


def _options(url: str, key: str | None) -> dict[str, Any]:
    return {"base_url": url, "headers": {} if key is None else {"authorization": f"Bearer {key}"}}


class Client:
    """Rank and report over HTTP.

    Args:
        url: of the service, for example ``http://127.0.0.1:8080``.
        key: an API key, where the service asks for one.
        timeout: seconds for one try; making a ranker may take longer.
        tries: how often a call is made before it fails. Between two tries it waits as long as the service asks for
            (``Retry-After``), up to five seconds.

    ::

        with Client("http://127.0.0.1:8080") as client:
            slate = client.rank("films")
            client.feedback(slate, clicked=[0])  # the first item was clicked: "learned"

    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 10.0, tries: int = 5) -> None:
        self._policy = _Policy(tries, timeout)
        self._http = httpx.Client(**_options(url, key))

    def create(self, name: str, positions: int, items: Items | None = None, **settings: Any) -> bool:
        """Make a ranker of ``(id, features)`` items; True if it is new, False if the same one existed.

        A ranker of requests (``algorithm="anchored"``) may have ``dim=`` instead of items.
        """
        return self._make(_calls.create(name, positions, items, settings))

    def rank(self, name: str, slate: str | None = None, *, propensity: bool = False, **request: Any) -> ServedSlate:
        """A slate to show; with ``propensity``, how probable what it shows was.

        ``baseline`` is the order that would be shown without the ranker, ``subject`` whom the slate is for.
        A ranker of requests takes this visitor's ``candidates`` (ids), ``features`` (one row per candidate, sent as binary),
        ``context``, ``segment``, ``exclude``, ``pin``, ``positions`` and ``explore``, as :meth:`rr.Anchored.rank` does.
        """
        return self._make(_calls.rank(name, slate, propensity, request))

    def change_items(self, name: str, *, add: Items = (), change: Items = (), remove: Iterable[str] = ()) -> dict[str, Any]:
        """Add, change and remove items of `anchored`, `balanced` or `recurrank`, thousands at a time; how many of each."""
        return self._make(_calls.change_items(name, add, change, remove))

    def items(self, name: str, after: int = 0, limit: int = 100) -> dict[str, Any]:
        """Some of a ranker's items with their features: ``items``, ``total``, and ``next``, where the next page begins."""
        return self._make(_calls.items(name, after, limit))

    def set_rules(
        self, name: str, *, exclude: Iterable[str] = (), pin: Mapping[int, str] = {}, explore: float = 1.0
    ) -> dict[str, Any]:
        """Replace the rules of all slates of a ranker of requests."""
        return self._make(_calls.set_rules(name, exclude, pin, explore))

    def feedback(
        self,
        slate: str | ServedSlate,
        clicked: Iterable[int] | None = None,
        final: bool = True,
        *,
        clicks: Iterable[int] | None = None,
        seen: Iterable[int] | None = None,
    ) -> str:
        """Report the *positions* that were clicked, counted from 0 (not one boolean per position); the report's status.

        ``seen`` are the positions that were on the screen, where that is known: those below teach nothing. ``clicks`` is an
        older name of ``clicked``.
        """
        return self._make(_calls.feedback(slate, clicked, clicks, final, seen))

    def status(self, name: str) -> dict[str, Any]:
        """What the ranker has learned."""
        return self._make(_calls.status(name))

    def experiment(self, name: str) -> dict[str, Any]:
        """A ranker's mode, and its comparison with the baseline."""
        return self._make(_calls.experiment(name))

    def set_experiment(self, name: str, **change: Any) -> dict[str, Any]:
        """Change a ranker's ``mode`` (``full``, ``shadow``, ``share``, ``interleave``), ``share``, ``margin`` or ``alpha``."""
        return self._make(_calls.set_experiment(name, change))

    def release(self, name: str) -> dict[str, Any]:
        """Release the brake: a ranker that it has stopped goes on."""
        return self._make(_calls.release(name))

    def rankers(self) -> list[dict[str, Any]]:
        """All rankers."""
        return self._make(_calls.rankers())

    def delete(self, name: str) -> None:
        """Delete a ranker."""
        self._make(_calls.delete(name))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self, call: Call[T]) -> T:
        outcome: httpx.Response | httpx.TransportError
        for attempt in itertools.count():
            try:
                outcome = self._http.request(**self._policy.request(call))
            except httpx.TransportError as error:
                outcome = error
            pause = self._policy.pause(attempt, outcome)
            if pause is None:
                return self._policy.read(call, attempt, outcome)
            time.sleep(pause)
        raise AssertionError  # unreachable: the last try has no pause


class AsyncClient:
    """:class:`Client` for an event loop: the same methods, awaited."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 10.0, tries: int = 5) -> None:
        self._policy = _Policy(tries, timeout)
        self._http = httpx.AsyncClient(**_options(url, key))

    async def create(self, name: str, positions: int, items: Items | None = None, **settings: Any) -> bool:
        """Make a ranker of ``(id, features)`` items; True if it is new, False if the same one existed.

        A ranker of requests (``algorithm="anchored"``) may have ``dim=`` instead of items.
        """
        return await self._make(_calls.create(name, positions, items, settings))

    async def rank(self, name: str, slate: str | None = None, *, propensity: bool = False, **request: Any) -> ServedSlate:
        """A slate to show; with ``propensity``, how probable what it shows was.

        ``baseline`` is the order that would be shown without the ranker, ``subject`` whom the slate is for.
        A ranker of requests takes this visitor's ``candidates`` (ids), ``features`` (one row per candidate, sent as binary),
        ``context``, ``segment``, ``exclude``, ``pin``, ``positions`` and ``explore``, as :meth:`rr.Anchored.rank` does.
        """
        return await self._make(_calls.rank(name, slate, propensity, request))

    async def change_items(
        self, name: str, *, add: Items = (), change: Items = (), remove: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Add, change and remove items of `anchored`, `balanced` or `recurrank`, thousands at a time; how many of each."""
        return await self._make(_calls.change_items(name, add, change, remove))

    async def items(self, name: str, after: int = 0, limit: int = 100) -> dict[str, Any]:
        """Some of a ranker's items with their features: ``items``, ``total``, and ``next``, where the next page begins."""
        return await self._make(_calls.items(name, after, limit))

    async def set_rules(
        self, name: str, *, exclude: Iterable[str] = (), pin: Mapping[int, str] = {}, explore: float = 1.0
    ) -> dict[str, Any]:
        """Replace the rules of all slates of a ranker of requests."""
        return await self._make(_calls.set_rules(name, exclude, pin, explore))

    async def feedback(
        self,
        slate: str | ServedSlate,
        clicked: Iterable[int] | None = None,
        final: bool = True,
        *,
        clicks: Iterable[int] | None = None,
        seen: Iterable[int] | None = None,
    ) -> str:
        """Report the *positions* that were clicked, counted from 0 (not one boolean per position); the report's status.

        ``seen`` are the positions that were on the screen, where that is known: those below teach nothing. ``clicks`` is an
        older name of ``clicked``.
        """
        return await self._make(_calls.feedback(slate, clicked, clicks, final, seen))

    async def status(self, name: str) -> dict[str, Any]:
        """What the ranker has learned."""
        return await self._make(_calls.status(name))

    async def experiment(self, name: str) -> dict[str, Any]:
        """A ranker's mode, and its comparison with the baseline."""
        return await self._make(_calls.experiment(name))

    async def set_experiment(self, name: str, **change: Any) -> dict[str, Any]:
        """Change a ranker's ``mode`` (``full``, ``shadow``, ``share``, ``interleave``), ``share``, ``margin`` or ``alpha``."""
        return await self._make(_calls.set_experiment(name, change))

    async def release(self, name: str) -> dict[str, Any]:
        """Release the brake: a ranker that it has stopped goes on."""
        return await self._make(_calls.release(name))

    async def rankers(self) -> list[dict[str, Any]]:
        """All rankers."""
        return await self._make(_calls.rankers())

    async def delete(self, name: str) -> None:
        """Delete a ranker."""
        await self._make(_calls.delete(name))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _make(self, call: Call[T]) -> T:
        outcome: httpx.Response | httpx.TransportError
        for attempt in itertools.count():
            try:
                outcome = await self._http.request(**self._policy.request(call))
            except httpx.TransportError as error:
                outcome = error
            pause = self._policy.pause(attempt, outcome)
            if pause is None:
                return self._policy.read(call, attempt, outcome)
            await asyncio.sleep(pause)
        raise AssertionError  # unreachable: the last try has no pause
