"""The OpenAPI document: the table of routes, the types of bodies and answers, and an example of each."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from recurrank import __version__
from recurrank.rankers import names, registered
from recurrank.serving.changes import SlateRules
from recurrank.serving.http import schema as s
from recurrank.serving.http.experiment_schema import RolloutChange
from recurrank.serving.http.patching import MSGPACKS
from recurrank.serving.http.problems import TITLES
from recurrank.serving.http.routes import Operation, Route
from recurrank.serving.http.upload import CSV, JSON, NPY, PARQUET
from recurrank.serving.spec import RankerSpec

_REFERENCE = "#/components/schemas/{name}"
_RANKER = {
    "algorithm": "anchored",
    "positions": 2,
    "rounds": 100000,
    "items": [{"id": f"film-{n}", "features": [1.0, n / 4]} for n in range(4)],
}
_FILE = "id,age,rating\nfilm-0,0.1,0.9\nfilm-1,0.7,0.4\nfilm-2,0.3,0.8\n"
_STATUS = {
    "name": "films", "algorithm": "anchored", "items": 4, "dim": 2, "positions": 2, "rounds": 100000, "window_seconds": 1800.0,
    "unreported": "drop", "version": 3, "served": 1, "learned": 1, "dropped": 0, "clicks": 1, "open": 0, "click_rate": 1.0,
    "click_rate_by_position": [1.0, 0.0],
    "blocks": None,
    "best": [
        {"id": "film-0", "shown": 1, "clicked": 0, "low": 0.0, "high": 0.7934506856227626},
        {"id": "film-3", "shown": 1, "clicked": 1, "low": 0.20654931437723742, "high": 1.0},
    ],
    "requests": {
        "coefficients": [{"feature": 1, "value": 0.1, "low": -0.8, "high": 1.0}],
        "examination": [
            {"segment": None, "position": 0, "without_click_above": None, "after_click_above": None},
            {"segment": "phone", "position": 0, "without_click_above": 1.0, "after_click_above": None},
            {"segment": "phone", "position": 1, "without_click_above": None, "after_click_above": 0.9},
        ],
        "guard": [1.0, 1.0],
        "candidates": 3.0,
    },
}  # fmt: skip
_HEALTH = {"status": "ok", "learning": True, "lag": 0, "failed": None, "broken": [], "version": __version__}
_RULES = {"exclude": ["film-4"], "pin": {"0": "film-1"}, "explore": 0.5}
_EXPERIMENT = {
    "name": "films", "mode": "share", "share": 0.1, "margin": 0.05, "alpha": 0.05, "experiment": "films", "version": 6,
    "since": 6, "stopped": None, "verdict": "undecided", "baseline": {"slates": 0, "clicks": 0.0, "mean": None},
    "ranker": {"slates": 0, "clicks": 0.0, "mean": None}, "difference": None, "low": None, "high": None, "p_value": None,
    "brake_p_value": None, "interleaved": {"slates": 0, "credit": None, "p_value": 1.0}, "history": [],
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "create_ranker": {"name": "films", "created": True},
    "list_rankers": [{name: _STATUS[name] for name in s.RankerLine.__struct_fields__}],
    "show_ranker": _STATUS,
    "rank": {"slate": "page-7", "items": ["film-3", "film-0"], "version": 1},
    "feedback": [{"slate": "page-7", "status": "learned"}],
    "change_items": {"version": 4, "items": 5, "added": 1, "changed": 0, "removed": 0},
    "list_items": {"items": [{"id": "film-0", "features": [1.0, 0.0]}], "total": 5, "next": None},
    "set_rules": {"rules": _RULES, "version": 5},
    "show_rules": {"rules": _RULES, "version": 5},
    "show_experiment": _EXPERIMENT,
    "change_experiment": _EXPERIMENT,
    "release_brake": _EXPERIMENT,
    "healthz": _HEALTH,
    "readyz": _HEALTH,
}  # fmt: skip
"""By operation, the answers to the examples when these are sent in order."""
_REFUSALS = {
    400: "positions: 9 positions for 4 items; give at most as many positions as items",
    401: "authorization: give a key, as in 'Authorization: Bearer rk_...'",
    403: "authorization: this key may not do that; it needs the role admin",
    404: "name: unknown ranker 'films'",
    408: "body: not here after 20 seconds",
    409: "ranker: 'films' exists with other settings",
    413: "body: at most 16,777,216 bytes are taken",
    415: "content-type: 'text/html' is not taken; send application/json",
    421: "host: this name is not served here; start the server with --allow-host for it",
    429: "rate: more than 10000 requests per second with this key",
    503: "store: it cannot be used now; nothing that was acknowledged is lost",
}
"""By status, an example of a refusal."""
_ABOUT = """
A ranker decides what to show next and learns from what is clicked. Make one (`PUT /v1/rankers/films`), ask it for a slate
(`POST /v1/rankers/films/rank`), and report the clicks on it (`POST /v1/feedback`). The examples below work in this order.

- Every request may be repeated: the same request again has no further effect and gets the same answer.
- Where the server has keys, send one as `Authorization: Bearer rk_...`; this page sends the key that you give it.
- A request that is refused gets a problem document (RFC 9457) whose `detail` says which field, what it
  was and what it should be.
"""
_TAGS = {
    "rankers": "Make, list, inspect and delete rankers.",
    "slates": "Ask for slates and report the clicks on them.",
    "experiments": "A ranker beside the ranking that it is to replace: modes, the comparison, the brake.",
    "items": "Items that come and go, and rules for all slates of a ranker.",
    "operation": "Whether the server works, and how much it does.",
}


_ASKED = {"slate": "page-7", "candidates": ["film-0", "film-1", "film-3"], "segment": "phone"}
_PAGE = [
    {"in": "query", "required": False, "name": "after", "schema": {"type": "integer", "minimum": 0, "maximum": 10**9}},
    {"in": "query", "required": False, "name": "limit", "schema": {"type": "integer", "minimum": 1, "maximum": 1000}},
]
_ALWAYS = (400, 401, 403, 408, 413, 421, 429, 503)
"""Statuses with which any route may refuse a request."""
_NAME = {
    "name": "name", "in": "path", "required": True, "example": "films",
    "description": "letters, digits, dots, dashes, underscores", "schema": {"type": "string", "pattern": s.Name},
}  # fmt: skip


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Every route with its body and answers; links lead from an answer to the next request, and every example works."""
    told = [(route, route.about) for route in routes if route.about is not None]
    bodies = [s.NewRanker, RankerSpec, s.AskSlate, list[s.NewReport], s.Problem, s.ItemsPatch, SlateRules, RolloutChange]
    answers = [about.answer for _, about in told if about.answer not in (None, str)]
    found, parts = msgspec.json.schema_components([*bodies, *answers], ref_template=_REFERENCE)
    ranker, spec, ask, reports, refused, patch, rules, turn = found[: len(bodies)]
    _algorithms(parts, ranker, spec)
    schemas = iter(found[len(bodies) :])
    operations = {about.id: _operation(route, about, schemas, refused) for route, about in told}

    binary, text = {"schema": {"type": "string", "format": "binary"}}, {"schema": {"type": "string"}, "example": _FILE}
    body = {JSON: {"schema": ranker, "example": _RANKER}, CSV: text, NPY: binary, PARQUET: binary}
    operations["create_ranker"]["requestBody"] = {"required": True, "content": body}
    operations["create_ranker"]["parameters"] += _settings(parts[spec["$ref"].rpartition("/")[2]]["properties"])
    asked = {"schema": {"oneOf": [ask, {"type": "null"}]}, "example": _ASKED}
    content = {JSON: asked, MSGPACKS[0]: binary, NPY: binary}
    operations["rank"]["requestBody"] = {"required": False, "content": content}
    changes = {"schema": patch, "example": {"add": [{"id": "film-4", "features": [1.0, 1.0]}], "remove": ["film-9"]}}
    operations["change_items"]["requestBody"] = {"required": True, "content": {JSON: changes, MSGPACKS[0]: binary}}
    operations["set_rules"]["requestBody"] = {"required": True, "content": {JSON: {"schema": rules, "example": _RULES}}}
    turned = {"schema": turn, "example": {"mode": "share", "share": 0.1}}
    operations["change_experiment"]["requestBody"] = {"required": True, "content": {JSON: turned}}
    operations["list_items"]["parameters"] += _PAGE
    reported = {"schema": reports, "example": [{"slate": "page-7", "clicks": [0]}]}
    operations["feedback"]["requestBody"] = {"required": True, "content": {JSON: reported}}

    named = {"parameters": {"name": "$request.path.name"}}
    operations["create_ranker"]["responses"]["200"]["links"] = {
        name: {"operationId": name, **named}
        for name in ("rank", "show_ranker", "delete_ranker", "change_items", "list_items", "show_rules", "show_experiment")
    }
    answered = [{"slate": "$response.body#/slate", "clicks": [0]}]
    operations["rank"]["responses"]["200"]["links"] = {
        "feedback": {"operationId": "feedback", "requestBody": answered},
        "show_ranker": {"operationId": "show_ranker", **named},
    }
    paths: dict[str, Any] = {}
    for route, about in told:
        paths.setdefault(route.path, {})[route.method.lower()] = operations[about.id]
    return {
        "openapi": "3.1.0",
        "info": {"title": "recurrank", "version": __version__, "description": _ABOUT.strip()},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": said} for name, said in _TAGS.items()],
        "paths": paths,
        "components": {"schemas": parts},
    }


def _operation(route: Route, about: Operation, schemas: Iterator[Any], refused: Any) -> dict[str, Any]:
    """A route with its answers; ``schemas`` yields the schemas of JSON answers."""
    description = inspect.getdoc(route.handler) or ""
    responses: dict[str, Any] = {}
    if about.answer is None:
        responses["204"] = {"description": "Done; nothing follows"}
    else:
        content = {"schema": {"type": "string"}} if about.answer is str else {"schema": next(schemas)}
        if about.id in ANSWERS:
            content["example"] = ANSWERS[about.id]
        responses["200"] = {"description": "Done", "content": {"text/plain" if about.answer is str else JSON: content}}
    for status in sorted({*_ALWAYS, *about.problems}):
        example = {"title": TITLES[status], "status": status, "detail": _REFUSALS[status], "type": "about:blank"}
        content = {"application/problem+json": {"schema": refused, "example": example}}
        responses[str(status)] = {"description": TITLES[status], "content": content}
    return {
        "operationId": about.id,
        "tags": [about.tag],
        "summary": re.split(r"\.(?:\s|$)", description)[0].replace("`", ""),  # plain text; a description is Markdown
        "description": description,
        "parameters": [_NAME] if "{name}" in route.path else [],
        "responses": responses,
    }


def _algorithms(parts: dict[str, Any], *asked: dict[str, Any]) -> None:
    """Add the served algorithms and the options that they declare."""
    options = []
    for name in names(served=True):
        title = f"Options of {name}"
        schema = registered()[name].options_schema()
        schema["properties"].pop("dim", None)  # a field of the specification
        parts[title.replace(" ", "-")] = {"title": title, **schema}
        options.append({"$ref": _REFERENCE.format(name=title.replace(" ", "-"))})
    for reference in asked:
        properties = parts[reference["$ref"].rpartition("/")[2]]["properties"]
        properties["algorithm"]["enum"] = names(served=True)
        properties["options"] = {"description": "the algorithm's own", "anyOf": options, "default": {}}


def _settings(properties: dict[str, Any]) -> list[dict[str, Any]]:
    """Query parameters with the settings of an uploaded file; without defaults, which a page would send with JSON."""
    parameters = []
    for name, described in properties.items():
        schema = {key: value for key, value in described.items() if key != "default"}
        if "anyOf" in schema:  # an object: the page would fill it in, and send it
            schema = {"type": "string", "description": "a JSON object"}
        usual = f"; {json.dumps(described['default'])} by default" if "default" in described else "; needed with a file"
        about = f"only with a file (CSV, .npy or Parquet); with JSON it belongs into the body{usual}"
        parameters.append({"in": "query", "required": False, "name": name, "description": about, "schema": schema})
    return parameters
