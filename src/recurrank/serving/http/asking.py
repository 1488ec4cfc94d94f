"""Decode requests to rank: JSON, MessagePack, or a .npy file of features with the rest in the query."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

import msgspec
import numpy as np

from recurrank.serving.asked import Asked, PackedRows
from recurrank.serving.changes import Id
from recurrank.serving.http import schema as s
from recurrank.serving.http.patching import MSGPACKS
from recurrank.serving.http.problems import Refused
from recurrank.serving.http.routes import Request
from recurrank.serving.http.upload import JSON, NPY, Bounds, read_npy

AS_JSON = (JSON, "text/plain", "application/x-www-form-urlencoded")
"""Media types read as JSON: browsers' beacons and curl send it as the last two."""
CANDIDATES = 10_000
"""Most candidates of one request."""

_read_json = msgspec.json.Decoder(s.AskSlate | None).decode
_read_msgpack = msgspec.msgpack.Decoder(s.AskSlate | None).decode
_LISTS = ("ids", "exclude", "context", "baseline")


class Ask(NamedTuple):
    """The arguments of ``Service.rank``: the slate's id, whether to return probabilities, and the request.

    The decoded document is not kept: thousands of numbers of each request that waits for the disk would have left the
    processor's cache by the time they are freed.
    """

    slate: str | None = None
    propensity: bool = False
    asked: Asked | None = None


def read_ask(request: Request) -> Ask:
    """Decode a request; ValueError, msgspec's errors or Refused for an invalid one."""
    kind, body = request.media or JSON, request.body
    if kind == NPY:
        return _of_file(request)
    if request.query:
        raise ValueError(f"query: {next(iter(request.query))[:60]!r} has no effect here; it belongs into the body")
    if not body:
        return Ask()
    if kind in MSGPACKS:
        asked = _read_msgpack(body)
    elif kind in AS_JSON:
        asked = _read_json(body)
    else:
        raise Refused(415, f"content-type: {kind[:60]!r} is not taken; send {JSON}, {MSGPACKS[0]} or {NPY}")
    return Ask() if asked is None else Ask(asked.slate, asked.propensity, _asked(asked))


def _asked(asked: s.AskSlate) -> Asked:
    names, features = _candidates(asked)
    own = asked.exclude, asked.pin, asked.positions, asked.explore
    return Asked(names, features, asked.context, asked.segment, *own, asked.baseline, asked.subject)


def _candidates(asked: s.AskSlate) -> tuple[list[str] | None, Any]:
    given: Any = asked.candidates  # strings, or items
    if given is None:
        if asked.features is not None:
            raise ValueError("candidates: missing; give the ids of the rows of features, in order")
        return None, None
    kinds: set[type[Any]] = set(map(type, given))
    if len(kinds) > 1:
        raise ValueError("candidates: some have features, some have none; give those of all, or of none")
    if kinds == {str}:
        return given, None if asked.features is None else PackedRows(asked.features, len(given))
    if asked.features is not None:
        raise ValueError("features: given twice; give them beside the ids, or with each candidate")
    return [candidate.id for candidate in given], _rows([candidate.features for candidate in given])


def _rows(given: list[list[float]]) -> Any:
    """One row per candidate; three times as fast as np.array."""
    size = len(given[0])
    for row, numbers in enumerate(given):
        if len(numbers) != size:
            raise ValueError(f"candidates[{row}].features: {len(numbers)} numbers, the first candidate has {size}")
    pack = struct.Struct(f"{size}d").pack
    return np.frombuffer(bytearray().join([pack(*numbers) for numbers in given])).reshape(len(given), size)


def _of_file(request: Request) -> Ask:
    """Decode features from the body, everything else from the query, with lists as JSON or separated by commas."""
    query: dict[str, Any] = dict(request.query)
    for name in _LISTS:
        if name in query:
            query[name] = _list(name, query[name])
    if "pin" in query:
        query["pin"] = _parsed("pin", query["pin"])
    if "candidates" in query or "features" in query:
        raise ValueError("query: the features of the candidates are the body, their ids the parameter 'ids'")
    try:
        ids = msgspec.convert(query.pop("ids", None), list[Id] | None, strict=False)
        asked = msgspec.convert(query, s.AskSlate, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"query: {error}") from error
    rows = read_npy(request.body, Bounds(bytes=len(request.body) * 8, items=CANDIDATES))
    return Ask(asked.slate, asked.propensity, _asked(asked)._replace(candidates=ids, features=rows))


def _list(name: str, text: str) -> Any:
    if text.startswith("["):
        return _parsed(name, text)
    return text.split(",") if text else []


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{name}: {text[:60]!r} is not JSON") from error
