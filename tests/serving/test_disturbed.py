"""Real servers and what happens around them: full disks, stopped processes, dying databases, clients who repeat themselves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter

import httpx
import numpy as np
import pytest
from tests import prepared
from tests.serving.conftest import new_postgres
from tests.serving.running import ITEMS, serving, until, use

from recurrank.client import AsyncClient, Client, ServiceError
from recurrank.serving.fold import new_fold
from recurrank.serving.service import Service
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report


def sound(address: str, name: str = "films") -> dict[str, int]:
    """Check a store that nobody uses: the log is whole and gives the state. What was counted."""
    log = [sys.executable, "-W", "ignore", "-m", "recurrank", "log"]
    for command in ("verify", "replay"):
        done = prepared.run([*log, command, "--store", address], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    service = Service(open_store(address), start=False)
    try:
        return service.hosted(name).fold.counts
    finally:
        service.close()


def test_a_full_disk_is_told_and_gets_over_it(tmp_path):
    """The system refuses every write of the server for a while (a limit on file sizes): 503, then all is well again."""
    address = f"sqlite:///{tmp_path}/x.db"
    with serving("--store", address) as (process, url), Client(url, tries=1) as client:
        client.create("films", 2, ITEMS, rounds=1000)
        slates = use(client, 10, np.random.default_rng(0))
        waiting = client.rank("films").slate
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, hard))
        for _ in range(5):
            for call in (
                lambda: client.rank("films", "refused"),
                lambda: client.feedback(waiting, [0]),
                lambda: client.create("more", 2, ITEMS),
            ):
                with pytest.raises(ServiceError, match="503: store") as caught:
                    call()
                assert str(tmp_path) not in str(caught.value)
        assert client.status("films")["name"] == "films"  # reading goes on
        until(lambda: httpx.get(f"{url}/readyz").status_code == 503)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: httpx.get(f"{url}/readyz").status_code == 200)  # without a request that writes
        assert client.feedback(waiting, [0]) == "learned"
        assert {client.feedback(slate, [0]) for slate in slates} == {"duplicate"}
        assert client.feedback("refused", [0]) == "unknown"
        assert use(client, 10, np.random.default_rng(1))
        until(lambda: client.status("films")["learned"] == 21)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    assert sound(address)["learned"] == 21


def test_sigterm_on_a_full_disk(tmp_path):
    """What could not be written is told in a line; the process ends as usual."""
    address = f"sqlite:///{tmp_path}/x.db"
    with serving("--store", address) as (process, url), Client(url, tries=1) as client:
        client.create("films", 2, ITEMS, rounds=1000)
        use(client, 10, np.random.default_rng(0))
        until(lambda: client.status("films")["learned"] == 10)
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, hard))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=12) == 0
        said = process.stderr.read()
    assert "Traceback" not in said
    assert "snapshots were not kept" in said
    assert sound(address)["learned"] == 10


@pytest.mark.long
def test_a_server_that_is_stopped_for_a_while(tmp_path, soaking):
    """SIGSTOP for far longer than the window, with requests on their way; then all are answered and none is late."""
    address, seconds = f"sqlite:///{tmp_path}/x.db", 30 if soaking else 5

    async def all_of_it(process: subprocess.Popen, url: str) -> None:
        async with AsyncClient(url, timeout=60, tries=1) as client:
            await client.create("films", 2, ITEMS, rounds=1000, window_seconds=2.0)
            slates = [await client.rank("films") for _ in range(20)]
            process.send_signal(signal.SIGSTOP)
            calls = [asyncio.create_task(client.feedback(slate, [0])) for slate in slates]
            calls += [asyncio.create_task(client.rank("films", f"during {n}".replace(" ", "-"))) for n in range(20)]
            await asyncio.sleep(seconds)
            process.send_signal(signal.SIGCONT)
            answers = await asyncio.gather(*calls)
            assert answers[:20] == ["learned"] * 20
            assert [answer.slate for answer in answers[20:]] == [f"during-{n}" for n in range(20)]
            assert [await client.feedback(slate, [0]) for slate in slates] == ["duplicate"] * 20

    with serving("--store", address) as (process, url):
        asyncio.run(all_of_it(process, url))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    counts = sound(address)
    assert (counts["served"], counts["learned"]) == (40, 20)


@pytest.fixture
def own_postgres(postgres):
    """A server that this test may kill."""
    with new_postgres() as server:
        yield server
        server.ensure_postgres_running()


def killed(server) -> None:
    """Kill -9; its lock files go, since it may stay a zombie here, which counts as alive."""
    folders = {server.pgdata, server.get_postmaster_info().socket_dir}
    os.kill(server.get_pid(), signal.SIGKILL)
    for folder in folders:
        for lock in [*folder.glob("postmaster.pid"), *folder.glob(".s.PGSQL.*.lock")]:
            lock.unlink()


def works(client: Client, slate: str) -> bool:
    with contextlib.suppress(ServiceError):
        return client.feedback(slate, [0]) == "duplicate"
    return False


@pytest.mark.long
def test_postgresql_is_killed_and_comes_back(own_postgres):
    """Twice, under two servers: 503 while it is away, afterwards everything is there once."""
    address = own_postgres.get_uri()
    rng, slates = np.random.default_rng(0), []
    with (
        serving("--store", address) as (_, one),
        serving("--store", address) as (_, two),
        Client(one, tries=1) as a,
        Client(two, tries=1) as b,
    ):
        a.create("films", 2, ITEMS, rounds=1000)
        until(lambda: any(line["name"] == "films" for line in b.rankers()))
        for _ in range(2):
            slates += use(a, 10, rng) + use(b, 10, rng)
            killed(own_postgres)
            time.sleep(0.5)
            for client in (a, b):
                with pytest.raises(ServiceError, match="503: store"):
                    client.rank("films")
                with pytest.raises(ServiceError, match="503: store"):
                    client.feedback(slates[0], [0])
            own_postgres.ensure_postgres_running()

            until(lambda slate=slates[0]: works(a, slate) and works(b, slate), seconds=30)
        slates += use(a, 5, rng) + use(b, 5, rng)
        until(lambda: a.status("films")["learned"] == b.status("films")["learned"] == 50)
        assert {b.feedback(slate, [0]) for slate in slates} == {"duplicate"}
    assert sound(address)["learned"] == 50


def learned_of(fold) -> tuple:
    """All of a fold but how clicks went over time."""
    return fold.seq, fold.ranker.save(), fold.counts, fold.shown.tolist(), fold.clicked.tolist(), fold.at.tolist()


def test_each_report_many_times_from_64_clients_is_the_sequential_run(tmp_path):
    """Every report one to five times, shuffled, over 64 connections: it learns the same, to the byte, as one by one."""
    busy, calm = tmp_path / "busy.db", tmp_path / "calm.db"
    rng, number, positions = np.random.default_rng(0), 400, 3
    clicks = {f"s{i}": [int(k) for k in np.flatnonzero(rng.random(positions) < 0.4)] for i in range(number)}
    reports = [slate for slate in clicks for _ in range(int(rng.integers(1, 6)))]
    rng.shuffle(reports)
    items = [(f"i{n}", [1.0, n / 30, n % 3]) for n in range(30)]

    async def report(url: str) -> list[str]:
        queue = list(reports)
        outcomes: list[str] = []

        async def one_client() -> None:
            async with AsyncClient(url, timeout=60) as client:
                while queue:
                    slate = queue.pop()
                    outcomes.append(await client.feedback(slate, clicks[slate]))

        await asyncio.gather(*(one_client() for _ in range(64)))
        return outcomes

    with serving("--store", f"sqlite:///{busy}") as (process, url), Client(url) as client:
        client.create(
            "films", positions, items, algorithm="recurrank", options={"delta": 1e-60}
        )  # a first phase longer than this
        for slate in clicks:
            client.rank("films", slate)
        with contextlib.closing(sqlite3.connect(busy)) as now, contextlib.closing(sqlite3.connect(calm)) as copy:
            now.backup(copy)
        outcomes = asyncio.run(report(url))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    assert Counter(outcomes) == {"learned": number, "duplicate": len(reports) - number}
    sequential = Service(open_store(f"sqlite:///{calm}"), start=False)
    for slate in clicks:
        assert sequential.feedback([Report(slate, tuple(clicks[slate]), True)]) == ["learned"]
    sequential.step()
    repeated = Service(open_store(f"sqlite:///{busy}"), start=False)
    one, other = sequential.hosted("films").fold, repeated.hosted("films").fold
    assert len(one.ranker.history) == 0
    assert learned_of(one) == learned_of(other)
    assert one.tally.bins.sum() == other.tally.bins.sum()  # in which order they came is all that the two may differ in
    fold = new_fold(repeated.hosted("films").spec, repeated.hosted("films").catalogue)
    fold.apply(repeated.store.events(0, 10**6))
    assert fold.save() == other.save()
    sequential.close()
    repeated.close()
