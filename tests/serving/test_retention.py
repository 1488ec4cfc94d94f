"""Old events leave the log: into the archive or for good, and nothing that was learned changes."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import time

import pyarrow.parquet as pq
import pytest
from tests import prepared
from tests.serving.growing import Running, grown

from recurrank import plugins
from recurrank.serving.archive import Archive
from recurrank.serving.audit import export, replay
from recurrank.serving.retention import LEAST, Policy, parse
from recurrank.serving.service import Settings
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report
from recurrank.serving.verify import verify


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same without retention: what every run has to have learned."""
    running = grown(f"sqlite:///{tmp_path_factory.mktemp('whole')}/log.db", None)
    states, events = running.states(), running.service.store.newest()
    running.service.close()
    return states, events


def counted(address: str) -> tuple[int, int]:
    """Events and slates in a store."""
    store = open_store(address)
    many = len(store.raw(0, 10**6)), len(store.slates("", 10**6))
    store.close()
    return many


@pytest.mark.parametrize("kind", ["folder", "fsspec", "dropped"])
def test_old_events_go_and_nothing_that_was_learned_changes(address, kind, tmp_path, whole):
    where = {"folder": f"{tmp_path}/archive", "fsspec": f"dir::file://{tmp_path}/archive", "dropped": None}[kind]
    running = grown(address, Policy(events=1000, archive=where))
    states, events = whole
    assert running.states() == states
    running.service.close()
    left, slates = counted(address)
    assert left < 1000 + 100 + 250 * 3  # those to be kept, a tenth, what came since the last step
    assert slates < left
    store = open_store(address)
    floor = store.floor()
    assert events - 1000 - 850 < floor.seq <= events - 1000
    found = verify(store)
    assert found.faults == []
    assert found.events == events
    for stored in store.rankers():
        finding = replay(store, stored)
        assert finding.faults == []
        assert finding.snapshots >= 2
    count = export(store, tmp_path / "all.parquet")
    assert count == events if where else count == left
    table = pq.read_table(tmp_path / "all.parquet").to_pydict()
    served = [slate for slate, kind in zip(table["slate"], table["kind"], strict=True) if kind == "served"]
    if where:
        assert served == [f"s{n}" for n in range(1000)]
        manifest = Archive(where).manifest()
        assert manifest.last == floor.seq
        assert manifest.steps[-1].digest == floor.digest.hex()
        assert {file.ranker for step in manifest.steps for file in step.files} == {1, 2}
    store.close()


def test_a_missing_or_altered_archive_is_found(tmp_path):
    address, where = f"sqlite:///{tmp_path}/log.db", tmp_path / "archive"
    grown(address, Policy(events=1000, archive=str(where)), 1000).service.close()
    store = open_store(address)
    file = next(where.glob("ranker-1/*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    assert "was altered" in verify(store).faults[0]
    assert "was altered" in replay(store, store.rankers()[0]).faults[0]
    file.unlink()
    assert "is missing" in verify(store).faults[0]
    (where / "manifest.json").write_bytes((where / "manifest.json").read_bytes().replace(b'"first"', b'"First"', 1))
    assert "manifest" in verify(store).faults[0]
    store.close()


@pytest.mark.parametrize("archived", [True, False])
def test_altered_events_that_stay_below_the_floor_are_found(tmp_path, archived):
    address = f"sqlite:///{tmp_path}/log.db"
    running = Running(address, Policy(events=1000, archive=f"{tmp_path}/archive" if archived else None), window=1e6)
    running.rounds(1000)
    assert running.service.retention.step() > 0
    running.service.close()
    store = open_store(address)
    opened = store.floor().open_events()
    assert opened
    assert verify(store).faults == []
    store.close()
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("UPDATE events SET at = at + 1 WHERE seq = ?", (opened[0],))
    store = open_store(address)
    assert any("altered" in fault or "as the archive does" in fault for fault in verify(store).faults)
    store.close()


def test_ids_are_refused_while_their_windows_last(address, tmp_path):
    running = Running(address, Policy(events=1000, archive=f"{tmp_path}/archive"), window=3600.0)
    running.rounds(1000)
    service = running.service
    first = service.rank("films", "mine").items
    assert service.feedback([Report("mine", (0,), True)]) == ["learned"]
    running.rounds(1500)
    assert service.retention.step() > 0
    served = [line for line in service.store.lines(0, service.store.floor().seq, 10**6) if line.kind == 2]
    assert len(served) > 500  # their windows last still
    assert service.rank("films", "mine").items == first
    assert service.feedback([Report("mine", (0,), True)]) == ["duplicate"]
    assert verify(service.store).faults == []
    service.close()


def test_a_snapshot_that_the_log_does_not_give_keeps_everything(address, tmp_path):
    running = Running(address, Policy(events=1000, archive=f"{tmp_path}/archive"))
    running.rounds(1000)
    service = running.service
    hosted = service.hosted("films")
    hosted.fold.clicked[0] += 1  # something that no event says
    running.rounds(100)
    before = len(service.store.raw(0, 10**6))
    assert service.retention.step() == 0
    assert "is not what the log gives" in service.retention.failed
    assert len(service.store.raw(0, 10**6)) == before
    assert Archive(f"{tmp_path}/archive").manifest().steps == []
    service.close()


def test_when_no_snapshot_is_left_the_archive_is_folded_again(tmp_path):
    address = f"sqlite:///{tmp_path}/log.db"
    running = grown(address, Policy(events=1000, archive=f"{tmp_path}/archive"), 1000)
    states = running.states()
    running.service.close()
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("UPDATE snapshots SET digest = 'x'")
    running.start()
    running.service.step()
    assert running.states() == states
    running.service.close()


def test_when_no_snapshot_is_left_and_events_were_dropped_a_ranker_says_so(tmp_path):
    address = f"sqlite:///{tmp_path}/log.db"
    running = grown(address, Policy(events=1000), 1000)
    running.service.close()
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("UPDATE snapshots SET digest = 'x' WHERE ranker = 1")
    running.start()
    running.service.step()
    assert "were dropped; restore a backup" in running.service.registry.broken["films"]
    assert running.service.rank("shop").items
    running.service.close()


def test_a_deleted_ranker_leaves_nothing_behind(address):
    running = Running(address, Policy(events=1000))
    running.rounds(500)
    service = running.service
    service.delete("films")
    service.step()
    assert service.feedback([Report("s0", (0,), True)]) == ["unknown"]
    assert service.rank("shop", "s0").items  # an id of the deleted one is free
    assert verify(service.store).faults == []
    service.retention.step()
    assert {row.ranker for row in service.store.slates("", 10**6)} == {2}
    assert service.store.to_sweep() is None
    running.rounds(1000, ("shop", "shop"))
    service.retention.step()
    left = [line for line in service.store.lines(0, service.store.floor().seq, 10**6) if line.ranker == 1]
    assert {line.kind for line in left} <= {1, 6}
    assert verify(service.store).faults == []
    service.close()


def test_an_id_that_a_deleted_ranker_had_before_keeps_its_row(address, monkeypatch):
    """Rows are removed with the events that served them, not by their ids, which another ranker may have taken."""
    running = Running(address, Policy(events=1000), window=1e6)  # nothing expires
    running.rounds(100)
    service = running.service
    service.delete("films")
    service.step()
    rankers = service.store.rankers

    def taken_meanwhile():
        """While rows of the deleted ranker are being removed, another one takes an id of theirs."""
        service.rank("shop", "s2")
        return rankers()

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "rankers", taken_meanwhile)
        service.store.sweep("", 10**4)
    assert {row.slate: row.ranker for row in service.store.slates("", 10**4)}["s2"] == 2
    assert service.rank("shop", "s0").items
    running.rounds(3000, ("shop", "shop"))
    service.retention.step()
    assert service.store.floor().seq > 200  # the events of the deleted ranker are gone
    assert {"s0", "s2"} <= {row.slate for row in service.store.slates("", 10**6)}
    assert verify(service.store).faults == []
    service.close()


def test_an_archive_of_another_log_is_refused(tmp_path):
    one, two = f"sqlite:///{tmp_path}/one.db", f"sqlite:///{tmp_path}/two.db"
    policy = Policy(events=1000, archive=f"{tmp_path}/archive")
    grown(one, policy, 1000).service.close()
    running = Running(two, policy)
    running.rounds(1000)
    assert running.service.retention.step() == 0
    assert "which this log does not have" in running.service.retention.failed
    running.service.close()


def test_a_step_that_was_archived_and_not_removed_is_taken_up(address, tmp_path):
    """As if the server had been killed between the manifest and the floor."""
    running = Running(address, Policy(events=1000, archive=f"{tmp_path}/archive"))
    running.rounds(1000)
    retention = running.service.retention
    raised = running.service.store.raise_floor
    running.service.store.raise_floor = lambda *_: None
    retention._clear = lambda _: None
    retention._raise(running.service.store.floor(), running.service.store.newest() - 1000, f"{tmp_path}/archive")
    steps = Archive(f"{tmp_path}/archive").manifest().steps
    assert len(steps) == 1
    assert running.service.store.floor().seq == 0
    running.service.store.raise_floor = raised
    running.service.close()
    running.start()
    running.rounds(500)
    assert running.service.retention.step() > 0
    manifest = Archive(f"{tmp_path}/archive").manifest()
    assert manifest.steps[0] == steps[0]
    assert manifest.last == running.service.store.floor().seq
    assert verify(running.service.store).faults == []
    running.service.close()


def test_a_fault_that_is_mended_is_tried_again_without_new_events(tmp_path, monkeypatch):
    running = Running(f"sqlite:///{tmp_path}/log.db", Policy(events=1000, archive=f"{tmp_path}/archive"))
    running.rounds(800)
    running.states()
    retention, orders = running.service.retention, []
    work = retention._work
    retention._work = lambda order: orders.append(order) or work(order)
    (tmp_path / "archive").write_text("in the way")
    delays = []
    for _ in range(9):
        assert retention.step() == 0
        assert "Not a directory" in retention.failed
        delays.append(retention._again - time.monotonic())
        assert retention.step() == 0  # too early
        retention._again = 0.0  # later
    assert len(orders) == 9
    assert [round(delay, -1) for delay in delays] == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    (tmp_path / "archive").unlink()
    assert retention.step() > 0
    assert retention.failed is None
    assert retention._delay == 60
    running.service.close()


def test_snapshots_are_taken_when_they_are_wanted(address):
    """Usually there is one every 100,000 events or every minute: what is old would have to wait for it."""
    seldom = Settings(refresh=0, expire=0, snapshot_events=10**9, snapshot_seconds=1e9)
    running = Running(address, Policy(events=1000), settings=seldom)
    running.rounds(1000)
    retention = running.service.retention
    if retention.step() == 0:
        running.rounds(50)
        assert retention.step() > 0
    assert running.service.store.floor().seq > 500
    assert verify(running.service.store).faults == []
    running.service.close()


def test_by_time_with_a_worker_process(tmp_path):
    address = f"sqlite:///{tmp_path}/log.db"
    running = Running(address, Policy(seconds=2.0), apart=True)
    running.rounds(500)
    time.sleep(2.3)
    running.rounds(50)
    assert running.service.retention.step() > 0
    assert running.service.retention.failed is None
    assert 500 < running.service.store.floor().seq < running.service.store.newest()
    assert verify(running.service.store).faults == []
    running.service.close()


def test_a_plugin_that_prints_does_not_disturb_the_worker(tmp_path, monkeypatch, capfd):
    (tmp_path / "talks.py").write_text("import os\nprint('many words ' * 10, flush=True)\nos.system('echo and more')\n")
    monkeypatch.setenv(plugins.ENVIRONMENT, str(tmp_path / "talks.py"))
    running = Running(f"sqlite:///{tmp_path}/log.db", Policy(events=300), apart=True)
    running.rounds(300)
    running.states()
    assert running.service.retention.step() > 0, running.service.retention.failed
    running.service.close()
    assert "many words" in capfd.readouterr().err


def test_one_at_a_time_maintains_a_store(address):
    store = open_store(address)
    other = open_store(address) if store.shared else store
    with store.maintaining() as alone:
        assert alone
        with other.maintaining(0.1) as second:
            assert not second
    with other.maintaining() as alone:
        assert alone
    with pytest.raises(KeyError), store.maintaining():
        raise KeyError
    with other.maintaining() as alone:
        assert alone
    other.close()
    if store.shared:
        with store.maintaining() as alone:
            assert alone
    store.close()


def test_policies():
    assert parse("30d").seconds == 30 * 86400
    assert parse("90m", "x") == Policy(5400.0, None, "x")
    for wrong in ("", "d", "30", "-1d", "3w", "1.5d", str(LEAST - 1), "999999d"):
        with pytest.raises(ValueError, match="retain"):
            parse(wrong)


def test_options_that_do_not_go_together(tmp_path):
    def said(*arguments: str) -> str:
        done = prepared.run(
            [sys.executable, "-m", "recurrank", "serve", "--store", f"sqlite:///{tmp_path}/x.db", *arguments],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        return done.stderr

    assert "give both" in said("--archive", str(tmp_path))
    assert "30d" in said("--retain", "soon")


def test_a_ranker_that_old_events_wait_for_is_named(tmp_path, monkeypatch):
    """One whose log cannot be folded keeps everything: disk use would grow unseen."""
    running = Running(f"sqlite:///{tmp_path}/log.db", Policy(events=1000))
    running.rounds(1000)
    service = running.service
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("DELETE FROM snapshots WHERE ranker = 2")
    service.learner._keep = lambda *_: None
    assert service.retention.step() == 0
    assert service.retention.failed is None  # it may come
    monkeypatch.setattr("recurrank.serving.retention.PATIENCE", 0.0)
    assert service.retention.step() == 0
    assert "ranker number 2" in service.retention.failed
    service.close()


def test_what_is_acknowledged_after_a_removal_is_on_disk(tmp_path):
    """Removing does not wait for the disk; every other transaction does, whatever came before it."""
    store = open_store(f"sqlite:///{tmp_path}/log.db")

    def waits(transaction) -> bool:
        with transaction as t:
            return t.execute("PRAGMA synchronous").fetchone() == (2,)

    for _ in range(2):
        assert waits(store.transaction())
        assert not waits(store.lazy_transaction())
        store.remove([1], [("none", 1)])
        assert waits(store.long_transaction())
    store.close()


def test_the_wal_is_cut_after_a_long_read(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM meta").fetchone()
        for number in range(24):
            store.note(f"large {number}", bytes(4 << 20))  # as a busy server writes while a backup reads
        wal = tmp_path / "log.db-wal"
        assert wal.stat().st_size > 90 << 20
    for number in (1, 2):
        store.note("large 0", bytes([number]) * (4 << 20))
    assert wal.stat().st_size <= 64 << 20
    store.close()
