"""The log by itself: sound or not, replayed, exported."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import numpy as np
import pyarrow.parquet as pq
import pytest

from recurrank.catalogue import Catalogue
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report

K = 2


@pytest.fixture
def store(tmp_path):
    """A file with the life of two rankers in it, one of them deleted."""
    address = f"sqlite:///{tmp_path}/x.db"
    service = Service(open_store(address), seed=0, start=False)
    config = RankerSpec(algorithm="recurrank", positions=K, rounds=500, window_seconds=60.0)
    catalogue = Catalogue(np.random.default_rng(0).standard_normal((6, 2)), list("abcdef"))
    for name in ("films", "gone"):
        service.create(name, config, catalogue)
        for number in range(5):
            service.rank(name, f"{name}{number}")
        service.feedback([Report(f"{name}0", (0,), False), Report(f"{name}0", (1,), True), Report(f"{name}1", (), True)])
    service.delete("gone")
    service.step()
    service.close()
    return address


def test_a_sound_log(call, store, tmp_path):
    assert call("log", "verify", "--store", store) == (0, "19 events: sound\n", "")
    assert json.loads(call("log", "verify", "--store", store, "--json")[1]) == {"events": 19, "chained_from": 1, "faults": []}
    code, out, _ = call("log", "replay", "--store", store)
    assert code == 0
    assert "films: 9 events" in out
    assert "1 snapshots as the log gives them" in out
    (finding,) = json.loads(call("log", "replay", "--store", store, "--json")[1])
    assert finding["faults"] == []
    code, out, _ = call("log", "export", str(tmp_path / "log.parquet"), "--store", store)
    assert (code, out) == (0, f"19 events: {tmp_path}/log.parquet\n")
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert [row["kind"] for row in rows[:9]] == ["created", *["served"] * 5, "reported", "learned", "learned"]
    assert rows[7]["clicks"] == [True, True]
    assert rows[7]["items"] == rows[1]["items"]
    assert set(rows[1]["items"]) <= set("abcdef")
    assert rows[-1]["ranker"] == "deleted 2"


@pytest.mark.parametrize(
    ("damage", "command", "says"),
    [
        ("DELETE FROM events WHERE seq = 4", "verify", "events 4 to 4 are missing"),
        ("UPDATE events SET served = 2 WHERE seq = 9", "verify", "event 9: its slate ended before"),
        ("UPDATE events SET served = 1 WHERE seq = 9", "verify", "event 9: its slate was never served"),
        ("UPDATE snapshots SET state = substr(state, 9)", "replay", "torn or altered"),
        ("UPDATE events SET clicks = x'03' WHERE seq = 9", "replay", "is not what the log gives"),
        ("UPDATE events SET clicks = x'03' WHERE seq = 9", "verify", "event 9: it was altered"),
        ("UPDATE events SET payload = 'text' WHERE seq = 3", "verify", "event 3: its payload is of the wrong type"),
        ("UPDATE events SET payload = x'0000' WHERE seq = 3", "verify", "event 3: its payload is not a slate of 2 positions"),
        (
            "DELETE FROM events WHERE seq = 19",
            "verify",
            "ends with event 18, its head says 19: events 19 to 19",
        ),
        (
            "INSERT INTO events SELECT 20, 1, 1, 0, x'', x'', 0.5, link FROM events LIMIT 1",
            "verify",
            "event 20: it was altered",
        ),
        (
            "UPDATE slates SET status = 2 WHERE slate = 'films0'",
            "verify",
            "of event 2: its row says status 2, the log 1",
        ),
        (
            "UPDATE slates SET slate = 'other' WHERE slate = 'films2'",
            "verify",
            "of event 4: its row says another id",
        ),
        ("DELETE FROM slates WHERE slate = 'films3'", "verify", "the slate of event 5 has no row"),
        ("UPDATE rankers SET positions = 3 WHERE name = 'films'", "verify", "ranker 'films': its row was altered"),
        ("UPDATE rankers SET deleted = 0 WHERE name = 'gone'", "verify", "ranker 'gone'"),
        (
            "UPDATE catalogues SET data = CAST(data || x'00' AS BLOB)",
            "verify",
            "its settings or its catalogue were altered",
        ),
        ("UPDATE snapshots SET seq = seq - 1", "verify", "torn or altered"),
    ],
)
def test_a_log_that_is_not_sound(call, store, damage, command, says):
    with contextlib.closing(sqlite3.connect(store.removeprefix("sqlite:///"), isolation_level=None)) as database:
        assert database.execute(damage).rowcount > 0
    code, out, _ = call("log", command, "--store", store)
    assert code == 1
    assert says in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["log", "verify", "--store", "sqlite:///no-such-file.db"],
        ["log", "verify", "--store", "moon"],
        ["log", "export", "x.csv"],
        ["keys", "create", "a b", "--role", "admin"],
        ["keys", "revoke", "nobody"],
    ],
)
def test_mistakes_get_a_line(call, arguments):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_answered_slates_go_out_as_ubi_and_come_in_as_pages(call, store, tmp_path):
    """Two slates of the ranker that is left were answered; clicks reported in parts are one answer."""
    code, out, _ = call("log", "export", str(tmp_path / "pages.jsonl"), "--store", store, "--format", "ubi")
    assert (code, out) == (0, f"2 pages: {tmp_path}/pages.jsonl\n")
    lines = [json.loads(line) for line in (tmp_path / "pages.jsonl").read_text().splitlines()]
    assert [line.get("action_name") for line in lines] == [None, "click", "click", None]
    assert [line["event_attributes"]["position"]["ordinal"] for line in lines[1:3]] == [1, 2]
    call("log", "export", str(tmp_path / "log.parquet"), "--store", store)
    code, out, _ = call("log", "import", str(tmp_path / "log.parquet"), "--out", str(tmp_path / "pages.parquet"), "--json")
    assert json.loads(out) == {"format": "events", "pages": 2, "bad": 0, "complaints": []}
    assert pq.read_table(tmp_path / "pages.parquet")["clicks"].to_pylist() == [[True, True], [False, False]]
    assert sorted(path.suffix for path in tmp_path.glob("*.events.parquet")) == []


def test_the_environment_names_the_store(call, store, monkeypatch, tmp_path):
    """As it does for a server, so that commands beside it in a container find what it uses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECURRANK_STORE", store)
    assert call("log", "verify")[1] == "19 events: sound\n"
    assert call("keys", "create", "shop", "--role", "admin")[0] == 0
    assert (tmp_path / "x.db.keys").is_file()
    assert call("backup", "copy.db")[0] == 0
    assert "x.db: it is there already" in call("restore", "copy.db")[2]
    assert call("erase", "nobody")[0] == 0
    assert not (tmp_path / "recurrank.db.keys").exists()
