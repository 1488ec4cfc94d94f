"""The alert rules of ``ops/alerts.yml``: each is fired by a fault of a real server, none by a server that is well."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import psycopg
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.serving.growing import Time
from tests.serving.running import InThread, until

from recurrank.catalogue import Catalogue
from recurrank.serving.events import Kind
from recurrank.serving.experiment import turned
from recurrank.serving.http.app import make_app
from recurrank.serving.retention import Policy, Retention
from recurrank.serving.retention_worker import answer
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.postgres import LEARN
from recurrank.serving.store.records import Change, Report, Serve

OPS = Path(__file__).parents[2] / "ops"
RULES = {rule["alert"]: rule["expr"] for rule in yaml.safe_load((OPS / "alerts.yml").read_text())["groups"][0]["rules"]}

Scrape = dict[str, dict[tuple, float]]


def scrape(url: str) -> Scrape:
    """What /metrics says: names, and values by labels. Nothing where no server answers, as in Prometheus."""
    found: Scrape = {}
    try:
        text = httpx.get(f"{url}/metrics", timeout=30).text
    except httpx.ConnectError:
        return found
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def fires(expression: str, before: Scrape, now: Scrape) -> bool:
    """Whether an alert's expression holds for any series. It understands as much of PromQL as the rules use."""
    if found := re.fullmatch(r"absent\((\w+)\)", expression):
        return found[1] not in now
    if " and " in expression:
        return all(fires(part, before, now) for part in expression.split(" and "))
    left, sign, right = re.fullmatch(r"(.+) ([<>]) (.+)", expression).groups()
    values, bounds = evaluated(left, before, now), evaluated(right, before, now)
    pairs = [(value, bounds.get((), bounds.get(labels))) for labels, value in values.items()]
    return any(value > bound if sign == ">" else value < bound for value, bound in pairs)


def evaluated(term: str, before: Scrape, now: Scrape) -> dict[tuple, float]:
    for sign, do in ((" / ", lambda a, b: a / b if b else float("nan")), (" * ", lambda a, b: a * b)):
        if sign in term:
            one, other = (evaluated(part, before, now) for part in term.split(sign))
            if list(one) == [()] and list(other) != [()]:
                return {labels: do(one[()], value) for labels, value in other.items()}
            return {labels: do(value, other[labels]) for labels, value in one.items()}
    if found := re.fullmatch(r"max\((\w+)\)", term):
        return {(): max(now[found[1]].values())}
    if found := re.fullmatch(r"rate\((\w+)\[\w+\]\)", term):
        return {labels: value - before.get(found[1], {}).get(labels, 0.0) for labels, value in now[found[1]].items()}
    if re.fullmatch(r"[0-9.]+", term):
        return {(): float(term)}
    return dict(now[term])


class Running:
    """A service behind a real server, with a ranker."""

    def __init__(self, address: str, window: float = 60.0, clock=None, policy: Policy | None = None) -> None:
        self.address = address
        store = open_store(address)
        settings = Settings(refresh=0.01, poll=0.01, expire=0.01, snapshot_events=50, snapshot_seconds=1.0)
        retention = Retention(store, address, policy, answer)
        self.service = Service(store, clock, seed=0, settings=settings, retention=retention)
        self.server = InThread(make_app(self.service))
        self.url = self.server.url
        catalogue = Catalogue(np.random.default_rng(0).standard_normal((12, 2)), [f"item {n}" for n in range(12)])
        spec = RankerSpec(algorithm="recurrank", positions=3, rounds=5000, window_seconds=window)
        self.service.create("films", spec, catalogue)
        for _ in range(10):
            slate = httpx.post(f"{self.url}/v1/rankers/films/rank", json={}, timeout=30).json()["slate"]
            self.service.feedback([Report(slate, (0,), True)])
        self.settle()

    def settle(self) -> None:
        until(lambda: self.service.lag() == 0)

    def serve(self, count: int) -> None:
        """Slates that nobody reports on."""
        hosted = self.service.hosted("films")
        payload = hosted.draw().payload
        for start in range(0, count, 2000):
            names = [f"{time.time_ns()}-{n}" for n in range(start, min(count, start + 2000))]
            self.service.store.commit([Serve(name, hosted.stored.number, payload) for name in names])

    def stop(self) -> None:
        self.server.stop()
        self.service.close()


@contextlib.contextmanager
def locked(running: Running):
    """Another process holds the database's lock."""
    with contextlib.closing(sqlite3.connect(running.address.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextlib.contextmanager
def store_failed(running):
    with locked(running):
        httpx.post(f"{running.url}/v1/rankers/films/rank", json={}, timeout=30)
        yield


@contextlib.contextmanager
def queue_long(running):
    def report() -> None:
        reports = [{"slate": f"unknown-{n}", "clicks": []} for n in range(1000)]
        httpx.post(f"{running.url}/v1/feedback", json=reports, timeout=30)

    with locked(running):
        sending = [threading.Thread(target=report) for _ in range(2)]
        for thread in sending:
            thread.start()
        until(lambda: running.service.committer.waiting > 1000, 10)
        yield
        for thread in sending:
            thread.join()


@contextlib.contextmanager
def learner_failed(running):
    with contextlib.closing(sqlite3.connect(running.address.removeprefix("sqlite:///"), timeout=30)) as other:
        other.execute("ALTER TABLE snapshots RENAME TO elsewhere")
        running.serve(100)
        until(lambda: running.service.learner.failed)
        yield
        other.execute("ALTER TABLE elsewhere RENAME TO snapshots")


@contextlib.contextmanager
def stuck(running, events: int = 1, later: float = 0.0):
    """The learner does not come back from a fold, for so many seconds."""
    with running.service.hosted("films").folding:
        running.serve(events)
        time.sleep(0.2)  # it is in it now
        if later:
            running.service.clock.now += later
        yield


@contextlib.contextmanager
def overdue(running):
    running.serve(5)
    until(lambda: running.service.hosted("films").open)
    with stuck(running, later=200.0):
        yield


@contextlib.contextmanager
def nobody_reports(running):
    running.serve(100)
    until(lambda: running.service.hosted("films").fold.counts["dropped"] >= 100)
    yield


@contextlib.contextmanager
def many_open(running):
    running.serve(30_000)
    until(lambda: len(running.service.hosted("films").open) == 30_000, 60)
    yield


@contextlib.contextmanager
def broken(running):
    with sqlite3.connect(running.address.removeprefix("sqlite:///"), timeout=30) as other:
        other.execute(
            "CREATE TRIGGER t AFTER INSERT ON events BEGIN UPDATE events SET payload = x'01' WHERE seq = new.seq; END"
        )
    running.service.store._tail = type(running.service.store._tail)(maxlen=0)  # as if the learner had fallen behind
    running.serve(3)
    until(lambda: running.service.registry.broken)
    yield


@contextlib.contextmanager
def altered_snapshot(running):
    running.serve(1500)
    running.settle()
    until(lambda: running.service.hosted("films").kept[0] > 1000)
    hosted = running.service.hosted("films")
    with hosted.folding:
        hosted.fold.clicked[0] += 1
    running.serve(60)
    kept = hosted.kept[0]
    until(lambda: hosted.kept[0] > kept)
    running.service.retention.step()
    yield


@contextlib.contextmanager
def no_snapshots(running):
    running.service.learner._keep = lambda *_: None
    running.serve(3500)
    running.settle()
    running.service.retention.step()
    assert running.service.retention.failed is None
    yield


@contextlib.contextmanager
def stopped(running):
    hosted = running.service.hosted("films")
    stop = turned(hosted.mode.settings, "it has fewer clicks")  # as the learner writes it
    running.service.store.commit([Change(hosted.stored.number, Kind.ROLLOUT, stop, hosted.changed)])
    yield


FAULTS = {
    "RecurrankStoreFailed": (store_failed, {}),
    "RecurrankCommitsSlow": (store_failed, {}),
    "RecurrankQueueLong": (queue_long, {}),
    "RecurrankLearnerFailed": (learner_failed, {}),
    "RecurrankLearnerBehind": (lambda running: stuck(running, 6000), {}),
    "RecurrankViewOld": (lambda running: stuck(running, later=100.0), {"clock": Time}),
    "RecurrankSnapshotOld": (lambda running: stuck(running, later=2000.0), {"clock": Time}),
    "RecurrankWindowsOverdue": (overdue, {"clock": Time}),
    "RecurrankReportsMissing": (nobody_reports, {"window": 0.2}),
    "RecurrankManyOpenSlates": (many_open, {}),
    "RecurrankRankerBroken": (broken, {}),
    "RecurrankBrake": (stopped, {}),
    "RecurrankRetentionBehind": (no_snapshots, {"policy": Policy(events=1000)}),
    "RecurrankRetentionFailed": (altered_snapshot, {"policy": Policy(events=1000)}),
}


@pytest.mark.parametrize("alert", FAULTS)
def test_a_fault_fires_its_alert_and_no_fault_does_not(alert, tmp_path):
    fault, settings = FAULTS[alert]
    settings = {**settings, "clock": settings["clock"]()} if "clock" in settings else settings
    running = Running(f"sqlite:///{tmp_path}/log.db", **settings)
    try:
        running.service.retention.measure()
        well = scrape(running.url)
        assert not fires(RULES[alert], {}, well), "it fires though all is well"
        with fault(running):
            until(lambda: fires(RULES[alert], well, scrape(running.url)))
    finally:
        running.stop()


def test_nobody_learns_while_another_session_has_the_lease(database):
    with psycopg.connect(database, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (LEARN,))
        running = Service(open_store(database), seed=0)
        server = InThread(make_app(running))
        assert fires(RULES["RecurrankNobodyLearns"], {}, scrape(server.url))
        other.execute("SELECT pg_advisory_unlock(%s)", (LEARN,))
        until(lambda: running.learner.learning)
        until(lambda: not fires(RULES["RecurrankNobodyLearns"], {}, scrape(server.url)))
    server.stop()
    running.close()


def test_no_server_answers(tmp_path):
    running = Running(f"sqlite:///{tmp_path}/log.db")
    assert not fires(RULES["RecurrankNoServer"], {}, scrape(running.url))
    running.stop()
    assert fires(RULES["RecurrankNoServer"], {}, scrape(running.url))


def test_a_disk_that_is_nearly_full(tmp_path):
    """On a small disk in memory, in a namespace of the server's own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    start = f"mount -t tmpfs -o size=4m tmpfs {disk} && head -c 3800000 /dev/zero > {disk}/fill && exec "
    serve = f"{sys.executable} -W ignore -m recurrank serve --port 0 --store sqlite:///{disk}/log.db"
    process = subprocess.Popen(["unshare", "-Urm", "sh", "-c", start + serve], stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+:\d+", process.stdout.readline())[0]
        until(lambda: "recurrank_disk_bytes" in scrape(url), 60)
        assert fires(RULES["RecurrankDiskFull"], {}, scrape(url))
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def test_every_alert_has_a_fault():
    assert set(RULES) == {*FAULTS, "RecurrankNoServer", "RecurrankNobodyLearns", "RecurrankDiskFull"}


def test_the_rules_and_the_dashboard_are_well_formed(tmp_path):
    """As far as the machine can tell: with Prometheus' own checker where it is installed; every metric has to exist."""
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "rules", OPS / "alerts.yml"], check=True)
    running = Running(f"sqlite:///{tmp_path}/log.db")
    running.service.retention.measure()
    known = set(scrape(running.url))
    running.stop()
    used = set(re.findall(r"recurrank_\w+", "\n".join(RULES.values()) + (OPS / "dashboard.json").read_text()))
    assert used <= known, used - known
