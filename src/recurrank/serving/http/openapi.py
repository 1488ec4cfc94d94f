"""The OpenAPI document: what litestar says about the routes, and what only we know."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from recurrank.rankers import names, registered
from recurrank.serving.http import schema as s
from recurrank.serving.http.problems import TITLES
from recurrank.serving.http.upload import CSV, JSON, NPY, PARQUET

_REFERENCE = "#/components/schemas/{name}"
_RANKER = {
    "positions": 2,
    "rounds": 100000,
    "items": [{"id": f"film-{n}", "features": [1.0, n / 4]} for n in range(4)],
}
_FILE = "id,age,rating\nfilm-0,0.1,0.9\nfilm-1,0.7,0.4\nfilm-2,0.3,0.8\n"
_STATUS = {
    "name": "films", "algorithm": "balanced", "items": 4, "dim": 2, "positions": 2, "rounds": 100000, "window_seconds": 1800.0,
    "unreported": "drop", "version": 3, "served": 1, "learned": 1, "dropped": 0, "clicks": 1, "open": 0, "click_rate": 1.0,
    "click_rate_by_position": [1.0, 0.0],
    "blocks": [{"id": 0, "phase": None, "first": 0, "last": 1, "items": 4, "progress": None}],
    "best": [
        {"id": "film-0", "shown": 1, "clicked": 0, "low": 0.0, "high": 0.7934506856227626},
        {"id": "film-3", "shown": 1, "clicked": 1, "low": 0.20654931437723742, "high": 1.0},
    ],
}  # fmt: skip
_HEALTH = {"status": "ok", "learning": True, "lag": 0, "failed": None, "broken": []}
ANSWERS: dict[str, Any] = {
    "create_ranker": {"name": "films", "created": True},
    "list_rankers": [{name: _STATUS[name] for name in s.RankerLine.__struct_fields__}],
    "show_ranker": _STATUS,
    "rank": {"slate": "page-7", "items": ["film-3", "film-0"], "version": 1},
    "feedback": [{"slate": "page-7", "status": "learned"}],
    "healthz": _HEALTH,
    "readyz": _HEALTH,
}  # fmt: skip
"""What the examples are answered with when they are sent one after the other, by operation."""
_REFUSALS = {
    400: "positions: 9 positions for 4 items; give at most as many positions as items",
    401: "authorization: give a key, as in 'Authorization: Bearer rk_...'",
    403: "authorization: this key may not do that; it needs the role admin",
    404: "name: there is no ranker called 'films'",
    408: "body: not here after 20 seconds",
    409: "ranker: 'films' exists with other settings",
    413: "body: at most 16,777,216 bytes are taken",
    415: "content-type: 'text/html' is not taken; send application/json",
    421: "host: this name is not served here; start the server with --allow-host for it",
    429: "rate: more than 10000 requests per second with this key",
    503: "store: it cannot be used now; nothing that was acknowledged is lost",
}
"""What each refusal may say, by status."""
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
    "operation": "Whether the server works, and how much it does.",
}


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Unknown fields are refused, files may be sent, one answer leads to the next request, every example works."""
    paths = document["paths"]
    document["info"]["description"] = _ABOUT.strip()
    document["tags"] = [{"name": name, "description": said} for name, said in _TAGS.items()]
    taken, parts = msgspec.json.schema_components(
        [s.NewRanker, s.NewRankerFile, s.AskSlate, list[s.NewReport]], ref_template=_REFERENCE
    )
    ranker, file, ask, reports = taken
    _algorithms(parts, ranker, file)
    document.setdefault("components", {}).setdefault("schemas", {}).update(parts)
    paths["/v1/rankers/{name}"] = {method: paths["/v1/rankers/{name}"][method] for method in ("put", "get", "delete")}
    put, show, delete = (paths["/v1/rankers/{name}"][method] for method in ("put", "get", "delete"))
    rank, feedback = paths["/v1/rankers/{name}/rank"]["post"], paths["/v1/feedback"]["post"]

    binary = {"schema": {"type": "string", "format": "binary"}}
    text = {"schema": {"type": "string"}, "example": _FILE}
    body = {JSON: {"schema": ranker, "example": _RANKER}, CSV: text, NPY: binary, PARQUET: binary}
    put["requestBody"] = {"required": True, "content": body}
    put.setdefault("parameters", []).extend(_settings(parts[file["$ref"].rpartition("/")[2]]["properties"]))
    asked = {"schema": {"oneOf": [ask, {"type": "null"}]}, "example": {"slate": "page-7"}}
    rank["requestBody"] = {"required": False, "content": {JSON: asked}}
    reported = {"schema": reports, "example": [{"slate": "page-7", "clicks": [0]}]}
    feedback["requestBody"] = {"required": True, "content": {JSON: reported}}

    named = {"parameters": {"name": "$request.path.name"}}
    put["responses"]["200"]["links"] = {
        route["operationId"]: {"operationId": route["operationId"], **named} for route in (rank, show, delete)
    }
    answered = [{"slate": "$response.body#/slate", "clicks": [0]}]
    rank["responses"]["200"]["links"] = {
        feedback["operationId"]: {"operationId": feedback["operationId"], "requestBody": answered},
        show["operationId"]: {"operationId": show["operationId"], **named},
    }
    for methods in paths.values():
        for route in methods.values():
            _describe(route)
    return document


def _algorithms(parts: dict[str, Any], *asked: dict[str, Any]) -> None:
    """The algorithms that are served and the options of each, as they declare them."""
    options = []
    for name in names(served=True):
        title = f"Options of {name}"
        parts[title.replace(" ", "-")] = {"title": title, **registered()[name].options_schema()}
        options.append({"$ref": _REFERENCE.format(name=title.replace(" ", "-"))})
    for one in asked:
        properties = parts[one["$ref"].rpartition("/")[2]]["properties"]
        properties["algorithm"]["enum"] = names(served=True)
        properties["options"] = {"description": "the algorithm's own", "anyOf": options, "default": {}}


def _settings(properties: dict[str, Any]) -> list[dict[str, Any]]:
    """Settings of an uploaded file, in the query; no defaults, since a page would send them with JSON too, which is refused."""
    found = []
    for name, described in properties.items():
        schema = {key: value for key, value in described.items() if key != "default"}
        usual = f"; {json.dumps(described['default'])} by default" if "default" in described else "; needed with a file"
        about = f"only with a file (CSV, .npy or Parquet); with JSON it belongs into the body{usual}"
        found.append({"in": "query", "required": False, "name": name, "description": about, "schema": schema})
    return found


def _describe(route: dict[str, Any]) -> None:
    """A summary, an example of each answer, and the example's name in the path."""
    route["summary"] = route["description"].partition(". ")[0].rstrip(".")
    for parameter in route.get("parameters", ()):
        if parameter["in"] == "path":
            parameter["example"] = "films"
    for status, answer in route["responses"].items():
        example = ANSWERS.get(route["operationId"])
        if int(status) in TITLES:
            answer["description"] = TITLES[int(status)]
            example = {
                "title": TITLES[int(status)],
                "status": int(status),
                "detail": _REFUSALS.get(status, "..."),
                "type": "about:blank",
            }
        for content in answer.get("content", {}).values() if example else ():
            content.pop("examples", None)  # made up at random by litestar
            content["example"] = example
