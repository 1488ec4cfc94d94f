"""A store that has had a key is closed at every later start, until there is a key again."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import psycopg
import pytest
from tests.serving.running import serving, until

from recurrank.serving import auth
from recurrank.serving.http import keyring
from recurrank.serving.store import StoreError, open_store

SECURITY = Path("docs/security.md").read_text(encoding="utf-8")


def ring_of(address: str) -> keyring.KeyRing:
    """The keys as a server knows them that has just been started and stopped again."""
    with closing(open_store(address)) as store, closing(auth.open_keys(address)) as keys:
        ring = keyring.KeyRing(keys, store)
        ring.read()
    return ring


def test_a_restarted_server_is_closed_once_its_store_has_had_a_key(address):
    with closing(auth.open_keys(address)) as keys:
        assert not ring_of(address).required  # it never had one
        assert not ring_of(address).required
        auth.create(keys, "shop", ["admin"])
        auth.revoke(keys, "shop")  # before a server has seen it
        for _ in range(2):
            ring = ring_of(address)
            assert ring.required
            assert ring.problem == keyring._NONE
        auth.create(keys, "shop", ["admin"])
        ring = ring_of(address)
        assert (ring.required, ring.problem) == (True, None)


@pytest.mark.parametrize("while_it_runs", [False, True])
def test_a_restarted_server_is_closed_without_its_file_of_keys(tmp_path, while_it_runs):
    address = f"sqlite:///{tmp_path}/x.db"
    with closing(open_store(address)) as store, closing(auth.open_keys(address)) as keys:
        ring = keyring.KeyRing(keys, store) if while_it_runs else None
        auth.create(keys, "shop", ["admin"])
        ring = ring or keyring.KeyRing(keys, store)
        if while_it_runs:
            ring.read()
    (tmp_path / "x.db.keys").unlink()
    assert ring_of(address).problem == keyring._NONE


def test_the_store_notes_later_that_it_has_a_key_if_it_cannot_be_written(tmp_path, monkeypatch):
    address = f"sqlite:///{tmp_path}/x.db"
    with closing(open_store(address)) as store, closing(auth.open_keys(address)) as keys:
        auth.create(keys, "shop", ["admin"])
        with monkeypatch.context() as patch:

            def full(name: str, value: bytes) -> None:
                raise StoreError("the disk is full")

            patch.setattr(store, "note", full)
            ring = keyring.KeyRing(keys, store)
            ring.read()
            assert (ring.required, ring.problem, store.noted_as(auth.NOTE)) == (True, None, None)
        ring.read()
        assert store.noted_as(auth.NOTE) == b""


def test_a_store_is_opened_again_on_purpose(address, tmp_path):
    """As docs/security.md says."""
    with closing(auth.open_keys(address)) as keys:
        auth.create(keys, "shop", ["admin"])
        assert ring_of(address).required
        auth.revoke(keys, "shop")
    sqlite_says, postgres_says = re.findall(r'"(DELETE FROM \w+ WHERE name = \'keys\')', SECURITY)
    if address.startswith("sqlite"):
        (tmp_path / "log.db.keys").unlink()
        with closing(sqlite3.connect(tmp_path / "log.db")) as database, database:
            database.execute(sqlite_says)
    else:
        with closing(psycopg.connect(address, autocommit=True)) as database:
            database.execute(postgres_says)
    assert not ring_of(address).required


def test_a_process_that_is_started_again_after_its_only_key_was_revoked(tmp_path):
    store = f"sqlite:///{tmp_path}/x.db"
    keys = auth.open_keys(store)
    auth.create(keys, "shop", ["admin"])
    with serving("--store", store) as (_, url):
        assert httpx.get(f"{url}/v1/rankers").status_code == 401
        auth.revoke(keys, "shop")
    with serving("--store", store, ready=False) as (_, url):
        assert httpx.get(f"{url}/v1/rankers").status_code == 401
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert httpx.get(f"{url}/readyz").status_code == 503
        secret = auth.create(keys, "shop", ["admin"])
        headers = {"authorization": f"Bearer {secret}"}
        until(lambda: httpx.get(f"{url}/v1/rankers", headers=headers).status_code == 200)
