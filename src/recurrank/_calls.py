"""Requests to the service as data, and how their answers are read. Both clients use them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

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


def create(name: str, positions: int, items: Items | None, settings: dict[str, Any]) -> Call[bool]:
    body = {"positions": positions, **({} if items is None else {"items": _listed(items)}), **settings}
    return Call("PUT", f"/v1/rankers/{name}", lambda answer: bool(answer["created"]), body, CREATING)


def _listed(items: Items) -> list[dict[str, Any]]:
    return [{"id": item, "features": [float(x) for x in features]} for item, features in items]


def rank(name: str, slate: str | None, propensity: bool, request: dict[str, Any]) -> Call[ServedSlate]:
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
    return Call("PATCH", f"/v1/rankers/{name}/items", dict, body, CHANGING)


def items(name: str, after: int, limit: int) -> Call[dict[str, Any]]:
    return Call("GET", f"/v1/rankers/{name}/items", dict, query={"after": after, "limit": limit})


def set_rules(name: str, exclude: Iterable[str], pin: Mapping[int, str], explore: float) -> Call[dict[str, Any]]:
    body = {"exclude": list(exclude), "pin": {str(position): item for position, item in pin.items()}, "explore": explore}
    return Call("PUT", f"/v1/rankers/{name}/rules", dict, body)


def feedback(
    slate: str | ServedSlate,
    clicked: Iterable[int] | None,
    clicks: Iterable[int] | None,
    final: bool,
    seen: Iterable[int] | None,
) -> Call[str]:
    if (clicked is None) == (clicks is None):
        raise ValueError("clicked: give the positions that were clicked, counted from 0, once")
    positions = list(clicks if clicked is None else clicked)  # type: ignore[arg-type]
    if any(type(position).__name__.startswith("bool") for position in positions):  # also NumPy's booleans
        raise ValueError("clicked: true and false are not positions; give the positions that were clicked, counted from 0")
    name = slate if isinstance(slate, str) else slate.slate
    report = {"slate": name, "clicks": [int(position) for position in positions], "final": final}
    if seen is not None:
        report["seen"] = [int(position) for position in seen]
    return Call("POST", "/v1/feedback", lambda answer: str(answer[0]["status"]), [report])


def status(name: str) -> Call[dict[str, Any]]:
    return Call("GET", f"/v1/rankers/{name}", dict)


def rankers() -> Call[list[dict[str, Any]]]:
    return Call("GET", "/v1/rankers", list)


def experiment(name: str) -> Call[dict[str, Any]]:
    return Call("GET", f"/v1/rankers/{name}/experiment", dict)


def set_experiment(name: str, change: dict[str, Any]) -> Call[dict[str, Any]]:
    return Call("PATCH", f"/v1/rankers/{name}/experiment", dict, change)


def release(name: str) -> Call[dict[str, Any]]:
    return Call("POST", f"/v1/rankers/{name}/experiment/release", dict)


def delete(name: str) -> Call[None]:
    return Call("DELETE", f"/v1/rankers/{name}", lambda answer: None)
