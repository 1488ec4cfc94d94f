"""Starting: only what is new is read, rankers become available one after the other, damage to one is not the others' affair."""

from __future__ import annotations

import contextlib
import sqlite3
import threading

import numpy as np
import psycopg
import pytest
import structlog
from tests.serving.running import until

from recurrank.catalogue import Catalogue
from recurrank.serving.checkpoint import FAR, Checkpoint, split, unpack
from recurrank.serving.fold import new_fold
from recurrank.serving.service import Service, Settings, Unavailable
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report
from recurrank.serving.store.sqlite import SqliteStore

CONFIG = RankerSpec(algorithm="recurrank", positions=3, rounds=500, seed=0, window_seconds=1e6, unreported="drop", options={})
CATALOGUE = Catalogue(np.random.default_rng(0).standard_normal((8, 2)))


class Time:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def begin(address: str, **changes) -> Service:
    settings = Settings(**{"refresh": 0, "snapshot_events": 10**9, "snapshot_seconds": 1e9, **changes})
    return Service(open_store(address), Time(), seed=1, start=False, settings=settings)


def begin_to_learn(address: str, **changes) -> Service:
    """Wait for the lease, which PostgreSQL frees a moment after the connection of a crashed server is gone."""
    service = begin(address, **changes)
    until(lambda: service.learner.learning or service.step() or service.learner.learning)
    return service


def crash(service: Service) -> None:
    """Let go of the store without closing: no snapshot, no checkpoint."""
    service.committer.stop()
    service.store.close()


def visit(service: Service, name: str, rounds: int) -> None:
    for number in range(rounds):
        slate = service.rank(name).slate
        if number % 3:
            service.feedback([Report(slate, (number % 3,), True)])


def same_as_the_log(service: Service) -> None:
    opened = service.store.open_slates()
    for name in service.names():
        hosted = service.hosted(name)
        fold = new_fold(hosted.spec, hosted.catalogue)
        fold.apply(service.store.events(0, 10**6, hosted.stored.number))
        assert hosted.fold.save() == fold.save(), name
        assert list(hosted.open) == opened.get(hosted.stored.number, []), name


def read(service_of, monkeypatch) -> tuple[Service, list[int]]:
    """A service, and after which events it began to read at its start."""
    asked: list[int] = []
    real = SqliteStore.events

    def events(self, after, *rest):
        asked.append(after)
        return real(self, after, *rest)

    monkeypatch.setattr(SqliteStore, "events", events)
    service = service_of()
    monkeypatch.undo()
    return service, asked


def test_an_idle_ranker_does_not_make_a_start_read_the_whole_log(tmp_path, monkeypatch):
    address = f"sqlite:///{tmp_path}/x.db"
    service = begin(address)
    service.create("idle", CONFIG, CATALOGUE)
    service.create("busy", CONFIG, CATALOGUE)
    service.step()
    service.close()
    service = begin(address)
    visit(service, "busy", 60)
    service.step()
    service.close()
    service, asked = read(lambda: begin(address), monkeypatch)
    assert asked == [service.store.newest()]
    same_as_the_log(service)
    visit(service, "idle", 5)
    visit(service, "busy", 5)
    crash(service)
    service, asked = read(lambda: begin(address), monkeypatch)
    assert asked[0] == 102  # two made, sixty served, forty learned; then the ten that were not folded
    same_as_the_log(service)
    service.close()


@pytest.mark.parametrize("seed", range(4))
def test_whenever_it_stops_it_starts_with_what_the_log_says(address, seed):
    """Rankers made, used, deleted; snapshots and checkpoints often; it is closed or it crashes, at random."""
    rng, names = np.random.default_rng(seed), []
    service = begin(address, snapshot_events=7)
    for turn in range(12 if address.startswith("sqlite") else 5):
        if rng.random() < 0.5 or not names:
            names.append(f"r{turn}")
            service.create(names[-1], CONFIG, CATALOGUE)
        for name in rng.choice(names, 2):
            visit(service, str(name), int(rng.integers(1, 8)))
            if rng.random() < 0.5:
                service.step()
        if len(names) > 2 and rng.random() < 0.3:
            service.delete(names.pop(0))
        if rng.random() < 0.6:
            (crash if rng.random() < 0.5 else Service.close)(service)
            service = begin_to_learn(address, snapshot_events=7)
            assert service.names() == sorted(names)
            same_as_the_log(service)
    service.close()


def test_a_snapshot_that_cannot_be_read_is_told_and_made_up_for(tmp_path):
    address = f"sqlite:///{tmp_path}/x.db"
    service = begin(address)
    service.create("idle", CONFIG, CATALOGUE)
    service.create("busy", CONFIG, CATALOGUE)
    for name in ("idle", "busy"):
        visit(service, name, 9)
    service.step()
    service.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as database:
        database.execute("UPDATE snapshots SET state = substr(state, 2) WHERE ranker = 1")
    with structlog.testing.capture_logs() as lines:
        service = begin(address)
    assert service.registry.unreadable == 1
    assert [(line["event"], line["ranker"]) for line in lines] == [
        ("a snapshot cannot be used", "idle"),
        ("no snapshot can be used: all events are folded again", "idle"),
    ]
    same_as_the_log(service)
    service.close()


def test_a_damaged_log_stays_found_over_restarts(tmp_path):
    """A checkpoint does not reach over events that could not be folded."""
    address = f"sqlite:///{tmp_path}/x.db"
    service = begin(address)
    for name in ("films", "books"):
        service.create(name, CONFIG, CATALOGUE)
        visit(service, name, 4)
    crash(service)
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as database:
        database.execute("UPDATE events SET payload = 'text' WHERE seq = 3")
    for _ in range(3):
        service = begin(address, snapshot_events=1)
        assert set(service.registry.broken) == {"films"}
        with pytest.raises(Unavailable, match="event "):
            service.rank("films")
        visit(service, "books", 2)
        service.step()
        service.close()


def test_a_ranker_that_cannot_be_opened_is_the_only_one(tmp_path):
    address = f"sqlite:///{tmp_path}/x.db"
    service = begin(address)
    for name in ("films", "books"):
        service.create(name, CONFIG, CATALOGUE)
    service.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as database:
        database.execute("UPDATE rankers SET config = x'7b' WHERE name = 'films'")
    service = begin(address)
    assert set(service.registry.broken) == {"films"}
    assert service.rank("books").items
    with pytest.raises(Unavailable, match="cannot be opened"):
        service.rank("films")
    service.close()


class SlowStore(SqliteStore):
    """Its second catalogue comes when it is told to."""

    go: threading.Event

    def catalogue(self, ranker: int) -> bytes:
        if ranker == 2:
            self.go.wait(30)
        return super().catalogue(ranker)


def test_a_ranker_that_is_deleted_while_it_is_opened_does_not_break_the_next_of_its_name(tmp_path, monkeypatch):
    service = begin(f"sqlite:///{tmp_path}/x.db")
    service.create("films", CONFIG, CATALOGUE)
    old, listed = service.hosted("films"), service.store.rankers()
    service.delete("films")
    service.create("films", CONFIG, CATALOGUE)
    real = service.store.rankers
    answers = iter([listed])  # what a look before the deletion found
    monkeypatch.setattr(service.store, "rankers", lambda: next(answers, None) or real())
    service.registry.synchronise(threading.Event())
    service.registry.breaks(old, "its events are gone")
    assert service.registry.broken == {}
    assert service.rank("films").slate
    service.close()


def test_rankers_become_available_as_they_are_restored(tmp_path):
    address = f"sqlite:///{tmp_path}/x.db"
    service = begin(address)
    for name in ("first", "second", "third"):
        service.create(name, CONFIG, CATALOGUE)
    slate = service.rank("third").slate
    service.close()
    store = SlowStore(tmp_path / "x.db")
    store.go = threading.Event()
    service = Service(store, wait=False)
    try:
        until(lambda: service.registry.starting == (1, 3))
        assert service.rank("first").items
        assert service.feedback([Report(slate, (0,), True)]) == ["learned"]
        for call in (lambda: service.rank("third"), lambda: service.rank("nobody"), service.registry.check_started):
            with pytest.raises(Unavailable, match="starting: 1 of 3 rankers"):
                call()
        store.go.set()
        until(lambda: service.registry.starting is None and service.learner.learning)
        until(lambda: service.hosted("third").fold.counts["learned"] == 1)
        assert service.rank("second").items
    finally:
        store.go.set()
        service.close()


def test_a_follower_takes_over_from_where_it_is(database):
    one, two = begin(database, snapshot_seconds=0), begin(database)
    assert (one.learner.learning, two.learner.learning) == (True, False)
    one.create("films", CONFIG, CATALOGUE)
    one.create("idle", CONFIG, CATALOGUE)
    visit(one, "films", 10)
    one.clock.now += 10
    one.step()
    visit(one, "films", 3)
    crash(one)
    until(lambda: _steps(two) and two.learner.learning)
    same_as_the_log(two)
    two.close()
    with psycopg.connect(database) as connection:
        stored = connection.execute("SELECT value FROM recurrank_meta WHERE name = 'checkpoint'").fetchone()[0]
    assert unpack(stored).seq == 23


def _steps(service: Service) -> bool:
    service.clock.now += 2
    service.step()
    return True


def test_where_reading_begins():
    assert split({1: 5, 2: 10, 3: 12}) == (5, [])
    assert split({1: 5, 2: 10 + FAR, 3: 12 + FAR}) == (10 + FAR, [1])
    assert split({7: 3}) == (3, [])
    mark = Checkpoint(100, 3, {2: 60})
    assert [mark.start(1, 40, 40), mark.start(2, 40, 40), mark.start(2, 70, 70), mark.start(1, 120, 120)] == [100, 60, 70, 120]
    assert mark.start(1, 20, 40) == 20  # the newest could not be read
    assert mark.start(1, 0, 0) == 0  # it has none
    assert mark.start(4, 0, 0) == 100  # made since
    assert unpack(mark.pack()) == mark
    assert unpack(b"{") is unpack(None) is None


def test_the_lease_is_free_though_postgresql_has_not_ended_the_session(database, monkeypatch):
    first, second = open_store(database), open_store(database)
    assert first.lease()
    assert not second.lease()
    sessions: list[psycopg.Connection] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            psycopg.Connection, "close", lambda session: sessions.append(session)
        )  # sessions that PostgreSQL is slow to end
        first.close()
    free = second.lease()
    for session in sessions:
        session.close()
    second.close()
    assert free
