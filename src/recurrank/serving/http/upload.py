"""Rankers as they are asked for: JSON with all in it, or a file of features with the settings in the query."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from recurrank.catalogue import Catalogue
from recurrank.files.features import read_features
from recurrank.serving.csvfile import read_csv
from recurrank.serving.fold import Config
from recurrank.serving.http import schema as s
from recurrank.serving.http.problems import Refused

NPY, PARQUET, CSV, JSON = "application/x-npy", "application/vnd.apache.parquet", "text/csv", "application/json"

ITEMS = 10_000_000
"""Of one ranker."""


def read_ranker(kind: str, body: bytes, query: dict[str, Any]) -> tuple[Config, Catalogue]:
    """What was asked for; ValueError, msgspec's errors or Refused for what will not do."""
    if kind == JSON:
        if query:
            raise ValueError(
                f"query: {next(iter(query))[:60]!r} has no effect here; settings stand beside the items, in the body"
            )
        asked = msgspec.json.decode(body, type=s.NewRanker)
        return _config(asked), _listed(asked.items)
    if kind not in (NPY, PARQUET, CSV):
        raise Refused(415, f"content-type: {kind[:60]!r} is not taken; send {JSON}, {NPY}, {PARQUET} or {CSV}")
    settings = {name: _value(value) for name, value in query.items()}
    asked_file = msgspec.convert(settings, s.NewRankerFile, strict=False)
    return _config(asked_file), read_items(kind, body)


def read_items(kind: str, body: bytes) -> Catalogue:
    """The items in a file of one of these kinds."""
    catalogue = _npy(body) if kind == NPY else _parquet(body) if kind == PARQUET else read_csv(body).catalogue()
    if len(catalogue) > ITEMS:
        raise Refused(413, f"body: {len(catalogue):,} items; at most {ITEMS:,} are taken")
    return catalogue


def _config(asked: s.NewRanker | s.NewRankerFile) -> Config:
    names = ("algorithm", "positions", "rounds", "seed", "window_seconds", "unreported", "options")
    return Config(**{name: getattr(asked, name) for name in names})


def _value(text: str) -> Any:
    try:
        return json.loads(text) if text[:1] in "{[" else text
    except json.JSONDecodeError as error:
        raise ValueError(f"query: {text[:60]!r} is not JSON") from error


def _listed(items: list[s.NewItem]) -> Catalogue:
    size = len(items[0].features)
    for place, item in enumerate(items):
        if len(item.features) != size:
            raise ValueError(f"items[{place}].features: {len(item.features)} numbers, the first item has {size}")
    return Catalogue(np.array([item.features for item in items]), [item.id for item in items])


def _npy(body: bytes) -> Catalogue:
    """Items are called by their places: "0", "1", ..."""
    try:
        return Catalogue(np.load(io.BytesIO(body), allow_pickle=False))
    except (EOFError, OSError) as error:
        raise ValueError(f"body: not a .npy file of numbers, or a truncated one ({error})") from error


def _parquet(body: bytes) -> Catalogue:
    """A column ``id``, if there is one, names the items."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "body.parquet"
        path.write_bytes(body)
        try:
            names = pq.read_schema(path).names
            ids = [str(name) for name in pq.read_table(path, columns=["id"])["id"].to_pylist()] if "id" in names else None
        except (pa.ArrowException, OSError) as error:
            raise ValueError("body: not a Parquet file, or a truncated one") from error
        try:
            return Catalogue(read_features(path), ids)
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "body")) from error
