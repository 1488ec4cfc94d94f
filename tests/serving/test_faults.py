"""What may go wrong under a service: nothing that was acknowledged is lost, nothing counts twice, and it goes on by itself."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import sys
import time

import psycopg
import pytest
from tests import prepared
from tests.serving.running import until as wait_until

import recurrank as rr
from recurrank.catalogue import Catalogue
from recurrank.serving import learner
from recurrank.serving.fold import new_fold
from recurrank.serving.service import NotFound, Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import StoreError, base, open_store, postgres, sqlite
from recurrank.serving.store.records import Report
from recurrank.serving.verify import verify

CONFIG = RankerSpec(
    algorithm="recurrank", positions=3, rounds=500, seed=0, window_seconds=60.0, unreported="drop", options={"delta": 0.5}
)


class Time:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Faults:
    """Counts calls of a database; the one that is due fails, before it has done its work or after."""

    def __init__(self) -> None:
        self.calls, self.due, self.after = 0, 0, False

    def call(self, do, error: Exception):
        self.calls += 1
        fails = self.calls == self.due
        if fails and not self.after:
            raise error
        result = do()
        if fails:
            if isinstance(result, sqlite3.Cursor):
                result.close()
            raise error
        return result


@pytest.fixture
def faults(monkeypatch, address):
    """Every statement that a store of this kind executes goes through it."""
    faults = Faults()
    if address.startswith("sqlite"):

        class Connection(sqlite3.Connection):
            def execute(self, *arguments):
                error = sqlite3.OperationalError("disk I/O error")
                return faults.call(lambda: super(Connection, self).execute(*arguments), error)

        real = sqlite3.connect
        monkeypatch.setattr(sqlite.sqlite3, "connect", lambda *args, **kw: real(*args, factory=Connection, **kw))
    else:
        wait = psycopg.Connection.wait

        def failing(self, *arguments, **keywords):
            def do():
                return wait(self, *arguments, **keywords)

            try:
                return faults.call(do, psycopg.OperationalError("the connection is lost"))
            except psycopg.OperationalError:
                self.pgconn.finish()  # as it is when the server goes away
                raise

        monkeypatch.setattr(psycopg.Connection, "wait", failing)
    return faults


def insist(call, *arguments, **keywords):
    """As a client does: again until it is answered."""
    for _ in range(5):
        with contextlib.suppress(StoreError):
            return call(*arguments, **keywords)
    raise AssertionError("it failed five times, though only one call of the database did")


def scenario(address: str, catalogue: Catalogue) -> tuple[dict, bytes, bytes]:
    """A short life of a service: what was counted, its state at the end, and the state from the log alone."""
    clock = Time()
    settings = Settings(refresh=0, snapshot_events=3, expire=0)

    def start() -> Service:
        return insist(lambda: Service(insist(open_store, address), clock, seed=1, start=False, settings=settings))

    service = start()
    insist(service.create, "films", CONFIG, catalogue)
    insist(service.create, "more", CONFIG, catalogue)
    shown = {name: insist(service.rank, "films", name).items for name in ("a", "b", "c", "d")}
    assert insist(service.feedback, [Report("a", (0, 2), True)])[0] in ("learned", "duplicate")
    assert insist(service.feedback, [Report("b", (1,), False)]) == ["open"]
    insist(service.step)
    clock.now += 61  # b is learned as it is, c and d are dropped
    insist(service.step)
    insist(service.step)
    assert insist(service.rank, "films", "e").items
    assert insist(service.feedback, [Report("e", (), True), Report("c", (0,), True)])[1] == "late"
    with contextlib.suppress(NotFound):  # deleted by the try that failed afterwards
        insist(service.delete, "more")
    insist(service.step)
    with contextlib.suppress(StoreError):
        service.close()
    with contextlib.suppress(StoreError):
        service.store.close()
    service = start()
    insist(service.step)
    for name, items in shown.items():
        assert insist(service.rank, "films", name).items == items
    assert service.names() == ["films"]
    assert verify(service.store).faults == [] or verify(service.store).faults == []  # a read that fails is a finding, once
    hosted = service.hosted("films")
    fold = new_fold(hosted.spec, hosted.catalogue)
    fold.apply(insist(service.store.events, 0, 10**6, hosted.stored.number))
    result = (hosted.fold.counts, hosted.fold.save(), fold.save())
    with contextlib.suppress(StoreError):
        service.close()
    with contextlib.suppress(StoreError):
        service.store.close()
    return result


@pytest.fixture
def begin_on():
    """A service whose learner steps when told."""
    running = []

    def start(address: str, clock: Time) -> Service:
        settings = Settings(refresh=0, expire=0)
        running.append(Service(open_store(address), clock, seed=1, start=False, settings=settings))
        return running[-1]

    yield start
    for service in running:
        service.close()


@pytest.fixture
def catalogue():
    return Catalogue(rr.synthetic(items=12, dim=2, seed=0).features)


@pytest.fixture
def fresh(address, request, tmp_path):
    """Addresses of empty stores of one kind."""
    if address.startswith("sqlite"):
        return lambda number: f"sqlite:///{tmp_path}/{number}.db"
    server = request.getfixturevalue("postgres")

    def another(number: int) -> str:
        if number:  # the next case finds the same database, empty
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("DROP SCHEMA public CASCADE")
                connection.execute("CREATE SCHEMA public")
        return address

    assert server is not None
    return another


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["undone", "done but unheard of"])
def test_whichever_call_of_the_store_fails_once(faults, fresh, catalogue, after, address, soaking):
    """Every n of the scenario: the n-th statement fails, all the rest work, and the end is always the same.

    Of PostgreSQL, whose cases take longer, every eighth; all of them in ``make soak``.
    """
    counts, state, replayed = scenario(fresh(0), catalogue)
    assert state == replayed
    assert counts == {"served": 5, "learned": 3, "dropped": 2, "clicks": 3}
    calls = faults.calls
    assert calls > 60
    for number in range(1, calls + 1, 1 if soaking or address.startswith("sqlite") else 8):
        address = fresh(number)
        faults.calls, faults.due, faults.after = 0, number, after
        counts_now, state, replayed = scenario(address, catalogue)
        assert state == replayed, number
        assert counts_now == counts, number
        faults.due = 0


def test_the_wall_clock_may_jump(address, catalogue, monkeypatch):
    """By a day, forwards and back: nothing expires, ids stay apart, the log stays in order."""
    clock = Time()
    service = Service(open_store(address), clock, seed=1, start=False, settings=Settings(refresh=0, expire=0))
    try:
        service.create("films", CONFIG, catalogue)
        slates = []
        for jump in (0, 86_400, -86_400):
            monkeypatch.setattr(base.time, "time", lambda real=time.time, jump=jump: real() + jump)
            monkeypatch.setattr(base.time, "time_ns", lambda real=time.time_ns, jump=jump: real() + jump * 10**9)
            slates += [service.rank("films").slate for _ in range(5)]
            clock.now += 10
            service.step()
            monkeypatch.undo()
        assert len(set(slates)) == 15
        assert set(service.feedback([Report(slate, (0,), True) for slate in slates])) == {"learned"}
        service.step()
        assert service.status("films")["learned"] == 15
        assert verify(service.store).faults == []
    finally:
        service.close()


def test_the_services_own_clock_may_jump(begin_on, address, catalogue):
    """By a day: windows close, and late reports are told so; what was reported before counts once."""
    clock = Time()
    service = begin_on(address, clock)
    service.create("films", CONFIG, catalogue)
    one, two, three = (service.rank("films").slate for _ in range(3))
    assert service.feedback([Report(one, (0,), True), Report(two, (1,), False)]) == ["learned", "open"]
    service.step()
    clock.now += 86_400
    service.step()
    service.step()
    late = service.feedback([Report(one, (0,), True), Report(two, (2,), True), Report(three, (0,), True)])
    assert late == ["duplicate", "late", "late"]
    counts = service.hosted("films").fold.counts
    assert counts == {"served": 3, "learned": 2, "dropped": 1, "clicks": 2}


def test_a_process_that_was_stopped_does_not_close_windows(address, catalogue, monkeypatch):
    """The learner oversleeps by far more than the window: nobody could have reported meanwhile."""
    clock = Time()
    monkeypatch.setattr(learner, "PAUSE", 100.0)
    service = Service(open_store(address), clock, seed=1, settings=Settings(expire=0, poll=0.01))
    try:
        service.create("films", CONFIG, catalogue)
        slate = service.rank("films").slate
        wait_until(lambda: service.hosted("films").open)
        waiting = service.learner.stopping.wait

        def overslept(seconds: float) -> bool:
            monkeypatch.setattr(service.learner.stopping, "wait", waiting)
            clock.now += 3600
            return waiting(seconds)

        monkeypatch.setattr(service.learner.stopping, "wait", overslept)
        wait_until(lambda: clock.now > 4000)
        time.sleep(0.2)
        assert service.feedback([Report(slate, (0,), True)]) == ["learned"]
        another = service.rank("films").slate
        wait_until(lambda: service.hosted("films").fold.counts["served"] == 2 and len(service.hosted("films").open) == 1)
        clock.now += 61  # and time that passes in the usual way does
        wait_until(lambda: service.hosted("films").fold.counts["dropped"] == 1)
        assert service.feedback([Report(another, (0,), True)]) == ["late"]
    finally:
        service.close()


def test_a_log_that_was_altered_stops_only_its_ranker(tmp_path, catalogue):
    path = tmp_path / "x.db"
    service = Service(open_store(f"sqlite:///{path}"), Time(), seed=1, start=False)
    service.create("films", CONFIG, catalogue)
    service.create("books", CONFIG, catalogue)
    for name in ("films", "books"):
        service.feedback([Report(service.rank(name).slate, (0,), True) for _ in range(4)])
    service.store.close()  # without a snapshot
    service.committer.stop()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(
            "UPDATE events SET payload = x'00' WHERE seq = (SELECT min(seq) FROM events WHERE ranker = 1 AND kind = 2)"
        )
    again = Service(open_store(f"sqlite:///{path}"), Time(), start=False)
    try:
        assert set(again.registry.broken) == {"films"}
        assert again.registry.broken["films"].startswith("event ")
        assert again.hosted("books").fold.counts["learned"] == 4
        assert again.hosted("films").fold.counts["learned"] == 0
    finally:
        again.close()


MIGRATION = "CREATE TABLE {0}one (x INTEGER); CREATE TABLE {0}two (x INTEGER); INSERT INTO {0}two VALUES (1)"
MIGRATE = """
import os, signal, sys
import psycopg, sqlite3
from recurrank.serving.store import open_store, postgres, sqlite

address = sys.argv[1]
sqlite.MIGRATIONS.append(sys.argv[2])
postgres.MIGRATIONS.append(sys.argv[2])
due = calls = 0

def count():
    global calls
    calls += 1
    if calls == due:
        os.kill(os.getpid(), signal.SIGKILL)

class Connection(sqlite3.Connection):
    def execute(self, *arguments):
        count()
        return super().execute(*arguments)

real, wait = sqlite3.connect, psycopg.Connection.wait
sqlite3.connect = lambda *args, **kw: real(*args, factory=Connection, **kw)

def counted(self, *args, **kw):
    count()
    return wait(self, *args, **kw)

psycopg.Connection.wait = counted
for due in range(1, 40):
    child = os.fork()
    if child == 0:
        open_store(address).close()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status)
    if status != -signal.SIGKILL:
        break
"""
"""One process per statement, forked from one that has loaded everything; it is killed before that statement."""


def test_killed_in_the_middle_of_a_migration(address, catalogue, monkeypatch):
    """A new version brings a migration; it is killed before every statement of it in turn; nothing is lost or done twice."""
    service = Service(open_store(address), Time(), seed=1, start=False)
    service.create("films", CONFIG, catalogue)
    service.feedback([Report(service.rank("films").slate, (0,), True)])
    service.close()
    script = MIGRATION.format("recurrank_")
    command = [sys.executable, "-W", "ignore", "-c", MIGRATE, address, script]
    done = prepared.run(command, capture_output=True, text=True, timeout=60, load=prepared.SERVICE)
    *killed, last = map(int, done.stdout.split())
    assert last == 0, done.stderr
    assert len(killed) > 6
    assert set(killed) == {-signal.SIGKILL}
    store_module = sqlite if address.startswith("sqlite") else postgres
    monkeypatch.setattr(store_module, "MIGRATIONS", [*store_module.MIGRATIONS, script])
    service = Service(open_store(address), Time(), seed=1, start=False)
    try:
        assert service.hosted("films").fold.counts["learned"] == 1
        if address.startswith("sqlite"):
            rows = service.store._reader.execute("SELECT count(*) FROM recurrank_two").fetchone()
        else:
            with psycopg.connect(address) as connection:
                rows = connection.execute("SELECT count(*) FROM recurrank_two").fetchone()
        assert rows == (1,)
    finally:
        service.close()
    monkeypatch.undo()
    with pytest.raises(StoreError, match="newer version"):  # and the old version leaves it alone
        open_store(address)


def test_a_server_that_stops_in_a_transaction_does_not_stop_the_others(database, catalogue):
    """It sits on the lock of the log; PostgreSQL ends its session soon, and its own transaction fails."""
    one, two = open_store(database), open_store(database)
    service = Service(two, seed=1, start=False)
    try:
        service.create("films", CONFIG, catalogue)
        slates = []

        def stop_in_a_transaction() -> None:
            with one.transaction() as t:
                t.execute("DELETE FROM recurrank_events")
                began = time.monotonic()
                slates.append(insist(service.rank, "films").slate)
                assert 1 < time.monotonic() - began < 14
                t.execute("SELECT 1")

        with pytest.raises(StoreError):
            stop_in_a_transaction()
        (slate,) = slates
        assert service.feedback([Report(slate, (0,), True)]) == ["learned"]
        assert one.newest() == 3
    finally:
        one.close()
        service.close()
