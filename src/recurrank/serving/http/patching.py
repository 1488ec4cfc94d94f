"""Decode requests to change items. Large ones are decoded by a worker process (``decoder.py``), which imports little."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from recurrank.serving.changes import Wanted
from recurrank.serving.http import schema as s
from recurrank.serving.http.decoder import Rows
from recurrank.serving.http.upload import JSON, Bounds

MSGPACKS = ("application/msgpack", "application/x-msgpack")
"""Media types of MessagePack; the first is the registered one."""


def read_patch(kind: str, body: bytes, query: dict[str, str], bounds: Bounds) -> Rows:
    """The rows of items to add, then of items to change; the document has the number to add, and the items to remove."""
    decode = msgspec.json.decode if kind == JSON else msgspec.msgpack.decode
    asked = decode(body, type=s.ItemsPatch)
    rows = [*asked.add, *asked.change]
    size = len(rows[0].features) if rows else 0
    for row, item in enumerate(rows):
        if len(item.features) != size:
            field = f"add[{row}]" if row < len(asked.add) else f"change[{row - len(asked.add)}]"
            raise ValueError(f"{field}.features: {len(item.features)} numbers, the first item has {size}")
    document: dict[str, Any] = {"add": len(asked.add), "remove": asked.remove}
    return Rows(document, np.array([item.features for item in rows]), [item.id for item in rows])


def wanted_of(rows: Rows) -> Wanted:
    """The requested changes."""
    add, features = rows.document["add"], rows.features if rows.ids else ()
    return Wanted(rows.ids[:add], features[:add], rows.ids[add:], features[add:], rows.document["remove"])
