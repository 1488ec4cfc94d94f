"""One byte altered anywhere is found by ``recurrank log verify``, and it says where."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import struct

import numpy as np
import psycopg
import pytest

from recurrank.catalogue import Catalogue
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import StoreError, open_store
from recurrank.serving.store.records import Report, Serve
from recurrank.serving.verify import verify

K = 3
CONFIG = RankerSpec(algorithm="recurrank", positions=K, rounds=5000, seed=0, window_seconds=60.0, unreported="drop", options={})
COLUMNS = {
    "events": ("seq", "ranker", "kind", "served", "clicks", "payload", "at", "link"),
    "slates": ("slate", "served", "ranker", "status", "clicks"),
    "rankers": ("number", "name", "config", "digest", "positions", "deleted"),
    "catalogues": ("ranker", "part", "data"),
    "snapshots": ("ranker", "seq", "digest", "state"),
    "head": ("seq", "digest", "first"),
}
CHANCES = {"events": 0.5, "slates": 0.25, "rankers": 0.08, "catalogues": 0.06, "snapshots": 0.06, "head": 0.05}


class Time:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def grow(address: str, slates: int) -> None:
    """Three rankers, one of them deleted; slates reported on in parts, finally, twice, never; some windows close."""
    clock, rng = Time(), np.random.default_rng(0)
    service = Service(open_store(address), clock, seed=1, start=False)
    catalogue = Catalogue(rng.standard_normal((12, 2)), [f"item {n}" for n in range(12)])
    for name in ("films", "books", "gone"):
        service.create(name, CONFIG, catalogue)
    for start in range(0, slates, 500):
        names = [f"s{number}" for number in range(start, min(start + 500, slates))]
        hosted_rankers = [service.hosted(("films", "books", "gone")[number % 3]) for number in range(len(names))]
        many = zip(names, hosted_rankers, strict=True)
        service.store.commit([Serve(slate, hosted.stored.number, hosted.draw()[0]) for slate, hosted in many])
        chosen = [slate for slate in names if rng.random() < 0.9]
        service.store.commit([Report(slate, (int(rng.integers(K)),), bool(rng.random() < 0.8)) for slate in chosen])
        service.step()
        clock.now += 40
        service.step()
    service.delete("gone")
    service.step()
    service.retention.step()  # the rows of its slates go
    service.close()


def flipped(value, rng):
    """The value with one byte changed."""
    if isinstance(value, int):
        return value ^ (int(rng.integers(1, 256)) << 8 * int(rng.integers(2)))
    packed = bytearray(
        struct.pack("<d", value) if isinstance(value, float) else value.encode() if isinstance(value, str) else value
    )
    place = int(rng.integers(len(packed)))
    packed[place] ^= int(rng.integers(1, 256))
    return struct.unpack("<d", bytes(packed))[0] if isinstance(value, float) else bytes(packed)


def alter(database: sqlite3.Connection, rng) -> str:
    """Change one byte of one value; which."""
    while True:
        table = str(rng.choice(list(CHANCES), p=list(CHANCES.values())))
        column = str(rng.choice(COLUMNS[table]))
        keys = {"slates": "slate", "catalogues": "ranker, part", "snapshots": "ranker, seq"}.get(table, "rowid")
        rows = database.execute(f"SELECT {keys}, {column} FROM {table} ORDER BY {keys}").fetchall()
        *key, value = rows[int(rng.integers(len(rows)))]
        if value is None or (isinstance(value, (bytes, str)) and not value):
            continue
        new = flipped(value, rng)
        if isinstance(new, float) and not np.isfinite(new):
            continue
        where = " AND ".join(f"{name} = ?" for name in keys.split(", "))
        text = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
        with contextlib.suppress(sqlite3.IntegrityError):
            assert database.execute(f"UPDATE {table} SET {column} = {text} WHERE {where}", (new, *key)).rowcount == 1
            return f"{table}.{column} of {key}: {value!r:.40} -> {new!r:.40}"


def content(path) -> list[list[str]]:
    """All that is in a file, as its readers see it."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        tables = [(table, ", ".join(columns)) for table, columns in COLUMNS.items()]
        return [
            row for table, columns in tables for row in database.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}")
        ]


def found(path) -> list[str]:
    try:
        store = open_store(f"sqlite:///{path}")
    except StoreError as error:
        return [str(error)]
    try:
        return verify(store).faults
    finally:
        store.close()


@pytest.fixture(scope="module")
def size(request):
    return (45_000, 200) if request.config.getoption("--soak") else (800, 60)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, size):
    path = tmp_path_factory.mktemp("verify") / "whole.db"
    grow(f"sqlite:///{path}", size[0])
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def test_one_byte_of_one_value(whole, tmp_path, size):
    """In every column of every table that the log consists of, at random: each is found, with its place."""
    assert found(whole) == []
    rng, path = np.random.default_rng(1), tmp_path / "x.db"
    for _ in range(size[1]):
        shutil.copy(whole, path)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            what = alter(database, rng)
        faults = found(path)
        assert faults, what
        assert any(word in faults[0] for word in ("event", "slate", "ranker", "head", "catalogue", "snapshot")), (
            what,
            faults[0],
        )
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def test_one_byte_of_the_file(whole, tmp_path, size):
    """Anywhere in it: found by SQLite's own check or by ours, or nobody who reads the file can tell the difference."""
    rng, path, before, seen = np.random.default_rng(2), tmp_path / "x.db", content(whole), 0
    raw = whole.read_bytes()
    for _ in range(size[1] // 2):
        place = int(rng.integers(len(raw)))
        path.write_bytes(raw[:place] + bytes([raw[place] ^ int(rng.integers(1, 256))]) + raw[place + 1 :])
        if found(path):
            seen += 1
        else:
            assert content(path) == before, place
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert seen > size[1] // 4


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE recurrank_events SET payload = substr(payload, 2) WHERE seq = 5", "event 5: "),
        ("UPDATE recurrank_events SET at = at + 1 WHERE seq = 6", "event 6: it was altered"),
        ("DELETE FROM recurrank_events WHERE seq = 7", "events 7 to 7 are missing"),
        ("DELETE FROM recurrank_events WHERE seq > 100", "its head says"),
        ("UPDATE recurrank_slates SET status = 3 - status WHERE served = 5", "of event 5: its row says status"),
    ],
)
def test_in_postgresql_too(database, damage, says):
    grow(database, 60)
    store = open_store(database)
    try:
        assert verify(store).faults == []
        with psycopg.connect(database, autocommit=True) as connection:
            assert connection.execute(damage).rowcount > 0
        assert says in " ".join(verify(store).faults)
    finally:
        store.close()
