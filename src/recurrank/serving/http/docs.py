"""The page at /docs: the OpenAPI document for people, without a script and without a network."""

from __future__ import annotations

import html
import json
from typing import Any

_STYLE = """
:root{color-scheme:light dark;--line:#d9dee2;--soft:#5d6873;--card:#fff;--paper:#fbfbf9;--ink:#20262d}
@media (prefers-color-scheme:dark){:root{--line:#333c44;--soft:#9aa5b1;--card:#1b2126;--paper:#14181c;--ink:#e4e8eb}}
body{font:16px/1.5 system-ui,sans-serif;background:var(--paper);color:var(--ink);max-width:60rem;margin:2rem auto}
article{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.8rem 1.1rem;margin:1rem 0}
h2{font:600 1rem ui-monospace,monospace;margin:.1rem 0}h2 b{color:#c0392b;margin-right:.6em}
table{border-collapse:collapse;width:100%;font-size:.92rem}td,th{text-align:left;padding:.2rem .6rem .2rem 0;vertical-align:top}
th{font-family:ui-monospace,monospace;font-weight:500;white-space:nowrap}td{color:var(--soft)}
summary{cursor:pointer;color:var(--soft)}
"""


def render(document: dict[str, Any]) -> str:
    """Every route with what it takes and answers."""
    text = html.escape
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{text(document['info']['title'])}</title>"]
    parts.append("<meta name=viewport content='width=device-width'>")
    parts.append(f"<style>{_STYLE}</style><h1>{text(document['info']['title'])} {text(document['info']['version'])}</h1>")
    parts.append("<p>The same for programs: <a href=/openapi.json>openapi.json</a>.</p>")
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            if not isinstance(route, dict):
                continue
            parts.append(
                f"<article><h2><b>{text(method.upper())}</b>{text(path)}</h2><p>{text(route.get('description', ''))}</p>"
            )
            body = route.get("requestBody", {}).get("content", {})
            for media, content in body.items():
                parts.append(
                    f"<details open><summary>takes {text(media)}</summary>{_fields(document, content['schema'])}</details>"
                )
            for status, answer in route.get("responses", {}).items():
                schemas = [content.get("schema", {}) for content in answer.get("content", {}).values()]
                if status.startswith("2"):
                    inner = "".join(_fields(document, schema) for schema in schemas)
                    parts.append(f"<details open><summary>answers {text(status)}</summary>{inner}</details>")
            others = ", ".join(status for status in route.get("responses", {}) if not status.startswith("2"))
            parts.append(f"<p><small>or a problem: {text(others)}</small></p></article>")
    return "".join(parts)


def _fields(document: dict[str, Any], schema: dict[str, Any]) -> str:
    """A table of an object's fields."""
    found, many = _resolved(document, schema)
    if not found.get("properties"):
        return f"<pre>{html.escape(json.dumps(found.get('type', 'nothing')))}</pre>"
    rows = ""
    for name, field in found["properties"].items():
        field, several = _resolved(document, field)
        kinds = [kind.get("type", "") for kind in field.get("oneOf", field.get("anyOf", []))] or [field.get("type", "")]
        kind = " or ".join(str(k) for k in kinds if k) + (" (list)" if several else "")
        if "enum" in field:
            kind = " | ".join(map(str, field["enum"]))
        needed = (
            "needed"
            if name in found.get("required", [])
            else f"default {json.dumps(field['default'])}"
            if "default" in field
            else ""
        )
        said = "; ".join(part for part in (kind, needed, field.get("description", "")) if part)
        rows += f"<tr><th>{html.escape(name)}</th><td>{html.escape(said)}</td></tr>"
    return f"{'<p>a list of</p>' if many else ''}<table>{rows}</table>"


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    many = False
    for _ in range(5):
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif schema.get("type") == "array" and "$ref" in schema.get("items", {}):
            schema, many = schema["items"], True
        elif one := [part for part in schema.get("oneOf", []) if "$ref" in part]:
            schema = one[0]
        else:
            break
    return schema, many
