"""Requests to the service as data, and how their answers are read. Both clients use them."""

from __future__ import annotations

import io
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from recurrank.slate import new_id

CREATING = 120.0
"""Time limit for making a ranker, in seconds: its catalogue is sent and checked, and its algorithm may have to be compiled."""
CHANGING = 60.0
"""Time limit for changing items, in seconds."""
REQUEST = (
    "candidates", "features", "context", "segment", "exclude", "pin", "positions", "explore", "baseline", "subject",
)  # fmt: skip
"""The fields that a request may have."""

T = TypeVar("T")
Items = Iterable[tuple[str, Sequence[float]]]
"""Ids and features."""


class ServedSlate(NamedTuple):
    """A slate to show: report on it under ``slate``."""

    slate: str
    items: list[str]
    version: int
    propensity: list[float | None] | None = None
    joint: float | None = None
    arm: str = ""  # in an experiment, the arm whose order is shown
    would_show: list[str] | None = None  # in shadow mode, the ranker's slate


class Call(NamedTuple, Generic[T]):
    """A request as data, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    seconds: float = 0.0  # minimum seconds allowed for one try, whatever the client's timeout
    query: dict[str, Any] | None = None
    content: bytes | None = None  # a .npy file in place of the body


def _path(name: str, *parts: str) -> str:
    """The path of a ranker, or below it. Refuses names that a URL cannot have: they would address something else."""
    if name in ("", ".", ".."):
        raise ValueError(f"name: {name!r} is not the name of a ranker; give one that begins with a letter or digit")
    return "/".join(["/v1/rankers", quote(name, safe=""), *parts])


def create(name: str, positions: int, items: Items | None, settings: dict[str, Any]) -> Call[bool]:
    body = {"positions": positions, **({} if items is None else {"items": _listed(items)}), **settings}
    return Call("PUT", _path(name), lambda answer: bool(answer["created"]), body, CREATING)


def _listed(items: Items) -> list[dict[str, Any]]:
    return [{"id": item, "features": [float(x) for x in features]} for item, features in items]


def rank(name: str, slate: str | None, propensity: bool, request: dict[str, Any]) -> Call[ServedSlate]:
    body: dict[str, Any] = {"slate": slate or new_id(), **({"propensity": True} if propensity else {})}
    path = _path(name, "rank")
    for field in request:
        if field not in REQUEST:
            raise TypeError(f"rank: {field!r} is not a field of a request; there are {', '.join(REQUEST)}")
    features = request.pop("features", None)
    body |= {field: _plain(value) for field, value in request.items() if value is not None}
    if "pin" in body:
        body["pin"] = {str(position): item for position, item in body["pin"].items()}
    if features is None:
        return Call("POST", path, lambda answer: ServedSlate(**answer), body)
    query = {field: json.dumps(value) if isinstance(value, list | dict) else value for field, value in body.items()}
    if "candidates" in query:
        query["ids"] = query.pop("candidates")
    if "propensity" in query:
        query["propensity"] = "true"
    return Call("POST", path, lambda answer: ServedSlate(**answer), query=query, content=_npy(features))


def _plain(value: Any) -> Any:
    """Arrays, tuples and sets as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple | set | frozenset) else value


def _npy(features: Any) -> bytes:
    """Rows of features as a .npy file; in single precision if they already are."""
    import numpy as np

    rows, sink = np.asarray(features), io.BytesIO()
    np.save(sink, rows if rows.dtype == np.float32 else rows.astype(np.float64), allow_pickle=False)
    return sink.getvalue()


def change_items(name: str, add: Items, change: Items, remove: Iterable[str]) -> Call[dict[str, Any]]:
    body = {"add": _listed(add), "change": _listed(change), "remove": list(remove)}
    return Call("PATCH", _path(name, "items"), dict, body, CHANGING)


def items(name: str, after: int, limit: int) -> Call[dict[str, Any]]:
    return Call("GET", _path(name, "items"), dict, query={"after": after, "limit": limit})


def set_rules(name: str, exclude: Iterable[str], pin: Mapping[int, str], explore: float) -> Call[dict[str, Any]]:
    body = {"exclude": list(exclude), "pin": {str(position): item for position, item in pin.items()}, "explore": explore}
    return Call("PUT", _path(name, "rules"), dict, body)


def feedback(
    slate: str | ServedSlate,
    clicked: Iterable[int] | None,
    clicks: Iterable[int] | None,
    final: bool,
    seen: Iterable[int] | None,
) -> Call[str]:
    if (clicked is None) == (clicks is None):
        raise ValueError("clicked: give the positions that were clicked, counted from 0, once")
    name = slate if isinstance(slate, str) else slate.slate
    positions = clicks if clicked is None else clicked
    report = {"slate": name, "clicks": _positions("clicked", positions, "clicked"), "final": final}  # type: ignore[arg-type]
    if seen is not None:
        report["seen"] = _positions("seen", seen, "on the screen")
    return Call("POST", "/v1/feedback", lambda answer: str(answer[0]["status"]), [report])


def _positions(field: str, given: Iterable[int], were: str) -> list[int]:
    """Positions as plain numbers; ValueError for booleans, which are a mask, and for anything but whole numbers."""
    positions = []
    for position in given:
        if type(position).__name__.startswith("bool"):  # also NumPy's booleans
            raise ValueError(f"{field}: true and false are not positions; give the positions that were {were}, counted from 0")
        try:
            positions.append(operator.index(position))
        except TypeError:
            raise ValueError(f"{field}: {position!r} is not a position; give whole numbers, counted from 0") from None
    return positions


def status(name: str) -> Call[dict[str, Any]]:
    return Call("GET", _path(name), dict)


def rankers() -> Call[list[dict[str, Any]]]:
    return Call("GET", "/v1/rankers", list)


def experiment(name: str) -> Call[dict[str, Any]]:
    return Call("GET", _path(name, "experiment"), dict)


def set_experiment(name: str, change: dict[str, Any]) -> Call[dict[str, Any]]:
    return Call("PATCH", _path(name, "experiment"), dict, change)


def release(name: str) -> Call[dict[str, Any]]:
    return Call("POST", _path(name, "experiment", "release"), dict)


def delete(name: str) -> Call[None]:
    return Call("DELETE", _path(name), lambda answer: None)
