"""Backups under load, and stores restored from them: as they were when they were copied, or at an earlier event."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
from datetime import UTC, datetime

import pytest
from tests.serving.growing import NAMES, Running, grown

from recurrank.serving.backup import backup
from recurrank.serving.restore import restore
from recurrank.serving.retention import Policy
from recurrank.serving.store import open_store
from recurrank.serving.store.base import Report
from recurrank.serving.verify import verify


def test_a_restored_service_has_the_bytes_of_the_time_and_learns_on(tmp_path):
    running = Running(f"sqlite:///{tmp_path}/log.db", None, window=1e6)
    moments = []
    for _ in range(3):
        running.rounds(100)
        states = running.states()
        moments.append((running.service.store.newest(), states, running.service.store.slates("", 10**6)))
    (tmp_path / "log.db.keys").write_text("[]")
    backup(running.address, tmp_path / "copy.db")
    running.service.close()
    for number, (seq, states, slates) in enumerate(moments):
        restored = restore(tmp_path / "copy.db", f"sqlite:///{tmp_path}/{number}.db", str(seq))
        assert restored.events == seq
        assert restored.left_out == moments[-1][0] - seq
        assert restored.keys
        running.address = f"sqlite:///{tmp_path}/{number}.db"
        running.start()
        service = running.service
        assert running.states() == states
        assert service.store.slates("", 10**6) == slates
        assert verify(service.store).faults == []
        opened = next(row for row in slates if row.status == 0)
        assert service.feedback([Report(opened.slate, (0,), True)]) == ["learned"]
        assert service.rank("films").items
        running.states()
        assert verify(service.store).faults == []
        service.close()


def test_at_a_time(tmp_path):
    running = Running(f"sqlite:///{tmp_path}/log.db", None)
    running.rounds(100)
    at = running.service.store.lines(59, 60, 1)[0].at
    running.service.close()
    backup(running.address, tmp_path / "copy.db")
    moment = datetime.fromtimestamp(at + 1e-6, UTC).isoformat()
    restored = restore(tmp_path / "copy.db", f"sqlite:///{tmp_path}/x.db", moment)
    with sqlite3.connect(tmp_path / "x.db") as database:
        assert database.execute("SELECT max(seq), max(at) FROM events").fetchone() == (restored.events, at)


def test_what_cannot_be_restored_is_one_line_and_makes_nothing(tmp_path):
    running = grown(f"sqlite:///{tmp_path}/log.db", Policy(events=1000))
    floor = running.service.store.floor().seq
    last = running.service.store.newest()
    running.service.delete("films")
    running.service.close()
    backup(running.address, tmp_path / "copy.db")
    new = f"sqlite:///{tmp_path}/new.db"
    for source, store, at, why in (
        (tmp_path / "none.db", new, None, "no such file"),
        (tmp_path / "copy.db", running.address, None, "there already"),
        (tmp_path / "copy.db", "postgresql://x", None, "pg_restore"),
        (tmp_path / "copy.db", new, str(last + 100), "there is no event"),
        (tmp_path / "copy.db", new, "soon", "neither an event's number nor a time"),
        (tmp_path / "copy.db", new, "1999-01-01", "no event before"),
        (tmp_path / "copy.db", new, str(floor - 1), "begins after event"),
        (tmp_path / "copy.db", new, str(last), "was deleted after event"),
    ):
        with pytest.raises(ValueError, match=why) as raised:
            restore(source, store, at)
        assert "\n" not in str(raised.value)
    assert not list(tmp_path.glob("new*"))


def test_a_backup_while_the_server_writes_all_the_time(tmp_path):
    running = Running(f"sqlite:///{tmp_path}/log.db", None)
    running.rounds(200)
    stop, failed = threading.Event(), []

    def write() -> None:
        try:
            while not stop.is_set():
                running.rounds(50)
        except Exception as error:
            failed.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    before = running.service.store.newest()
    copies = [backup(running.address, tmp_path / f"copy{n}.db") for n in range(3)]
    stop.set()
    writing.join()
    assert not failed
    assert before <= copies[0].events <= copies[1].events <= copies[2].events <= running.service.store.newest()
    running.service.close()
    for number, copy in enumerate(copies):
        restore(copy.path, f"sqlite:///{tmp_path}/r{number}.db")
        store = open_store(f"sqlite:///{tmp_path}/r{number}.db")
        assert verify(store) == (copy.events, 1, [])
        store.close()


def test_postgresql_with_pg_dump(postgres, database, tmp_path):
    """As the handbook says: pg_dump while the server runs, pg_restore into an empty database."""
    running = Running(database, None, window=1e6)
    running.rounds(200)
    states = running.states()
    tools = postgres.bin_path
    copy = ["--format=custom", "--table=recurrank_*", f"--file={tmp_path}/x.dump", database]
    subprocess.run([tools / "pg_dump", *copy], check=True)
    running.rounds(50)
    running.service.close()
    postgres.psql("CREATE DATABASE restored;")
    other = postgres.get_uri(database="restored")
    subprocess.run([tools / "pg_restore", f"--dbname={other}", f"{tmp_path}/x.dump"], check=True)
    running.address = other
    running.start()
    assert running.states() == states
    assert verify(running.service.store).faults == []
    assert {name: running.service.rank(name).items != [] for name in NAMES} == dict.fromkeys(NAMES, True)
    running.service.close()
    postgres.psql("DROP DATABASE restored;")


def test_the_newest_event_is_one_that_is_on_disk(address):
    """Readers outside a transaction do not hear of events that may never be written."""
    running = Running(address, None)
    running.rounds(50)
    store = running.service.store
    before, written = store.newest(), []
    write = store.write

    def spy(*arguments) -> None:
        write(*arguments)
        written.append(store.newest())

    store.write = spy
    running.service.rank("films")
    assert written == [before]
    assert store.newest() == before + 1
    running.service.close()
