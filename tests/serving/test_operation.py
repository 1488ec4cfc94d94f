"""What an operator does around a server: copies of its store while it runs, compiling beforehand, accounts without a home."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests import prepared
from tests.serving.running import ITEMS, serving, use

import recurrank as rr
from recurrank.client import Client

RUN = [sys.executable, "-W", "ignore", "-m", "recurrank"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return prepared.run([*RUN, *arguments], capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


def test_a_copy_of_a_store_while_its_server_runs(tmp_path):
    """The copy has everything that was acknowledged, and the keys; the database's file alone does not."""
    store, copy = f"sqlite:///{tmp_path}/x.db", tmp_path / "copy.db"
    secret = run("keys", "create", "shop", "--role", "admin", "--store", store).stdout.strip()
    with serving("--store", store) as (_, url), Client(url, secret) as client:
        client.create("films", 2, ITEMS, rounds=1000)
        slates = use(client, 20, np.random.default_rng(0))
        done = run("backup", str(copy), "--store", store, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"path": str(copy), "events": 41, "keys": True}
        shutil.copy(tmp_path / "x.db", tmp_path / "alone.db")
        with contextlib.closing(sqlite3.connect(tmp_path / "alone.db")) as alone, contextlib.suppress(sqlite3.Error):
            assert alone.execute("SELECT count(*) FROM events").fetchone()[0] < 41
        again = run("backup", str(copy), "--store", store)
        assert (again.returncode, again.stderr.count("\n")) == (2, 1)
        assert "it is there already" in again.stderr
    assert run("log", "verify", "--store", f"sqlite:///{copy}").stdout == "41 events: sound\n"
    with serving("--store", f"sqlite:///{copy}") as (_, url), Client(url, secret) as client:
        assert {client.feedback(slate, [0]) for slate in slates} == {"duplicate"}
    done = run("backup", str(tmp_path / "stopped.db"), "--store", store)  # and of a server that is not running
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob("*partial*")) == []


@pytest.mark.parametrize("damage", ["DELETE FROM events WHERE seq = 3", "UPDATE events SET at = 0 WHERE seq = 3"])
def test_a_damaged_store_is_not_copied(tmp_path, damage):
    store = f"sqlite:///{tmp_path}/x.db"
    with serving("--store", store) as (process, url), Client(url) as client:
        client.create("films", 2, ITEMS, rounds=1000)
        use(client, 1, np.random.default_rng(0))
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=12)
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as database:
        database.execute(damage)
    done = run("backup", str(tmp_path / "copy.db"), "--store", store)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "recurrank log verify" in done.stderr
    assert sorted(path.name for path in tmp_path.glob("copy*")) == []


def test_a_copy_of_what_cannot_be_copied(tmp_path):
    for store, says in (("postgresql://x@y/z", "pg_dump"), (f"sqlite:///{tmp_path}/no.db", "no file"), ("moon", "not a file")):
        done = run("backup", str(tmp_path / "copy.db"), "--store", store)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert says in done.stderr


def test_an_account_without_a_writable_home(tmp_path):
    """Neither the package's folders nor the home can be written: a private folder, and a line that says what to set."""
    package = tmp_path / "package" / "recurrank"
    shutil.copytree(Path(rr.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in {path.parent for path in package.rglob("*.py")}:
        (folder / "__pycache__").write_text("in the way of a folder")
    without = {"HOME": "/proc/nowhere", "PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": "/proc/nowhere"}
    done = run("rankers", **without)  # nothing is compiled, but where that would be kept is settled
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "compiling" not in line]
    assert len(said) == 1
    assert "NUMBA_CACHE_DIR" in said[0]
    done = run("compile", "--rankers", "random", **without, NUMBA_CACHE_DIR=str(tmp_path / "kept"))
    assert done.returncode == 0
    assert "NUMBA_CACHE_DIR" not in done.stderr
    assert re.search(r"compiled in \d", done.stdout)
    assert any((tmp_path / "kept").rglob("*.nbc"))


def test_compiling_what_is_not_there():
    done = run("compile", "--rankers", "batchrank")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "choose from" in done.stderr
