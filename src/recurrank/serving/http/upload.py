"""Decode requests to create a ranker: JSON with everything, or a file of features with the settings in the query."""

from __future__ import annotations

import functools
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from recurrank.catalogue import Catalogue
from recurrank.catalogue.csv import PER_ID, read_csv
from recurrank.catalogue.parquet import Dataset
from recurrank.rankers.stock import Stock
from recurrank.serving.http import schema as s
from recurrank.serving.http.problems import Refused
from recurrank.serving.spec import RankerSpec

NPY, PARQUET, CSV, JSON = "application/x-npy", "application/vnd.apache.parquet", "text/csv", "application/json"

ITEMS = 10_000_000
"""Most items of one ranker."""


COLUMNS = 10_000
"""Most columns of one file."""
NPY_HEADER = 4_096
"""Most bytes of the header of a .npy file; numpy writes 128."""


class Bounds(msgspec.Struct, frozen=True):
    """Limits of a decoded catalogue; larger ones are Refused."""

    bytes: int = 256 << 20
    items: int = ITEMS
    columns: int = COLUMNS

    def check(self, items: int, columns: int, itemsize: int = 8, ids: int = 0) -> None:
        """Raise Refused if a limit is exceeded, with ``itemsize`` bytes per feature and ``ids`` bytes of ids."""
        if items > self.items:
            raise Refused(413, f"body: {items:,} items; at most {self.items:,} are taken")
        if columns > self.columns:
            raise Refused(413, f"body: {columns:,} columns; at most {self.columns:,} are taken")
        if items * columns * itemsize + ids > self.bytes:
            took = items * columns * itemsize + ids
            raise Refused(413, f"body: {took >> 20:,} MB of items, decoded; at most {self.bytes >> 20:,} are taken")


def read_ranker(kind: str, body: bytes, query: dict[str, str], bounds: Bounds | None = None) -> tuple[RankerSpec, Catalogue]:
    """Decode a ranker; ValueError, msgspec's errors or Refused for an invalid one."""
    bounds = bounds or Bounds()
    if kind == JSON:
        if query:
            raise ValueError(
                f"query: {next(iter(query))[:60]!r} has no effect here; settings stand beside the items, in the body"
            )
        try:
            asked = msgspec.json.decode(body, type=s.NewRanker)
        except UnicodeDecodeError as error:
            raise ValueError("body: not UTF-8") from error
        asked.check_served()
        if not asked.items:
            return asked.plain(), without_items(asked)
        letters = sum(len(item.id) + PER_ID for item in asked.items)
        bounds.check(len(asked.items), len(asked.items[0].features), ids=letters)
        return asked.plain(), _listed(asked.items)
    if kind not in (NPY, PARQUET, CSV):
        raise Refused(415, f"content-type: {kind[:60]!r} is not taken; send {JSON}, {NPY}, {PARQUET} or {CSV}")
    settings = {name: _value(value) for name, value in query.items()}
    spec = msgspec.convert(settings, RankerSpec, strict=False)
    spec.check_served()
    return spec, read_items(kind, body, bounds)


def read_items(kind: str, body: bytes, bounds: Bounds) -> Catalogue:
    """The items in a file of one of these kinds."""
    if kind == NPY:
        return Catalogue(read_npy(body, bounds))
    if kind == PARQUET:
        return _parquet(body, bounds)
    read = read_csv(body, bounds.check)
    return Catalogue(read.features, read.ids)


def without_items(spec: RankerSpec) -> Catalogue:
    """An empty catalogue of ``dim`` features; ValueError if the ranker needs items."""
    if spec.dim is not None:
        return Stock.empty(spec.dim)
    instead = ", or how many features a candidate has, as dim" if spec.takes_requests else ""
    raise ValueError(f"items: missing; give at least one{instead}")


def _value(text: str) -> Any:
    try:
        return json.loads(text) if text[:1] in "{[" else text
    except json.JSONDecodeError as error:
        raise ValueError(f"query: {text[:60]!r} is not JSON") from error


def _listed(items: list[s.NewItem]) -> Catalogue:
    size = len(items[0].features)
    for row, item in enumerate(items):
        if len(item.features) != size:
            raise ValueError(f"items[{row}].features: {len(item.features)} numbers, the first item has {size}")
    return Catalogue(np.array([item.features for item in items]), [item.id for item in items])


def read_npy(body: bytes, bounds: Bounds) -> np.ndarray[Any, Any]:
    """The array in a .npy file, a view of the body; nothing is allocated because of its header."""
    try:
        start = _npy_start(body)
        shape, columnwise, kind = _npy_header(body[:start])
    except Exception as error:  # numpy uses Python's own parser, which can fail in many ways
        raise ValueError("body: not a .npy file of numbers, or a truncated one") from error
    if kind.kind not in "fiub" or len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"body: an array of shape {shape} of {kind}; give two dimensions of numbers, with one row per item")
    bounds.check(*shape, itemsize=kind.itemsize if kind in (np.float32, np.float64) else 8)
    size = shape[0] * shape[1] * kind.itemsize
    if len(body) - start != size:
        why = "the file is truncated" if len(body) - start < size else "there is more than its header announces"
        raise ValueError(f"body: {len(body) - start:,} bytes of numbers, its header says {size:,}; {why}")
    return np.frombuffer(body, kind, offset=start).reshape(shape, order="F" if columnwise else "C")


def _npy_start(body: bytes) -> int:
    """Offset of the numbers in a .npy file."""
    width = 2 if body[6:7] == b"\x01" else 4
    length = int.from_bytes(body[8 : 8 + width], "little")
    if length > NPY_HEADER:
        raise ValueError(f"a header of {length:,} bytes")
    return 8 + width + length


@functools.lru_cache(256)  # requests with equal numbers of candidates share it; parsing takes longer than ranking
def _npy_header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    file = io.BytesIO(head)
    major = np.lib.format.read_magic(file)[0]
    if major not in (1, 2, 3):
        raise ValueError(f"version {major}")
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    header: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file)
    return header


def _parquet(body: bytes, bounds: Bounds) -> Catalogue:
    """The catalogue in a Parquet file; a column ``id``, if there is one, names the items."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise Refused(415, f"content-type: {PARQUET} is not taken: this server runs without pyarrow") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "body.parquet"
        path.write_bytes(body)
        try:
            dataset = Dataset(path)
            bounds.check(dataset.rows, dataset.dim)
            taken = 0

            def count(ids: Any) -> None:
                nonlocal taken
                taken += ids.nbytes + PER_ID * len(ids)
                bounds.check(dataset.rows, dataset.dim, ids=taken)

            return Catalogue(*dataset.load(check=count))
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "body")) from error
