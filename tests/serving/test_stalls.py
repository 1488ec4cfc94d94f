"""Stores that do not answer: a stopped PostgreSQL, a lock on the SQLite file. Requests get a 503 soon, all else goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections import Counter

import httpx
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.serving.running import ITEMS, serving, until
from tests.serving.test_disturbed import own_postgres, sound  # noqa: F401  (a fixture)

from recurrank.client import Client
from recurrank.slate import new_id

PAUSE = 0.02
"""Seconds between two slates of a thread, where a store stands still most of the time: requests wait for it all the same."""


class Users:
    """Threads that rank and report, note what was acknowledged, and how long every answer took; by default without a pause."""

    def __init__(self, urls: list[str], each: int = 4, pause: float = 0.0) -> None:
        self._pause = pause
        self.learned: set[str] = set()
        self.ranked: set[str] = set()
        self.answers: list[tuple[float, float, int]] = []  # when it was asked, how long it took, the status
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(url,)) for url in urls for _ in range(each)]
        for thread in self._threads:
            thread.start()

    def _run(self, url: str) -> None:
        with httpx.Client(base_url=url, timeout=20) as http:
            while not self._over.is_set():
                slate = new_id()
                if self._ask(http, "/v1/rankers/films/rank", {"slate": slate}) is None:
                    continue
                self.ranked.add(slate)
                for _ in range(200):  # also when it is over: what was written but not heard of is asked for again
                    try:
                        said = self._ask(http, "/v1/feedback", [{"slate": slate, "clicks": [0]}])
                    except httpx.TransportError:
                        if self._over.is_set():  # and the server has ended
                            return
                        raise
                    if said is not None:
                        assert said[0]["status"] in ("learned", "duplicate")  # the answer of the first try may be lost
                        self.learned.add(slate)
                        break
                if self._pause:
                    time.sleep(self._pause)

    def _ask(self, http: httpx.Client, path: str, body):
        began = time.monotonic()
        answer = http.post(path, json=body)
        self.answers.append((began, time.monotonic() - began, answer.status_code))
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 503:
            time.sleep(0.1)
            return None
        return answer.json()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)


def paused(server, number: int) -> None:
    """A signal to PostgreSQL and all its children."""
    pid = server.get_pid()
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    for one in [pid, *map(int, children)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, number)


def slowest(url: str, seconds: float, *paths: str) -> dict[str, float]:
    """The longest time that each address took to answer, asked again and again for a while."""
    took = dict.fromkeys(paths, 0.0)
    until = time.monotonic() + seconds
    with httpx.Client(base_url=url, timeout=20) as http:
        while time.monotonic() < until:
            for path in paths:
                began = time.monotonic()
                http.get(path)
                took[path] = max(took[path], time.monotonic() - began)
            time.sleep(0.02)
    return took


@pytest.mark.long
def test_postgresql_is_stopped_and_goes_on(own_postgres, soaking):  # noqa: F811
    """Twice, under load, seen from the learner and from a follower; nothing that was acknowledged is lost or doubled."""
    address, seconds = own_postgres.get_uri(), 60 if soaking else 5
    with serving("--store", address) as (one, first), serving("--store", address) as (two, second):
        with Client(first) as a, Client(second) as b:
            a.create("films", 2, ITEMS, rounds=100_000)
            until(lambda: any(line["name"] == "films" for line in b.rankers()))
        users = Users([first, second], pause=0 if soaking else PAUSE)
        try:
            for _ in range(2):
                time.sleep(1)
                paused(own_postgres, signal.SIGSTOP)
                began = time.monotonic()
                time.sleep(0.5)
                took = slowest(first, seconds / 2, "/healthz", "/readyz", "/metrics")
                took |= {f"follower {path}": t for path, t in slowest(second, seconds / 2, "/healthz", "/readyz").items()}
                with httpx.Client() as http:
                    assert {http.get(f"{url}/readyz").status_code for url in (first, second)} == {503}
                paused(own_postgres, signal.SIGCONT)
                ended = time.monotonic()
                time.sleep(3)
                waited = [t for at, t, status in users.answers if began < at + t < ended]
                back = min(at + t for at, t, status in users.answers if status == 200 and at + t > ended) - ended
                print(f"answers within {max(waited):.2f} s, on again after {back:.2f} s, {took}")
                assert max(took.values()) < 1.0  # 0.2 s on a quiet machine
                assert max(waited) < 8.0  # 3 s on a quiet machine
                assert back < 3.0
                assert {status for at, t, status in users.answers if began + 3 < at + t < ended} == {503}
                for url in (first, second):
                    until(lambda url=url: httpx.get(f"{url}/readyz").status_code == 200, seconds=10)
        finally:
            users.stop()
        paused(own_postgres, signal.SIGSTOP)  # and both can be ended while it is away
        for process in (one, two):
            process.send_signal(signal.SIGTERM)
        for process in (one, two):
            process.wait(timeout=12)
        paused(own_postgres, signal.SIGCONT)
    counts = sound(address)
    assert counts["learned"] == counts["clicks"] == len(users.learned)
    assert counts["served"] >= len(users.ranked)
    assert len(users.learned) > 50


class Network:
    """A proxy on loopback in front of PostgreSQL's socket, that can swallow everything without closing anything."""

    def __init__(self, socket_path: str) -> None:
        self._path, self._open, self._ended = socket_path, threading.Event(), threading.Event()
        self._open.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self) -> None:
        self._open.clear()

    def restore(self) -> None:
        self._open.set()

    def end(self) -> None:
        self._open.set()
        self._ended.set()
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed at the end
            while True:
                near, _ = self._listening.accept()
                self._open.wait()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._path)
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._open.wait()
                sink.sendall(data)
        self._open.wait()  # an end is swallowed, too
        with source, contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@pytest.mark.long
def test_a_network_that_swallows_everything(database, soaking):
    """Neither an answer nor an end of the connection comes: requests get a 503 in time, and it goes on by itself."""
    where = conninfo_to_dict(database)
    network = Network(f"{where['host']}/.s.PGSQL.{where.get('port', 5432)}")
    address = f"postgresql://{where['user']}@127.0.0.1:{network.port}/{where['dbname']}"
    try:
        with serving("--store", address) as (process, url):
            with Client(url) as client:
                client.create("films", 2, ITEMS, rounds=100_000)
            users = Users([url], pause=0 if soaking else PAUSE)
            try:
                time.sleep(0.5)
                network.swallow()
                began = time.monotonic()
                took = slowest(url, 4.5, "/healthz", "/readyz", "/metrics")
                refused = httpx.get(f"{url}/readyz").status_code
                network.restore()
                ended = time.monotonic()
                until(lambda: any(status == 200 and at > ended for at, _, status in users.answers), seconds=10)
                until(lambda: httpx.get(f"{url}/readyz").status_code == 200, seconds=10)
            finally:
                users.stop()
            during = [(t, status) for at, t, status in users.answers if began + 0.5 < at + t < ended]
            back = min(at + t for at, t, status in users.answers if status == 200 and at > ended) - ended
            print(f"answers within {max(t for t, _ in during):.2f} s, on again after {back:.2f} s, {took}")
            assert refused == 503
            assert max(took.values()) < 1.0  # 0.2 s on a quiet machine
            assert max(t for t, _ in during) < 8.0  # 3 s on a quiet machine
            assert {status for _, status in during} == {503}
            network.swallow()
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=12)
    finally:
        network.end()
    counts = sound(database)
    assert counts["learned"] == counts["clicks"] == len(users.learned)


def test_a_lock_on_the_sqlite_file_does_not_stop_the_server(tmp_path, soaking):
    """Another process writes for some seconds: requests get a 503 in time, the rest is answered at once."""
    path = tmp_path / "x.db"
    with serving("--store", f"sqlite:///{path}") as (process, url):
        with Client(url) as client:
            client.create("films", 2, ITEMS, rounds=100_000)
        users = Users([url], pause=0 if soaking else PAUSE)
        try:
            time.sleep(0.5)
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                began = time.monotonic()
                took = slowest(url, 4, "/healthz", "/readyz", "/metrics")
                locked = httpx.get(f"{url}/readyz").status_code
                other.execute("ROLLBACK")
            ended = time.monotonic()
            time.sleep(1)
        finally:
            users.stop()
        during = [(t, status) for at, t, status in users.answers if began < at + t < ended]
        print(f"answers within {max(t for t, _ in during):.2f} s, {took}")
        assert locked == 503
        assert max(took.values()) < 1.0
        assert max(t for t, _ in during) < 4.0
        assert Counter(status for _, status in during)[503] > 0
        assert [status for at, _, status in users.answers if at > ended + 0.5][-1] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=12) == 0
    assert sound(f"sqlite:///{path}")["learned"] == len(users.learned)


def test_sigterm_ends_a_server_whose_python_takes_long_to_end(tmp_path):
    """As on a machine that is busy with other work; exit handlers run all the same."""
    (tmp_path / "slow.py").write_text(
        "import atexit, time\n\n\nclass Slow:\n    def __del__(self, sleep=time.sleep):\n        sleep(60)\n\n\n"
        f"slow = Slow()\natexit.register(lambda: open({str(tmp_path / 'done')!r}, 'w'))\n"
    )
    with serving("--store", f"sqlite:///{tmp_path}/x.db", "--plugin", str(tmp_path / "slow.py")) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=12) == 0
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize("algorithm", ["recurrank", "balanced"])
def test_sigterm_ends_a_server_that_is_far_behind(tmp_path, algorithm):
    """Thousands of events are not folded yet: they are left to the next start, which has them all."""
    address = f"sqlite:///{tmp_path}/x.db"
    items = [(f"i{n}", [1.0, (n * 37 % 101) / 101, (n * 53 % 97) / 97]) for n in range(500)]
    with serving("--store", address) as (process, url):
        with Client(url, timeout=120) as client:  # it may have to compile
            client.create("films", 10, items, rounds=1_000_000, algorithm=algorithm)
        users = Users([url])
        time.sleep(4)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        with contextlib.suppress(httpx.HTTPError):
            users.stop()
        assert process.wait(timeout=12) == 0
        print(f"ended after {time.monotonic() - began:.2f} s")
    assert sound(address)["learned"] >= len(users.learned)
