"""``recurrank doctor``: one line per check, and an exit code for the worst of them."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from contextlib import closing

import pytest
from tests import prepared
from tests.serving.growing import Running

from recurrank.serving.auth import create, open_keys, revoke
from recurrank.serving.backup import backup
from recurrank.serving.http.keyring import KeyRing
from recurrank.serving.retention import Policy
from recurrank.serving.store import open_store
from recurrank.serving.store.sqlite import MIGRATIONS


def doctor(*arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    command = [sys.executable, "-W", "ignore", "-m", "recurrank", "doctor", "--json", *arguments]
    done = prepared.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, {one["name"]: (one["verdict"], one["detail"]) for one in json.loads(done.stdout)}


@pytest.fixture
def store(tmp_path):
    running = Running(f"sqlite:///{tmp_path}/log.db", None)
    running.rounds(50)
    running.service.close()
    create(open_keys(running.address), "shop", ["admin"])
    return running.address


def test_what_is_well_and_what_is_not(tmp_path, store):
    (tmp_path / "x.toml").write_text(f'store = "{store}"\nport = 8081\n')
    code, found = doctor("--config", str(tmp_path / "x.toml"))
    assert found["configuration"][0] == "ok"
    assert found["store"][0] == "ok"
    assert "2 rankers" in found["store"][1]
    assert found["keys"] == ("ok", "1 keys")
    assert code == max({"ok": 0, "look": 1, "wrong": 2}[verdict] for verdict, _ in found.values())
    assert code < 2

    (tmp_path / "x.toml").write_text("prot = 8081\n")
    code, found = doctor("--config", str(tmp_path / "x.toml"), "--store", store)
    assert code == 2
    assert "'prot' is not an option" in found["configuration"][1]

    os.chmod(tmp_path / "log.db.keys", 0o644)
    code, found = doctor("--store", store)
    assert (code, found["keys"][0]) == (2, "wrong")
    os.chmod(tmp_path / "log.db.keys", 0o600)

    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("UPDATE events SET at = at + 1e6")
    assert doctor("--store", store)[1]["clock"][0] == "wrong"
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)")
    assert "missing" in doctor("--store", store)[1]["store"][1]
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("INSERT INTO migrations VALUES (?, 0)", (len(MIGRATIONS) + 1,))
    code, found = doctor("--store", store)
    assert code == 2
    assert "newer version" in found["store"][1]


def test_keys_that_are_all_gone(call, tmp_path, store):
    revoke(open_keys(store), "shop")
    for _ in range(2):
        code, out, _ = call("doctor", "--store", store)
        assert code == 2
        assert "wrong keys: all are revoked or gone: every request is refused" in out
        with closing(open_store(store)) as opened, closing(open_keys(store)) as keys:
            KeyRing(keys, opened)  # as a server that starts
        (tmp_path / "log.db.keys").unlink(missing_ok=True)


def test_no_store_yet(tmp_path):
    code, found = doctor("--store", f"sqlite:///{tmp_path}/none.db")
    assert code == 1
    assert found["store"][0] == found["keys"][0] == "look"
    assert list(tmp_path.iterdir()) == []


def test_an_archive_of_another_log(tmp_path):
    for name in ("one", "other"):
        running = Running(f"sqlite:///{tmp_path}/{name}.db", Policy(events=300, archive=f"{tmp_path}/{name}"))
        running.rounds(300)
        running.states()
        running.service.learner.keep_all(time.monotonic() + 60)
        assert running.service.retention.step() > 0
        running.service.close()
    store = f"sqlite:///{tmp_path}/one.db"
    assert doctor("--store", store)[1]["archive"][0] == "ok"
    verdict, why = doctor("--store", store, "--archive", f"{tmp_path}/other")[1]["archive"]
    assert verdict == "wrong"
    assert "is not one of this log" in why
    assert (
        "none is empty, and this log's archive is" in doctor("--store", store, "--archive", f"{tmp_path}/none")[1]["archive"][1]
    )


def test_an_archive_that_has_gone_on_without_a_restored_log(tmp_path):
    """Its first step after the log's floor is in the log, the next one is not."""
    running = Running(f"sqlite:///{tmp_path}/log.db", Policy(events=300, archive=f"{tmp_path}/archive"))
    verdicts = []
    for turn in range(2):
        running.rounds(300)
        running.states()
        running.service.learner.keep_all(time.monotonic() + 60)
        if turn == 0:
            backup(running.address, tmp_path / "old.db")
        assert running.service.retention.step() > 0
        verdicts.append(doctor("--store", f"sqlite:///{tmp_path}/old.db", "--archive", f"{tmp_path}/archive")[1]["archive"])
    assert doctor("--store", running.address)[1]["archive"][0] == "ok"
    running.service.close()
    assert [verdict for verdict, _ in verdicts] == ["ok", "wrong"]
    assert "which this log does not have; give a new, empty one" in verdicts[1][1]


@pytest.mark.parametrize(
    ("line", "check", "says"),
    [
        ('retain = "30x"', "configuration", "'30x' is not a time"),
        ("rate = -1", "configuration", "rate: -1"),
        ("max_body = 0", "configuration", "0 is not in the range"),
        ('allow_host = "x"', "configuration", "must be an iterable"),
        ('archive = "archive"', "configuration", "nothing goes there without --retain"),
        ('retain = "30d"\narchive = "/proc/nope"', "configuration", "/proc/nope cannot be written"),
        ("port = 99999", "configuration", "99999 is not in the range"),
        ('host = "0.0.0.0"', "keys", "0.0.0.0 is open to others and there are no keys"),
        ("store = 5", "store", "'5' is not an address of a store"),
        ('store = "sqlite:///no/such/folder.db"', "store", "the folder of no/such/folder.db does not exist"),
        ('store = "sqlite:///folder"', "store", "folder is a folder"),
    ],
)
def test_what_a_server_refuses(call, tmp_path, monkeypatch, line, check, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "x.toml").write_text(line)
    code, out, err = call("doctor", "--config", "x.toml", "--json")
    assert (code, err) == (2, "")
    found = {one["name"]: one for one in json.loads(out)}
    assert found[check]["verdict"] == "wrong"
    assert says in found[check]["detail"]
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "x.toml"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('port = "abc"', "'abc' is not a valid integer range"),
        ("prot = 8081", "x.toml: 'prot' is not an option"),
        ("port = true", "x.toml: 'port' is true; give a number"),
        ("rate = false", "x.toml: 'rate' is false; give a number"),
        ("rate = -1", "rate: -1"),
    ],
)
def test_one_wrong_option_leaves_the_others_of_the_file(call, tmp_path, monkeypatch, store, line, says):
    monkeypatch.chdir(tmp_path)
    options = f'store = "{store}"\narchive = "archive"'  # without retain
    (tmp_path / "x.toml").write_text(f"{options}\n{line}\n")
    code, out, err = call("doctor", "--config", "x.toml", "--json")
    assert (code, err) == (2, "")
    found = {one["name"]: one["detail"] for one in json.loads(out)}
    assert says in found["configuration"]
    assert "2 rankers" in found["store"]
    if not line.startswith("rate = -1"):  # a server says one thing after the other, too
        assert "archive: nothing goes there without --retain" in found["configuration"]
    code, _, err = call("serve", "--config", "x.toml")
    assert code == 2
    assert says in err


def test_a_wrong_setting_in_the_environment_leaves_the_file(call, tmp_path, store, monkeypatch):
    monkeypatch.setenv("RECURRANK_PORT", "abc")
    (tmp_path / "x.toml").write_text(f'store = "{store}"')
    code, out, _ = call("doctor", "--config", str(tmp_path / "x.toml"))
    assert code == 2
    assert "'abc' is not a valid integer range" in out
    assert "2 rankers" in out


@pytest.mark.parametrize("origin", ["https://a.example/", "a.example"])
def test_an_origin_that_would_never_match(call, store, origin, monkeypatch):
    monkeypatch.setenv("RECURRANK_ALLOW_ORIGIN", origin)
    code, out, _ = call("doctor", "--store", store)
    assert code == 2
    assert f"wrong configuration: allow-origin: {origin!r} is not an origin" in out


def test_an_archive_that_cannot_be_written(call, store):
    code, out, _ = call("doctor", "--store", store, "--archive", "/proc/nope")
    assert code == 2
    assert "wrong archive: archive: /proc/nope cannot be written" in out


def test_settings_in_the_environment_are_checked(call, store, monkeypatch):
    monkeypatch.setenv("RECURRANK_RETAIN", "30x")
    code, out, _ = call("doctor", "--store", store)
    assert code == 2
    assert "wrong configuration: retain: '30x'" in out


@pytest.mark.parametrize("address", ["postgresql://me:hush-hush@127.0.0.1:1/x", "postgresql://me:hush@hush@127.0.0.1:1/x"])
def test_a_database_that_cannot_be_reached(call, address):
    """Why, as the database's own library says it, but for the password."""
    code, out, _ = call("doctor", "--store", address)
    assert code == 2
    line = next(line for line in out.splitlines() if line.startswith("wrong store: "))
    assert "refused" in line or "resolve" in line or "translate" in line or "not known" in line, line
    assert "hush" not in out
