"""A log of pages as OpenSearch UBI 1.3 JSON lines: a query per page, followed by its click events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recurrank.logs.reading import batches, kind_of, sound

APPLICATION = "recurrank"


def write(source: Path, target: Path) -> int:
    """Write a log of pages, or our service's export, atomically; return the number of pages."""
    partial, count = target.with_name(target.name + ".partial"), 0
    try:
        with partial.open("w", encoding="utf-8") as file:
            for record in _records(source):
                count += "action_name" not in record
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _records(source: Path) -> Iterator[dict[str, Any]]:
    def refuse(error: Exception) -> None:
        raise ValueError(str(error))

    number = 0
    for batch in batches(source, kind_of(source), refuse):
        for page in sound(source, batch, False)[0].to_pylist():
            number += 1
            yield from _page(f"{number:012d}", page)


def _page(key: str, page: dict[str, Any]) -> Iterator[dict[str, Any]]:
    common = {"application": APPLICATION, "query_id": key, "timestamp": str(page.get("time") or "")}
    yield {
        **common,
        "user_query": str(page.get("query") or ""),
        "query_response_hit_ids": [str(item) for item in page["items"]],
    }
    for ordinal, (item, clicked) in enumerate(zip(page["items"], page["clicks"], strict=True), 1):
        if clicked:
            attributes = {"object": {"object_id": str(item)}, "position": {"ordinal": ordinal}}
            yield {**common, "action_name": "click", "event_attributes": attributes}
