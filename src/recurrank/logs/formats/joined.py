"""Logs with separate events for shown pages and for clicks: OpenSearch UBI, Metarank, our service's export.

A file is read twice: first the clicks, which are few and kept in memory, then the pages, one at a time.

| format | page | click |
|---|---|---|
| UBI 1.3, JSON lines | a query: ``query_id``, ``user_query``, ``query_response_hit_ids``, ``timestamp`` | an event: ``query_id``, ``action_name``, ``event_attributes.object.object_id``, ``event_attributes.position.ordinal`` (from 1) |
| Metarank, JSON lines | ``event: ranking`` with ``id``, ``items``, ``timestamp``, perhaps a field ``query`` | ``event: interaction`` with ``ranking``, ``item``, ``type: click`` |
| our export, Parquet | ``kind: served`` with ``seq``, ``items``, perhaps ``propensity``, ``joint`` and ``conditional`` | ``kind: learned`` with ``served``, ``clicks``, perhaps ``seen`` |

A slate of our service without an answer is not a page: it may not have been seen.
"""  # noqa: E501 (a table)

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recurrank.logs.pages import Bad, Batch, arrow, schema

SIZE = 20_000
"""Pages per batch."""
ROWS = 65_536
"""Events of our export that are read at a time."""

Complain = Callable[[Bad], None]
Page = dict[str, Any]


def kind_of_lines(path: Path) -> str | None:
    """The format, ubi or metarank, by the first line of JSON; None for neither."""
    with path.open("rb") as file:
        for _, line in zip(range(100), file, strict=False):
            try:
                first = json.loads(line)
            except ValueError:
                continue
            if isinstance(first, dict):
                return "metarank" if "event" in first else "ubi" if "query_id" in first else None
    return None


def batches(paths: Sequence[Path], kind: str, bad: Complain) -> Iterator[Batch]:
    """Batches of pages from one or several files; invalid lines go to ``bad``."""
    pages, clicks = {"ubi": (_ubi_page, _ubi_click), "metarank": (_metarank_page, _metarank_click)}[kind]
    clicked: dict[str, dict[str, int]] = {}
    for path in paths:
        for number, record in _lines(path, bad):
            try:
                click = clicks(record)
            except (AttributeError, TypeError, ValueError):
                bad(Bad(f"{path}: line {number}: a click that does not say on which item: {str(record)[:80]}"))
                continue
            if click is not None:
                page, item, ordinal = click
                clicked.setdefault(page, {})[item] = ordinal
    return _batched(_pages(paths, pages, clicked, bad))


def _lines(path: Path, bad: Complain) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                bad(Bad(f"{path}: line {number}: not a JSON object ({error})"))
                continue
            yield number, record


def _pages(
    paths: Sequence[Path], page_of: Any, clicked: dict[str, dict[str, int]], bad: Complain
) -> Iterator[tuple[int, Page]]:
    quiet: Complain = lambda error: None  # noqa: E731  (reported in the first pass)
    joined: set[str] = set()  # pages with clicks that were found already
    for path in paths:
        for number, record in _lines(path, quiet):
            found = page_of(record)
            if found is None:
                continue
            key, page = found
            items = page["items"]
            if key in clicked and key in joined:
                bad(Bad(f"{path}: line {number}: a second page {key!r}; clicks belong to one page"))
                continue
            if not isinstance(items, list) or not items or not all(isinstance(item, str) for item in items):
                bad(Bad(f"{path}: line {number}, field 'items': {str(items)[:60]!r} is not a list of item ids"))
                continue
            hits = clicked.get(key, {})
            joined.update([key] * bool(hits))
            wrong = next((item for item, k in hits.items() if item not in items or k not in (0, items.index(item) + 1)), None)
            if wrong is not None:
                bad(Bad(f"{path}: line {number}: a click on {wrong!r} at position {hits[wrong]} does not fit the page {key!r}"))
                continue
            yield number, {**page, "clicks": [item in hits for item in items]}


def _ubi_page(record: dict[str, Any]) -> tuple[str, Page] | None:
    if "action_name" in record or "query_id" not in record:
        return None
    items: Any = record.get("query_response_hit_ids")
    if isinstance(items, list):
        items = [str(item) if isinstance(item, int) else item for item in items]
    query = record.get("user_query")
    return str(record["query_id"]), {
        "query": "" if query is None else str(query),
        "items": items,
        "time": record.get("timestamp"),
    }


def _ubi_click(record: dict[str, Any]) -> tuple[str, str, int] | None:
    if record.get("action_name") not in ("click", "item_click") or "query_id" not in record:
        return None
    attributes = record.get("event_attributes") or {}
    item = (attributes.get("object") or {}).get("object_id")
    ordinal = (attributes.get("position") or {}).get("ordinal") or 0
    return None if item is None else (str(record["query_id"]), str(item), int(ordinal))


def _metarank_page(record: dict[str, Any]) -> tuple[str, Page] | None:
    if record.get("event") != "ranking":
        return None
    fields = {field.get("name"): field.get("value") for field in record.get("fields") or [] if isinstance(field, dict)}
    items = record.get("items")
    if isinstance(items, list) and all(isinstance(item, dict) and "id" in item for item in items):
        items = [str(item["id"]) for item in items]
    return str(record.get("id")), {"query": str(fields.get("query", "")), "items": items, "time": record.get("timestamp")}


def _metarank_click(record: dict[str, Any]) -> tuple[str, str, int] | None:
    if record.get("event") != "interaction" or record.get("type", "click") != "click":
        return None
    return str(record.get("ranking")), str(record.get("item")), 0


def _batched(pages: Iterator[tuple[int, Page]]) -> Iterator[Batch]:
    numbers: list[int] = []
    kept: list[Page] = []
    for number, page in pages:
        numbers.append(number)
        kept.append(page)
        if len(kept) == SIZE:
            yield _batch(kept, numbers)
            numbers, kept = [], []
    if kept:
        yield _batch(kept, numbers)


def _batch(pages: list[Page], numbers: list[int]) -> Batch:
    pa = arrow()
    names = [name for name in schema().names if any(page.get(name) is not None for page in pages)]
    columns = {}
    for name in names:
        values = [page.get(name) for page in pages]
        if name == "time":
            values = [None if value is None else str(value) for value in values]
        columns[name] = pa.array(values, pa.string() if name == "time" else schema().field(name).type)
    lines = np.array(numbers)
    return Batch(pa.record_batch(columns), lines, lines, {})


def events(path: Path) -> Iterator[Batch]:
    """Batches of answered slates from our service's export."""
    pa = arrow()
    file = pa.parquet.ParquetFile(path)
    answers: dict[int, tuple[list[bool], list[bool] | None]] = {}
    answered = [name for name in ("kind", "served", "clicks", "seen") if name in file.schema_arrow.names]
    for batch in file.iter_batches(ROWS, columns=answered):
        for row in batch.to_pylist():
            if row["kind"] == "learned" and row["served"] is not None and row["clicks"] is not None:
                answers[row["served"]] = row["clicks"], row.get("seen")
    wanted = [
        name
        for name in ("seq", "at", "ranker", "kind", "items", "propensity", "joint", "conditional")
        if name in file.schema_arrow.names
    ]

    def pages() -> Iterator[tuple[int, Page]]:
        number = 0
        for batch in file.iter_batches(ROWS, columns=wanted):
            for row in batch.to_pylist():
                number += 1
                if row["kind"] == "served" and row["items"] is not None and row["seq"] in answers:
                    yield (
                        number,
                        {
                            "query": row["ranker"],
                            "items": row["items"],
                            "clicks": answers[row["seq"]][0],
                            "time": row["at"].isoformat(),
                            "propensity": row.get("propensity"),
                            "joint": row.get("joint"),
                            "conditional": row.get("conditional"),
                            "seen": answers[row["seq"]][1],
                        },
                    )

    return _batched(pages())
