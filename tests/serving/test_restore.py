"""Backups under load, and stores restored from them: as they were when they were copied, or at an earlier event."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from datetime import UTC, datetime

import msgspec
import numpy as np
import pytest
from tests.serving.growing import NAMES, Running, grown, spec

from recurrank.catalogue import Catalogue
from recurrank.serving import backup as backup_of
from recurrank.serving import files as files_of
from recurrank.serving import restore as restore_of
from recurrank.serving.archive import Archive
from recurrank.serving.audit import replay
from recurrank.serving.backup import backup
from recurrank.serving.restore import restore
from recurrank.serving.retention import Policy
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report
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


def test_a_store_of_a_newer_version_is_neither_copied_nor_restored(tmp_path, call):
    open_store(f"sqlite:///{tmp_path}/log.db").close()
    backup(f"sqlite:///{tmp_path}/log.db", tmp_path / "copy.db")
    for name in ("log.db", "copy.db"):
        with closing(sqlite3.connect(tmp_path / name, isolation_level=None)) as database:
            database.execute("INSERT INTO migrations VALUES (1000, 0)")
    for command in (
        ["restore", str(tmp_path / "copy.db"), "--store", f"sqlite:///{tmp_path}/new.db"],
        ["backup", str(tmp_path / "new.db"), "--store", f"sqlite:///{tmp_path}/log.db"],
    ):
        code, _, complaint = call(*command)
        assert (code, complaint.count("\n")) == (2, 1)
        assert "is of a newer version (1000" in complaint
        assert not list(tmp_path.glob("new*"))


def test_what_root_restores_is_the_accounts_whose_folder_it_is(tmp_path, given):
    open_store(f"sqlite:///{tmp_path}/log.db").close()
    (tmp_path / "log.db.keys").write_text("[]")
    backup(f"sqlite:///{tmp_path}/log.db", tmp_path / "copy.db")
    given.clear()
    restore(tmp_path / "copy.db", f"sqlite:///{tmp_path}/new.db")
    folder = tmp_path.stat()
    assert given == {(tmp_path / name).stat().st_ino: (folder.st_uid, folder.st_gid) for name in ("new.db", "new.db.keys")}


def tables(path, *names: str) -> dict[str, list]:
    with sqlite3.connect(path) as database:
        return {name: sorted(database.execute(f"SELECT * FROM {name}")) for name in names}


@pytest.fixture
def archived(tmp_path):
    """The same store twice: ``whole.db``, and ``old.db`` whose log begins late, after three steps of retention. Moments: events
    and the states after them.
    """
    running, moments = Running(f"sqlite:///{tmp_path}/log.db", None, window=1e6), []
    running.service.create("gone", spec("films", 1e6), Catalogue(np.eye(3)))
    running.service.rank("gone")
    for part in range(6):
        running.rounds(200)
        moments.append((running.service.store.newest(), running.states()))
        if part == 0:
            running.service.delete("gone")
    opened = sorted((row for row in running.service.store.slates("", 10**6) if row.status == 0), key=lambda row: row.served)
    running.service.feedback([Report(row.slate, (1,), True) for row in opened[:5]])  # served below the floor that is to come
    running.service.retention.step()  # rows of what was deleted go
    backup(running.address, tmp_path / "whole.db")
    running.service.close()
    for events in (1500, 1000, 400):
        running.policy = Policy(events=events, archive=f"{tmp_path}/archive")
        running.start()
        running.states()
        running.service.learner.keep_all(time.monotonic() + 60)
        assert running.service.retention.step() > 0, running.service.retention.failed
        running.service.close()
    backup(running.address, tmp_path / "old.db")
    with closing(open_store(running.address, read_only=True)) as store:
        assert moments[3][0] < store.floor().seq < moments[4][0]
    return running, moments


def test_below_the_floor_the_archive_gives_what_was_there(archived, tmp_path):
    """Row by row what a store without retention gives; slates that were open then are open again."""
    running, moments = archived
    for number, (seq, states) in enumerate(moments[1:5]):
        for name in ("whole", "old"):
            made = restore(tmp_path / f"{name}.db", f"sqlite:///{tmp_path}/{name}{number}.db", str(seq))
            assert (made.events, made.from_archive > 0) == (seq, name == "old")
        names = ("events", "slates", "head", "rankers", "catalogues", "meta")
        put_back = tables(tmp_path / f"old{number}.db", *names)
        assert put_back["meta"].pop(0)[0] == "archives"  # it still has what an erasure has to find
        assert tables(tmp_path / f"whole{number}.db", *names) == put_back
        running.address, running.policy = f"sqlite:///{tmp_path}/old{number}.db", None
        running.start()
        assert running.states() == states
        store = running.service.store
        assert verify(store).faults == []
        opened = next(row for row in store.slates("", 10**6) if row.status == 0)
        assert running.service.feedback([Report(opened.slate, (0,), True)]) == ["learned"]
        running.service.close()


def test_a_store_with_events_from_an_archive_can_have_another_archive(archived, tmp_path):
    running, moments = archived
    address = f"sqlite:///{tmp_path}/new.db"
    (tmp_path / "archive").rename(tmp_path / "moved")
    seq, states = moments[3]
    with pytest.raises(ValueError, match="ends with event 0, the log begins after"):
        restore(tmp_path / "old.db", address, str(seq))
    restore(tmp_path / "old.db", address, str(seq), f"{tmp_path}/moved")
    running.address, running.policy = address, Policy(events=500, archive=f"{tmp_path}/another")
    running.start()
    assert running.states() == states
    running.service.learner.keep_all(time.monotonic() + 60)
    assert running.service.retention.step() > 0
    assert running.service.retention.failed is None
    running.rounds(100)
    running.states()
    store = running.service.store
    assert verify(store).faults == []
    assert [replay(store, one).faults for one in store.rankers()] == [[], []]
    running.service.close()


def test_at_a_time_of_the_archive(archived, tmp_path):
    _, moments = archived
    with closing(open_store(f"sqlite:///{tmp_path}/whole.db", read_only=True)) as store:
        seq, at = moments[1][0], store.lines(moments[1][0] - 1, moments[1][0], 1)[0].at
    moment = datetime.fromtimestamp(at + 1e-6, UTC).isoformat()
    assert restore(tmp_path / "old.db", f"sqlite:///{tmp_path}/x.db", moment).events == seq
    with pytest.raises(ValueError, match="there is no event before"):
        restore(tmp_path / "old.db", f"sqlite:///{tmp_path}/y.db", "2001-01-01")


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("step", "events 1 to [0-9]+ are missing"),
        ("file", r"parquet is missing"),
        ("bytes", "was altered"),
        ("another", "is not one of this log"),
    ],
)
def test_an_archive_that_has_a_gap_is_one_line_and_makes_nothing(archived, tmp_path, harm, why):
    _, moments = archived
    archive = Archive(f"{tmp_path}/archive")
    manifest, file = archive.manifest(), next((tmp_path / "archive").rglob("*.parquet"))
    if harm == "step":
        del manifest.steps[0]
    elif harm == "file":
        file.unlink()
    elif harm == "bytes":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        manifest.steps[-1] = msgspec.structs.replace(manifest.steps[-1], digest="00" * 16)
    archive._write_manifest(manifest, tmp_path)
    with pytest.raises(ValueError, match=why) as raised:
        restore(tmp_path / "old.db", f"sqlite:///{tmp_path}/new.db", str(moments[3][0]))
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.glob("new*"))


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """A service that was restored from a backup, while the archive had gone further by then: ``archive`` has events of a time
    that is undone, ``monday`` is a copy as old as the backup.
    """
    monkeypatch.chdir(tmp_path)
    running = Running("sqlite:///log.db", Policy(events=1000, archive="archive"), window=1e6)
    running.rounds(700)
    running.states()
    assert running.service.retention.step() > 0
    backup(running.address, tmp_path / "monday.db")
    shutil.copytree("archive", "monday")
    running.rounds(700)
    running.states()
    assert running.service.retention.step() > 0
    running.service.close()
    restore(tmp_path / "monday.db", "sqlite:///new.db")
    running.address, running.served = "sqlite:///new.db", 10_000
    running.start()
    running.rounds(700)
    running.states()
    return running


def test_after_a_restore_the_server_says_what_to_do_and_goes_on(apart, tmp_path, call):
    """The disaster of the handbook."""
    service, floor = apart.service, apart.service.store.floor()
    assert service.retention.step() == 0
    why = service.retention.failed
    assert "which this log does not have; give a new, empty one: what this log needs of the old one is copied into it" in why
    service.close()
    code, out, _ = call("doctor", "--store", apart.address)
    assert (code, why in out) == (2, True)
    (tmp_path / "fresh").mkdir()
    assert "ok    archive: " in call("doctor", "--store", apart.address, "--archive", "fresh")[1]
    apart.policy = Policy(events=1000, archive="fresh")
    apart.start()
    states = apart.states()
    copied = Archive.begin

    def killed(*arguments) -> None:
        copied(*arguments)
        (tmp_path / "fresh/manifest.json").write_bytes(empty)
        raise OSError("killed")

    empty = Archive(str(tmp_path / "empty"))._begun() and (tmp_path / "empty/manifest.json").read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Archive, "begin", killed)
        assert apart.service.retention.step() == 0
    apart.service.close()
    apart.start()
    assert apart.service.retention.step() > 0, apart.service.retention.failed
    store = apart.service.store
    assert store.floor().seq > floor.seq
    assert store.floor().archive == f"{tmp_path}/fresh"
    assert verify(store).faults == []
    assert [replay(store, one).faults for one in store.rankers()] == [[], []]
    assert apart.states() == states
    apart.service.close()
    out = call("doctor", "--store", apart.address)[1]
    assert f"before: {tmp_path}/archive" in out  # it has what was served then, and is erased, too


def test_an_archive_that_went_on_without_the_log_is_not_put_back(apart, tmp_path):
    """Nor where it has an event as old as the one with which the log begins."""
    apart.service.close()
    apart.policy = Policy(events=1000, archive="monday")
    apart.start()
    apart.states()
    assert apart.service.retention.step() > 0, apart.service.retention.failed
    floor = apart.service.store.floor()
    backup(apart.address, tmp_path / "later.db")
    apart.service.close()
    at = str(floor.seq - 10)
    with pytest.raises(ValueError, match="is not one of this log") as raised:
        restore(tmp_path / "later.db", "sqlite:///x.db", at, "archive")
    assert "\n" not in str(raised.value)
    gone = Archive("archive")
    manifest = gone.manifest()  # as if it had a step that ends there, and the log's digest
    manifest.steps[-1] = msgspec.structs.replace(manifest.steps[-1], last=floor.seq, digest=floor.digest.hex())
    gone._write_manifest(manifest, tmp_path)
    with pytest.raises(ValueError, match="archive: "):
        restore(tmp_path / "later.db", "sqlite:///x.db", at, "archive")
    assert not list(tmp_path.glob("x.db*"))
    assert restore(tmp_path / "later.db", "sqlite:///x.db", at).events == floor.seq - 10


def test_a_new_archive_where_the_old_one_is_well_is_refused(archived, tmp_path):
    """Such as one whose address was mistyped."""
    running, _ = archived
    running.policy = Policy(events=200, archive=f"{tmp_path}/mistyped")
    running.start()
    running.rounds(100)
    running.states()
    assert running.service.retention.step() == 0
    assert f"mistyped is empty, and this log's archive is {tmp_path}/archive" in running.service.retention.failed
    running.service.close()
    assert not (tmp_path / "mistyped").exists()


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A store with keys, and its backup ``copy.db``."""
    monkeypatch.chdir(tmp_path)
    running = Running("sqlite:///log.db", None)
    running.rounds(200)
    running.service.close()
    (tmp_path / "log.db.keys").write_text("[]")
    return backup(running.address, tmp_path / "copy.db")


def test_a_killed_restore_leaves_nothing_to_the_next_one(copied, tmp_path):
    """Such as a journal, whose pages SQLite would roll back into the file that comes in the place of its own."""
    shutil.copy("copy.db", "other.db")
    with closing(sqlite3.connect("other.db", isolation_level=None)) as database:
        database.execute("PRAGMA cache_size=1")
        database.execute("BEGIN")
        database.execute("UPDATE events SET at = 1")
        for end in ("", "-journal"):
            shutil.copy(f"other.db{end}", f"new.db.partial{end}")  # as a process leaves them that is killed now
    assert (tmp_path / "new.db.partial-journal").stat().st_size > 4096
    for left in ("-wal", "-shm", ".keys"):
        (tmp_path / f"new.db.partial{left}").write_bytes(b"x" * 5000)
    with sqlite3.connect("copy.db") as database:
        database.execute("VACUUM")  # other pages than those of the journal
    restore(tmp_path / "copy.db", "sqlite:///new.db")
    assert tables("new.db", "events", "slates") == tables("copy.db", "events", "slates")
    assert {path.name for path in tmp_path.glob("new*")} == {"new.db", "new.db.keys"}


def killed(*names: str):
    """Something instead of ``move_durably`` that does not come to these files."""

    class Killed(BaseException):
        pass

    def move(file, to):
        if to.name in names:
            raise Killed
        files_of.move_durably(file, to)

    return Killed, move


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_copy_that_was_killed_before_its_last_step_can_be_made_again(copied, tmp_path, monkeypatch, command):
    def copy() -> None:
        backup("sqlite:///log.db", tmp_path / "x.db") if command == "backup" else restore(
            tmp_path / "copy.db", "sqlite:///x.db"
        )

    module = backup_of if command == "backup" else restore_of
    error, move = killed("x.db")
    with monkeypatch.context() as patch:
        patch.setattr(module, "move_durably", move)
        remove = module.remove_partial
        patch.setattr(module, "remove_partial", lambda path: None if (tmp_path / "x.db.keys").exists() else remove(path))
        with pytest.raises(error):
            copy()
    assert {path.name for path in tmp_path.glob("x.db*")} == {"x.db.partial", "x.db.keys"}
    (tmp_path / "x.db.keys").write_text("others")
    with pytest.raises(ValueError, match=r"x\.db\.keys: it is there already"):
        copy()
    (tmp_path / "x.db.keys").write_text("[]")
    copy()
    assert {path.name for path in tmp_path.glob("x.db*")} == {"x.db", "x.db.keys"}


def test_copies_are_on_disk_before_they_have_their_names(copied, tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: done.append(os.readlink(f"/proc/self/fd/{file}")) or sync(file))
    monkeypatch.setattr(os, "replace", lambda old, new: done.append((str(old), str(new))) or replace(old, new))
    restore(tmp_path / "copy.db", "sqlite:///x.db")
    backup("sqlite:///log.db", tmp_path / "y.db")
    for name in ("x.db.keys", "x.db", "y.db.keys", "y.db"):
        [place] = [n for n, what in enumerate(done) if isinstance(what, tuple) and what[1].endswith(name)]
        assert done[place - 1].endswith(os.path.basename(done[place][0]))
        assert done[place + 1] == str(tmp_path)


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


def test_a_copy_has_the_lowest_priority_and_the_caller_keeps_its_own(tmp_path, monkeypatch, call):
    """A server under full load on the same two processors had 62 % of its throughput beside copies at the usual priority."""
    running = Running(f"sqlite:///{tmp_path}/log.db", None, window=1e6)
    running.rounds(10)
    seen, copy = [], backup_of.backup

    def observed(store, to):
        seen.append(os.getpriority(os.PRIO_PROCESS, 0))
        return copy(store, to)

    monkeypatch.setattr(backup_of, "backup", observed)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    code, _, error = call("backup", str(tmp_path / "copy.db"), "--store", running.address)
    running.service.close()
    assert (code, error) == (0, "")
    assert seen == [19]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before or os.geteuid() != 0
