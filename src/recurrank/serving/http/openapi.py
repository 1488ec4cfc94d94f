"""The OpenAPI document: what litestar says about the routes, and what only we know."""

from __future__ import annotations

from typing import Any

import msgspec

from recurrank.serving.http import schema as s
from recurrank.serving.http.problems import TITLES
from recurrank.serving.http.upload import CSV, JSON, NPY, PARQUET

_REFERENCE = "#/components/schemas/{name}"
_RANKER = {
    "positions": 2,
    "rounds": 100000,
    "items": [{"id": f"film-{n}", "features": [1.0, n / 4]} for n in range(4)],
}


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Unknown fields are refused, files may be sent, one answer leads to the next request."""
    paths = document["paths"]
    taken, parts = msgspec.json.schema_components(
        [s.NewRanker, s.NewRankerFile, s.AskSlate, list[s.NewReport]], ref_template=_REFERENCE
    )
    document.setdefault("components", {}).setdefault("schemas", {}).update(parts)
    ranker, file, ask, reports = taken
    put, show, delete = (paths["/v1/rankers/{name}"][method] for method in ("put", "get", "delete"))
    rank, feedback = paths["/v1/rankers/{name}/rank"]["post"], paths["/v1/feedback"]["post"]

    binary = {"schema": {"type": "string", "format": "binary"}}
    body = {JSON: {"schema": ranker, "example": _RANKER}, NPY: binary, PARQUET: binary, CSV: {"schema": {"type": "string"}}}
    put["requestBody"] = {"required": True, "content": body}
    for name, described in parts[file["$ref"].rpartition("/")[2]]["properties"].items():
        kind = {"in": "query", "required": False, "name": name, "description": "of an uploaded file"}
        put.setdefault("parameters", []).append({**kind, "schema": described})
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
            for status, answer in route["responses"].items():
                if int(status) in TITLES:
                    answer["description"] = TITLES[int(status)]
    return document
