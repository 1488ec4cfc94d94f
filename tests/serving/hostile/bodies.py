"""Bodies that a server must refuse: bombs, headings, headers, nesting, ragged, wrong types. Each is made when it is needed."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

JSON, NPY, PARQUET, CSV = "application/json", "application/x-npy", "application/vnd.apache.parquet", "text/csv"
FILE = "/v1/rankers/hostile?positions=2"
PREVIEW = "/dash/preview"


class Hostile(NamedTuple):
    """A request that has to be refused."""

    name: str
    method: str
    path: str
    kind: str
    body: bytes


def _parquet(table: pa.Table, times: int = 1, **options) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, **{"compression": "zstd", **options}) as writer:
        for _ in range(times):
            writer.write_table(table)
    return sink.getvalue()


def _npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00", length: int | None = None) -> bytes:
    text = header.encode("latin-1")
    size = len(text) if length is None else length
    return b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", size) + text + data


def _array(kind: str, shape: str) -> str:
    return f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n"


def _zeros(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, np.int8))


def _ids(kind: pa.DataType, letters: int, rows: int) -> pa.Table:
    """The same long id again and again, in a dictionary: few bytes in a file, many in memory."""
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * letters], kind))
    return pa.table({"id": ids, "x": _zeros(rows)})


def _parquets() -> Iterator[tuple[str, Callable[[], bytes]]]:
    small = {"x": [1.0, 2.0], "id": ["a", "b"]}
    yield "2*10^8 rows", lambda: _parquet(pa.table({"x": _zeros(10**7)}), times=20)
    yield "10^6 x 200", lambda: _parquet(pa.table({f"x{n}": _zeros(10**5) for n in range(200)}), times=10)
    yield "repeated long ids", lambda: _parquet(_ids(pa.string(), 10_000, 500_000))
    yield "repeated long ids, as they are", lambda: _parquet(_ids(pa.large_string(), 100_000, 20_000))
    yield "one id of 200 MB", lambda: _parquet(pa.table({"id": ["x" * (200 << 20)], "x": [1.0]}))
    yield "one list of 50 million", lambda: _parquet(pa.table({"x": _long_list(50_000_000)}))
    yield "a list of fixed size 40 million", lambda: _parquet(pa.table({"x": _fixed_list(40_000_000)}))
    yield "20,000 columns", lambda: _parquet(pa.table({f"x{n}": [1.0] for n in range(20_000)}), compression="none")
    yield "columns of one name", lambda: _parquet(pa.Table.from_arrays([pa.array([1.0])] * 2000, names=["x"] * 2000))
    yield "structs in structs", lambda: _parquet(pa.table({"x": _nested(40)}))
    yield "truncated", lambda: _parquet(pa.table(small))[:-20]
    yield "a footer of 2 GB", lambda: _parquet(pa.table(small))[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1"
    yield "a damaged page", lambda: _damaged(_parquet(pa.table({"x": np.random.default_rng(0).random(10_000)})))
    yield "no rows", lambda: _parquet(pa.table({"x": pa.array([], pa.float64())}))
    yield "empty features", lambda: _parquet(pa.table({"x": [1.0, None]}))
    yield "ragged lists", lambda: _parquet(pa.table({"x": [[1.0, 2.0], [1.0]]}))
    yield "not finite", lambda: _parquet(pa.table({"x": [1.0, float("nan")]}))
    yield "no ids", lambda: _parquet(pa.table({"id": ["a", None], "x": [1.0, 2.0]}))
    yield "ids twice", lambda: _parquet(pa.table({"id": ["a"] * 300_000, "x": np.arange(300_000.0)}))
    yield "ids of dates", lambda: _parquet(pa.table({"id": pa.array([1, 2], pa.date32()), "x": [1.0, 2.0]}))
    yield "text only", lambda: _parquet(pa.table({"x": ["a", "b"]}))


def _long_list(size: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, size], pa.int32()), pa.array(np.zeros(size, np.float32)))


def _fixed_list(size: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(size, np.int8)), size)


def _nested(depth: int) -> pa.Array:
    array: pa.Array = pa.array([1.0])
    for _ in range(depth):
        array = pa.StructArray.from_arrays([array], ["x"])
    return array


def _damaged(file: bytes) -> bytes:
    middle = len(file) // 3
    return file[:middle] + bytes(byte ^ 0xFF for byte in file[middle : middle + 4000]) + file[middle + 4000 :]


def _npys() -> Iterator[tuple[str, Callable[[], bytes]]]:
    yield "a header in brackets", lambda: _npy("(" * 1500 + ")" * 100)
    yield "a header of minus signs", lambda: _npy("{'descr': " + "-" * 3000 + "1}")
    yield "a header of 4 GB", lambda: _npy("{", version=b"\x02\x00", length=2**32 - 1)
    yield "a header of 60 kB", lambda: _npy(_array("'<f8'", "(1, 1)").rstrip() + " " * 60_000 + "\n", bytes(8))
    yield "10^12 rows", lambda: _npy(_array("'<f8'", "(1000000000000, 10)"), bytes(80))
    yield "rows beyond 64 bits", lambda: _npy(_array("'<f8'", f"({10**30}, 1)"), bytes(80))
    yield "fewer than no rows", lambda: _npy(_array("'<f8'", "(-1, -8)"), bytes(64))
    yield "pickled objects", lambda: _npy(_array("'|O'", "(2, 1)"), b"cos\nsystem\n(S'true'\ntR.")
    yield "8 million letters", lambda: _npy(_array("'<U1'", "(8000000, 1)"), b"1\0\0\0" * 8_000_000)
    yield "records", lambda: _npy(_array("[('a', '<f8'), ('b', '<f8')]", "(2, 2)"), bytes(64))
    yield "three dimensions", lambda: _npy(_array("'<f8'", "(2, 2, 2)"), bytes(64))
    yield "complex numbers", lambda: _npy(_array("'<c16'", "(2, 2)"), bytes(64))
    yield "bytes that become 8 times as many", lambda: _npy(_array("'|i1'", "(1000, 40000)"), bytes(40_000_000))
    yield "bytes in 4,000 columns", lambda: _npy(_array("'|i1'", "(10000, 4000)"), bytes(40_000_000))
    yield "half of the numbers", lambda: _npy(_array("'<f8'", "(10, 2)"), bytes(80))
    yield "a version of its own", lambda: _npy(_array("'<f8'", "(1, 1)"), bytes(8), version=b"\x09\x09")
    yield "numbers that are none", lambda: _npy(_array("'<f2'", "(2, 1)"), b"\xff\xff" * 2)


def _csvs() -> Iterator[tuple[str, Callable[[], bytes]]]:
    names = ",".join(f"c{n}" for n in range(80_000)).encode()
    yield "80,000 columns", lambda: names + b"\n" + b",".join([b"1"] * 80_000) + b"\n"
    yield "a heading of 80,000", lambda: names
    yield "9,999 columns, two of one name", lambda: ",".join([*(f"c{n}" for n in range(9_998)), "c9997"]).encode() + b"\n1\n"
    yield "9,999 columns of words", lambda: ",".join(f"c{n}" for n in range(9_999)).encode() + b"\n" + b"a," * 9_998 + b"a\n"
    yield "a quote that never ends", lambda: b'id,x\n"' + b"a\n" * 5_000_000
    yield "one line of 20 MB", lambda: b"x" * 20_000_000
    yield "ten million commas", lambda: b"," * 10_000_000
    yield "ragged and wide", lambda: b"id,x\n" + b"1," * 10_000_000
    yield "faces", lambda: b"id,x\n" + "🙂".encode() * 3_000_000
    yield "not UTF-8 in the end", lambda: b"id,x\n" + b"".join(b"a%d,1\n" % n for n in range(300_000)) + b"\xff,1\n"
    yield "a word in the end", lambda: b"id,x\n" + b"".join(b"a%d,1\n" % n for n in range(300_000)) + b"a,one\n"
    yield "ids twice", lambda: b"id,x\n" + b"a,1\n" * 300_000
    yield "nothing but numbers", lambda: b"1,2\n" * 100_000
    yield "NUL", lambda: b"id,x\n\0,\0\n"
    yield "empty lines", lambda: b"id,x\n" + b"\n" * 10_000_000


def _jsons() -> Iterator[tuple[str, Callable[[], bytes]]]:
    item = '{"id":"a","features":[1]}'
    start = b'{"positions":2,"items":['
    yield "ten million brackets", lambda: b"[" * 10_000_000
    yield "objects in objects", lambda: b'{"options":' * 1_000_000
    yield "deep options", lambda: f'{{"positions":2,"items":[{item}],"options":{{"delta":'.encode() + b"[" * 1_000_000
    yield "600,000 items", lambda: start + (item + ",").encode() * 600_000 + item.encode() + b"]}"
    yield "5,000,000 features", lambda: start + b'{"id":"a","features":[' + b"1," * 5_000_000 + b"1]}]}"
    yield "an id of 15 MB", lambda: start + b'{"id":"' + b"a" * 15_000_000 + b'","features":[1]}]}'
    yield "ragged", lambda: start + b'{"id":"a","features":[1]},{"id":"b","features":[1,2]}]}'
    yield "the wrong types", lambda: b'{"positions":[],"items":{},"algorithm":1,"options":[],"rounds":"x"}'
    yield "numbers beyond all", lambda: start + b'{"id":"a","features":[1e999]}]}'
    yield "digits", lambda: b'{"positions":' + b"9" * 1_000_000 + b"}"
    yield "not UTF-8", lambda: b'{"positions":2,"items":[{"id":"\xff\xfe","features":[1]}]}'
    yield "gzip", lambda: gzip.compress(bytes(50_000_000))
    for field, value in {"seed": 1, "positions": 1, "features": [[1]], "rounds": 5, "delta": 10**400, "moon": {}}.items():
        asked = {"positions": 1, "items": [json.loads(item)], "options": {field: value}}
        yield f"the option {field}", lambda asked=asked: json.dumps(asked).encode()


def _others() -> Iterator[Hostile]:
    report = b'{"slate":"a","clicks":[]}'
    yield Hostile("1,001 reports", "POST", "/v1/feedback", JSON, b"[" + b",".join([report] * 1_001) + b"]")
    yield Hostile("brackets as reports", "POST", "/v1/feedback", JSON, b"[" * 1_000_000)
    yield Hostile("a million clicks", "POST", "/v1/feedback", JSON, b'[{"slate":"a","clicks":[' + b"0," * 900_000 + b"0]}]")
    yield Hostile("a slate of 2 MB", "POST", "/v1/rankers/films/rank", JSON, b'{"slate":"' + b"a" * 2_000_000 + b'"}')
    yield Hostile("a slate with a newline", "POST", "/v1/rankers/films/rank", JSON, b'{"slate":"abc\\n"}')
    yield Hostile("a list for a slate", "POST", "/v1/rankers/films/rank", JSON, b"[1,2,3]")
    yield Hostile("a kind of its own", "PUT", FILE, "x" * 4_000, b"x")
    query = FILE + "&options=" + "[" * 8_000
    yield Hostile("a deep query", "PUT", query, NPY, _npy(_array("'<f8'", "(2, 1)"), struct.pack("<2d", 1, 2)))
    yield Hostile("a simulation of its own", "POST", "/dash/playground/run", JSON, b'{"items":"' + b"9" * 10_000 + b'"}')


def _requests() -> Iterator[Hostile]:
    """To the rankers of requests ``shop``, with items, and ``free``, of two features each."""
    rank, free, items, rules = (f"/v1/rankers/{path}" for path in ("shop/rank", "free/rank", "shop/items", "shop/rules"))
    one = b'{"id":"a","features":[1.0,2.0]}'
    many = b",".join(b'"x%d"' % n for n in range(10_001))
    rows = b",".join(b'{"id":"x%d","features":[1,2]}' % n for n in range(10_001))
    for name, path, body in (
        ("10,001 candidates", rank, b'{"candidates":[' + many + b"]}"),
        ("10,001 candidates with features", free, b'{"candidates":[' + rows + b"]}"),
        ("a million features", free, b'{"candidates":[{"id":"a","features":[' + b"0," * 900_000 + b"0]}]}"),
        ("NaN", free, b'{"candidates":[{"id":"a","features":[NaN,1.0]}]}'),
        ("too large a number", free, b'{"candidates":[{"id":"a","features":[1e999,1.0]}]}'),
        ("a number of 10^6 digits", free, b'{"candidates":[{"id":"a","features":[' + b"9" * 10**6 + b",1.0]}]}"),
        ("brackets as candidates", rank, b'{"candidates":' + b"[" * 1_000_000),
        ("candidates in candidates", free, b'{"candidates":[' * 100_000),
        ("numbers as candidates", rank, b'{"candidates":[1,2]}'),
        ("an object of candidates", rank, b'{"candidates":{"a":1}}'),
        ("an empty id", rank, b'{"candidates":[""]}'),
        ("a long id", rank, b'{"candidates":["' + b"x" * 300 + b'"]}'),
        ("pins by name", rank, b'{"pin":{"first":"i1"}}'),
        ("a pin below zero", rank, b'{"pin":{"-1":"i1"}}'),
        ("a pin beyond all numbers", rank, b'{"pin":{"99999999999999999999999":"i1"}}'),
        ("10^5 pins", rank, b'{"pin":{' + b",".join(b'"%d":"i1"' % n for n in range(10**5)) + b"}}"),
        ("a context of NaN", free, b'{"candidates":[' + one + b'],"context":[NaN]}'),
        ("a long segment", free, b'{"candidates":[' + one + b'],"segment":"' + b"x" * 201 + b'"}'),
        ("features that are not base64", free, b'{"candidates":["a"],"features":"***"}'),
        ("exploring twice", rank, b'{"explore":2}'),
    ):
        yield Hostile(f"a request: {name}", "POST", path, JSON, body)
    for name, body in (
        ("a map of 2^32 - 1", b"\xdf\xff\xff\xff\xff"), ("a list of 2^32 - 1", b"\x81\xaacandidates\xdd\xff\xff\xff\xff"),
        ("nested", b"\x91" * 1_000_000), ("bytes of 2^32 - 1", b"\x81\xa8features\xc6\xff\xff\xff\xff"),
    ):  # fmt: skip
        yield Hostile(f"MessagePack: {name}", "POST", free, "application/msgpack", body)
    yield Hostile("a .npy of more rows than there are", "POST", free, NPY, _npy(_array("'<f8'", "(1000000000, 2)")))
    yield Hostile("a .npy of objects", "POST", free, NPY, _npy(_array("'|O'", "(1, 2)"), b"x" * 16))
    yield Hostile("a .npy of 20,000 rows", "POST", free, NPY, _npy(_array("'<f4'", "(20000, 2)"), bytes(160_000)))
    deep = f"{free}?ids={'[' * 8_000}"
    yield Hostile("ids in ids", "POST", deep, NPY, _npy(_array("'<f8'", "(1, 2)"), struct.pack("<2d", 1, 2)))
    for name, body in (
        ("20,001 items", b'{"remove":[' + b",".join(b'"x%d"' % n for n in range(20_001)) + b"]}"),
        ("NaN", b'{"add":[{"id":"a","features":[NaN,1]}]}'),
        ("ragged", b'{"add":[{"id":"a","features":[1]},{"id":"b","features":[1,2]}]}'),
        ("brackets", b"[" * 1_000_000),
        ("items in items", b'{"add":' * 100_000),
        ("wrong types", b'{"add":{"id":"a"}}'),
        ("an item twice", b'{"add":[' + one + b"," + one + b"]}"),
    ):
        yield Hostile(f"items: {name}", "PATCH", items, JSON, body)
    yield Hostile("rules: pins beyond the slate", "PUT", rules, JSON, b'{"pin":{"2":"i1"}}')
    yield Hostile("rules: brackets", "PUT", rules, JSON, b"[" * 1_000_000)
    yield Hostile(
        "a ranker of 10^12 numbers", "PUT", "/v1/rankers/hostile", JSON, b'{"algorithm":"anchored","positions":1000,"dim":4096}'
    )
    outer = b'{"algorithm":"anchored","positions":10,"dim":100,"options":{"context":10000,"interactions":"outer"}}'
    yield Hostile("a ranker with a large context", "PUT", "/v1/rankers/hostile", JSON, outer)


def bodies() -> Iterator[Hostile]:
    """All of them, the worst of the files as previews too."""
    for kind, found in ((PARQUET, _parquets()), (NPY, _npys()), (CSV, _csvs())):
        for place, (name, make) in enumerate(found):
            body = make()
            yield Hostile(f"{kind}: {name}", "PUT", FILE, kind, body)
            if place < 3:
                yield Hostile(f"preview: {kind}: {name}", "PUT", PREVIEW, kind, body)
    for name, make in _jsons():
        yield Hostile(f"{JSON}: {name}", "PUT", "/v1/rankers/hostile", JSON, make())
    yield from _others()
    yield from _requests()
