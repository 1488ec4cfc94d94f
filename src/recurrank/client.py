"""Clients of the service for programs: :class:`Client`, and :class:`AsyncClient` for event loops.

A call that fails on the way, or finds the service busy or starting, is repeated: every call is idempotent. A slate's id is
chosen here, so that a repeated ``rank`` returns the same slate.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from recurrank.slate import new_id

try:
    import httpx
except ImportError as error:
    raise ImportError("recurrank.Client needs httpx; install recurrank[client]") from error

AGAIN = (408, 429, 502, 503, 504)
"""Statuses after which a call is repeated."""
LONGEST_PAUSE = 5.0
"""Seconds between two tries at most, whatever the service asks for."""
CREATING = 120.0
"""Time limit for making a ranker, in seconds: its catalogue is sent and checked, and its algorithm may have to be compiled."""

CHANGING = 60.0
"""Time limit for changing items, in seconds."""
REQUEST = ("candidates", "features", "context", "segment", "exclude", "pin", "positions", "explore")
"""The fields that a request to a ranker of requests may have."""

T = TypeVar("T")
Items = Iterable[tuple[str, Sequence[float]]]
"""Ids and features."""


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
    propensity: list[float | None] | None = None
    joint: float | None = None


class _Call(NamedTuple, Generic[T]):
    """A request as data, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    seconds: float = 0.0  # minimum seconds allowed for one try, whatever the client's timeout
    query: dict[str, Any] | None = None
    content: bytes | None = None  # a .npy file in place of the body


def _create(name: str, positions: int, items: Items | None, settings: dict[str, Any]) -> _Call[bool]:
    body = {"positions": positions, **({} if items is None else {"items": _listed(items)}), **settings}
    return _Call("PUT", f"/v1/rankers/{name}", lambda answer: bool(answer["created"]), body, CREATING)


def _listed(items: Items) -> list[dict[str, Any]]:
    return [{"id": item, "features": [float(x) for x in features]} for item, features in items]


def _rank(name: str, slate: str | None, propensity: bool, request: dict[str, Any]) -> _Call[ServedSlate]:
    body: dict[str, Any] = {"slate": slate or new_id(), **({"propensity": True} if propensity else {})}
    path = f"/v1/rankers/{name}/rank"
    for field in request:
        if field not in REQUEST:
            raise TypeError(f"rank: {field!r} is not a field of a request; there are {', '.join(REQUEST)}")
    features = request.pop("features", None)
    body |= {field: _plain(value) for field, value in request.items() if value is not None}
    if "pin" in body:
        body["pin"] = {str(position): item for position, item in body["pin"].items()}
    if features is None:
        return _Call("POST", path, lambda answer: ServedSlate(**answer), body)
    query = {field: json.dumps(value) if isinstance(value, list | dict) else value for field, value in body.items()}
    if "candidates" in query:
        query["ids"] = query.pop("candidates")
    if "propensity" in query:
        query["propensity"] = "true"
    return _Call("POST", path, lambda answer: ServedSlate(**answer), query=query, content=_npy(features))


def _plain(value: Any) -> Any:
    """Arrays, tuples and sets as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple | set | frozenset) else value


def _npy(features: Any) -> bytes:
    """Rows of features as a .npy file; in single precision if they came so."""
    import numpy as np

    rows, sink = np.asarray(features), io.BytesIO()
    np.save(sink, rows if rows.dtype == np.float32 else rows.astype(np.float64), allow_pickle=False)
    return sink.getvalue()


def _change_items(name: str, add: Items, change: Items, remove: Iterable[str]) -> _Call[dict[str, Any]]:
    body = {"add": _listed(add), "change": _listed(change), "remove": list(remove)}
    return _Call("PATCH", f"/v1/rankers/{name}/items", dict, body, CHANGING)


def _items(name: str, after: int, limit: int) -> _Call[dict[str, Any]]:
    return _Call("GET", f"/v1/rankers/{name}/items", dict, query={"after": after, "limit": limit})


def _set_rules(name: str, exclude: Iterable[str], pin: Mapping[int, str], explore: float) -> _Call[dict[str, Any]]:
    body = {"exclude": list(exclude), "pin": {str(place): item for place, item in pin.items()}, "explore": explore}
    return _Call("PUT", f"/v1/rankers/{name}/rules", dict, body)


def _feedback(slate: str | ServedSlate, clicked: Iterable[int] | None, clicks: Iterable[int] | None, final: bool) -> _Call[str]:
    if (clicked is None) == (clicks is None):
        raise ValueError("clicked: give the positions that were clicked, counted from 0, once")
    positions = list(clicks if clicked is None else clicked)  # type: ignore[arg-type]
    if any(type(position).__name__.startswith("bool") for position in positions):  # also NumPy's booleans
        raise ValueError("clicked: true and false are not positions; give the positions that were clicked, counted from 0")
    name = slate if isinstance(slate, str) else slate.slate
    report = {"slate": name, "clicks": [int(position) for position in positions], "final": final}
    return _Call("POST", "/v1/feedback", lambda answer: str(answer[0]["status"]), [report])


def _status(name: str) -> _Call[dict[str, Any]]:
    return _Call("GET", f"/v1/rankers/{name}", dict)


def _rankers() -> _Call[list[dict[str, Any]]]:
    return _Call("GET", "/v1/rankers", list)


def _delete(name: str) -> _Call[None]:
    return _Call("DELETE", f"/v1/rankers/{name}", lambda answer: None)


class _Policy:
    """When a call is repeated, and what its last answer means."""

    def __init__(self, tries: int, timeout: float = 10.0) -> None:
        if tries < 1:
            raise ValueError(f"tries: {tries} is not a number of tries; give 1 or more")
        self._tries, self._timeout = tries, timeout

    def request(self, call: _Call[Any]) -> dict[str, Any]:
        """The request as httpx takes it."""
        timeout = max(self._timeout, call.seconds)
        sent = {"method": call.method, "url": call.path, "params": call.query, "timeout": timeout}
        if call.content is None:
            return {**sent, "json": call.body}
        return {**sent, "content": call.content, "headers": {"content-type": "application/x-npy"}}

    def pause(self, attempt: int, outcome: httpx.Response | httpx.TransportError) -> float | None:
        """Seconds until the next try; None when this was the last one."""
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
    def read(call: _Call[T], attempt: int, outcome: httpx.Response | httpx.TransportError) -> T:
        """The decoded answer; raises the error that the service reported instead."""
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
        return self._make(_create(name, positions, items, settings))

    def rank(self, name: str, slate: str | None = None, *, propensity: bool = False, **request: Any) -> ServedSlate:
        """A slate to show; with ``propensity``, how probable what it shows was.

        A ranker of requests takes this visitor's ``candidates`` (ids), ``features`` (one row per candidate, sent as binary),
        ``context``, ``segment``, ``exclude``, ``pin``, ``positions`` and ``explore``, as :meth:`rr.Anchored.rank` does.
        """
        return self._make(_rank(name, slate, propensity, request))

    def change_items(self, name: str, *, add: Items = (), change: Items = (), remove: Iterable[str] = ()) -> dict[str, Any]:
        """Add, change and remove items of a ranker of requests, thousands at a time; how many of each were applied."""
        return self._make(_change_items(name, add, change, remove))

    def items(self, name: str, after: int = 0, limit: int = 100) -> dict[str, Any]:
        """Some of a ranker's items with their features: ``items``, ``total``, and ``next``, where the next page begins."""
        return self._make(_items(name, after, limit))

    def set_rules(
        self, name: str, *, exclude: Iterable[str] = (), pin: Mapping[int, str] = {}, explore: float = 1.0
    ) -> dict[str, Any]:
        """Replace the rules of all slates of a ranker of requests."""
        return self._make(_set_rules(name, exclude, pin, explore))

    def feedback(
        self,
        slate: str | ServedSlate,
        clicked: Iterable[int] | None = None,
        final: bool = True,
        *,
        clicks: Iterable[int] | None = None,
    ) -> str:
        """Report the *positions* that were clicked, counted from 0 (not one boolean per position); the report's status.

        ``clicks`` is an older name of ``clicked``.
        """
        return self._make(_feedback(slate, clicked, clicks, final))

    def status(self, name: str) -> dict[str, Any]:
        """What the ranker has learned."""
        return self._make(_status(name))

    def rankers(self) -> list[dict[str, Any]]:
        """All rankers."""
        return self._make(_rankers())

    def delete(self, name: str) -> None:
        """Delete a ranker."""
        self._make(_delete(name))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self, call: _Call[T]) -> T:
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
        return await self._make(_create(name, positions, items, settings))

    async def rank(self, name: str, slate: str | None = None, *, propensity: bool = False, **request: Any) -> ServedSlate:
        """A slate to show; with ``propensity``, how probable what it shows was.

        A ranker of requests takes this visitor's ``candidates`` (ids), ``features`` (one row per candidate, sent as binary),
        ``context``, ``segment``, ``exclude``, ``pin``, ``positions`` and ``explore``, as :meth:`rr.Anchored.rank` does.
        """
        return await self._make(_rank(name, slate, propensity, request))

    async def change_items(
        self, name: str, *, add: Items = (), change: Items = (), remove: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Add, change and remove items of a ranker of requests, thousands at a time; how many of each were applied."""
        return await self._make(_change_items(name, add, change, remove))

    async def items(self, name: str, after: int = 0, limit: int = 100) -> dict[str, Any]:
        """Some of a ranker's items with their features: ``items``, ``total``, and ``next``, where the next page begins."""
        return await self._make(_items(name, after, limit))

    async def set_rules(
        self, name: str, *, exclude: Iterable[str] = (), pin: Mapping[int, str] = {}, explore: float = 1.0
    ) -> dict[str, Any]:
        """Replace the rules of all slates of a ranker of requests."""
        return await self._make(_set_rules(name, exclude, pin, explore))

    async def feedback(
        self,
        slate: str | ServedSlate,
        clicked: Iterable[int] | None = None,
        final: bool = True,
        *,
        clicks: Iterable[int] | None = None,
    ) -> str:
        """Report the *positions* that were clicked, counted from 0 (not one boolean per position); the report's status.

        ``clicks`` is an older name of ``clicked``.
        """
        return await self._make(_feedback(slate, clicked, clicks, final))

    async def status(self, name: str) -> dict[str, Any]:
        """What the ranker has learned."""
        return await self._make(_status(name))

    async def rankers(self) -> list[dict[str, Any]]:
        """All rankers."""
        return await self._make(_rankers())

    async def delete(self, name: str) -> None:
        """Delete a ranker."""
        await self._make(_delete(name))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _make(self, call: _Call[T]) -> T:
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
