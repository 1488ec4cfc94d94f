"""Real servers, as an operator runs them: start, stop, drain, two side by side on PostgreSQL, one of them killed."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import threading
import time
from collections import Counter

import httpx
import numpy as np
import pytest
from tests import prepared
from tests.serving.running import COMMAND, ITEMS, serving, until, use

import recurrank as rr
from recurrank.client import AsyncClient, Client, ServiceError, _Policy
from recurrank.serving.events import Kind, unpack_request
from recurrank.serving.fold import new_fold
from recurrank.serving.service import Service
from recurrank.serving.store import open_store


def test_start_use_drain_and_start_again(tmp_path):
    store = f"sqlite:///{tmp_path}/x.db"
    (tmp_path / "recurrank.toml").write_text(f'store = "{store}"\nmax-body = 1\n')
    with serving("--config", str(tmp_path / "recurrank.toml"), fresh=True) as (process, url), Client(url) as client:
        assert client.create("films", 2, ITEMS, rounds=1000)
        assert not client.create("films", 2, ITEMS, rounds=1000)
        slates = use(client, 20, np.random.default_rng(0))
        until(lambda: client.status("films")["learned"] == 20)
        with pytest.raises(ServiceError, match="413"):
            client.create("big", 2, [(f"i{n}", [1.0] * 1000) for n in range(1000)])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    with serving(RECURRANK_STORE=store) as (process, url), Client(url) as client:
        assert client.status("films")["learned"] == 20
        assert client.feedback(slates[0], [0]) == "duplicate"
        assert client.rank("films", slates[0]).slate == slates[0]
        assert [line["name"] for line in client.rankers()] == ["films"]
        client.delete("films")
        with pytest.raises(ServiceError, match="404"):
            client.rank("films")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


def test_the_client_for_event_loops(tmp_path):
    async def all_of_it(url: str) -> dict:
        async with AsyncClient(url) as client:
            assert await client.create("films", 2, ITEMS, rounds=1000)
            slates = await asyncio.gather(*(client.rank("films") for _ in range(20)))
            assert set(await asyncio.gather(*(client.feedback(slate, [0]) for slate in slates))) == {"learned"}
            assert len(await client.rankers()) == 1
            status = await client.status("films")
            await client.delete("films")
            return status

    with serving("--store", f"sqlite:///{tmp_path}/x.db") as (_, url):
        assert asyncio.run(all_of_it(url))["name"] == "films"


def test_the_client_tries_again_and_gives_up(tmp_path):
    began = time.monotonic()
    with Client("http://127.0.0.1:9", tries=2) as client, pytest.raises(Exception, match="refused"):
        client.rank("films")
    assert time.monotonic() - began < 5
    with pytest.raises(ValueError, match=r"^tries: "):
        Client("http://127.0.0.1:9", tries=0)
    policy = _Policy(tries=5)

    def pause(status: int, retry_after: str = "", attempt: int = 0) -> float | None:
        return policy.pause(attempt, httpx.Response(status, headers={"retry-after": retry_after}))

    assert pause(503, "2") == 2  # what the service asks for
    assert pause(429, "3600") == 5  # within a bound
    assert 0.05 <= pause(503) <= 0.1
    assert 0.4 <= pause(502, "soon", attempt=3) <= 0.8
    assert pause(503, "1", attempt=4) is pause(404) is pause(200) is None


def test_the_demo_learns_by_itself():
    with serving("--demo") as (process, url), Client(url) as client:
        until(lambda: client.status("demo")["learned"] > 50, seconds=60)
        until(lambda: len(client.rankers()) == 3, seconds=60)  # the others come when they are compiled
        until(lambda: client.status("demo-shop")["learned"] > 50, seconds=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--host", "0.0.0.0"], "host: .* no keys"),
        (["--store", "mysql://x"], "store: "),
        (["--config", "no-such-file.toml"], "no such file"),
        (["--config", "pyproject.toml"], "is not an option"),
        (["--rate", "0"], "rate: "),
        (["--rate", "nan"], "rate: "),
        (["--port", "99999"], "port"),
    ],
)
def test_a_server_that_cannot_start_says_so_in_a_line(arguments, says, tmp_path):
    done = prepared.run([*COMMAND, "--store", f"sqlite:///{tmp_path}/x.db", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search(says, done.stderr)
    assert done.stderr.count("\n") == 1
    if says.startswith(("host", "store")):  # the options are sound: it is the server's log that says so
        assert json.loads(done.stderr)["level"] == "critical"


def test_a_port_in_use(tmp_path):
    with serving("--store", f"sqlite:///{tmp_path}/x.db") as (_, url):
        port = url.rpartition(":")[2]
        command = [*COMMAND[:-1], port, "--store", f"sqlite:///{tmp_path}/y.db"]
        done = prepared.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "give another port" in json.loads(done.stderr)["why"]


def test_keys_by_command_are_what_a_server_asks_for(tmp_path):
    store = f"sqlite:///{tmp_path}/x.db"
    keys = [sys.executable, "-m", "recurrank", "keys"]
    made = prepared.run(
        [*keys, "create", "shop", "--role", "admin", "--store", store, "--json"], capture_output=True, check=True
    )
    secret = json.loads(made.stdout)["secret"]
    with serving("--store", store) as (_, url):
        with Client(url, tries=1) as client, pytest.raises(ServiceError, match="401"):
            client.rankers()
        with Client(url, secret) as client:
            assert client.rankers() == []
        listed = prepared.run([*keys, "list", "--store", store], capture_output=True, check=True, text=True).stdout
        assert "shop" in listed
        assert secret not in listed
        prepared.run([*keys, "revoke", "shop", "--store", store], capture_output=True, check=True)


def test_two_servers_on_postgresql_and_one_is_killed(database):
    """Both rank and take feedback all the time; the learner dies; the other learns within seconds, nothing twice."""
    rng = np.random.default_rng(0)
    with (
        serving("--store", database) as (first, one),
        serving("--store", database) as (_, two),
        Client(one) as a,
        Client(two) as b,
    ):
        assert a.create("films", 2, ITEMS, rounds=1000)
        until(lambda: any(line["name"] == "films" for line in b.rankers()))
        slates = use(a, 15, rng) + use(b, 15, rng)
        crossed = a.rank("films")  # ranked here, reported there
        assert b.feedback(crossed, [0]) == "learned"
        assert a.feedback(crossed, [0]) == "duplicate"
        until(lambda: a.status("films")["learned"] == 31)
        until(lambda: b.status("films")["learned"] == 31)
        first.send_signal(signal.SIGKILL)
        first.wait(timeout=10)
        began = time.monotonic()
        slates += use(b, 20, rng)
        until(lambda: b.status("films")["learned"] == 51, seconds=10)
        assert time.monotonic() - began < 10
        assert {b.feedback(slate, [0]) for slate in slates} == {"duplicate"}
    service = Service(open_store(database), start=False)
    try:
        hosted = service.hosted("films")
        fold = new_fold(hosted.spec, hosted.catalogue)
        events = service.store.events(0, 10**6, hosted.stored.number)
        fold.apply(events)
        assert fold.save() == hosted.fold.save()
        assert fold.counts["learned"] == 51
        assert max(Counter(event.served for event in events if event.kind == Kind.LEARNED).values()) == 1
    finally:
        service.close()


def test_a_removed_item_is_shown_by_no_server_once_that_was_acknowledged(database):
    """Two processes on PostgreSQL, both asked all the time; the one that changes the items is killed in between."""
    gone: set[str] = set()  # acknowledged
    wrong: list[list[str]] = []
    asked, stopping = Counter(), threading.Event()

    def ask(url: str) -> None:
        with Client(url, timeout=30) as client:
            while not stopping.is_set():
                before = set(gone)
                try:
                    shown = client.rank("shop").items
                except (ServiceError, httpx.HTTPError):  # it was killed
                    continue
                asked[url] += 1
                if before & set(shown):
                    wrong.append(shown)
                time.sleep(0.005)

    with serving("--store", database) as (_, lasting), Client(lasting) as there:
        items = [(f"i{n}", [1.0, n / 40]) for n in range(40)]
        assert there.create("shop", 3, items, algorithm="anchored", rounds=1000)
        left = [name for name, _ in items]
        for turn in range(2):
            with serving("--store", database) as (process, url), Client(url) as here:
                until(lambda here=here: any(line["name"] == "shop" for line in here.rankers()))
                askers = [threading.Thread(target=ask, args=(one,)) for one in (url, lasting, lasting)]
                for thread in askers:
                    thread.start()
                for number in range(5):
                    leaving, left = left[:3], [*left[3:], f"n{turn}-{number}"]
                    done = here.change_items("shop", add=[(left[-1], [1.0, 0.5])], remove=leaving)
                    assert (done["added"], done["removed"]) == (1, 3)
                    gone.update(leaving)
                    count = asked.copy()
                    until(lambda count=count: all(asked[one] > count[one] + 2 for one in (url, lasting)), seconds=60)
                process.send_signal(signal.SIGKILL)
                process.wait(timeout=10)
                stopping.set()
                for thread in askers:
                    thread.join(timeout=60)
                stopping.clear()
        assert wrong == []
        assert {item["id"] for item in there.items("shop")["items"]} == set(left)
    service = Service(open_store(database), start=False)
    try:
        hosted = service.hosted("shop")
        fold = new_fold(hosted.spec, hosted.catalogue)
        for event in service.store.events(0, 10**6, hosted.stored.number):
            fold.apply([event])
            if event.kind == Kind.SERVED:
                assert set(unpack_request(event.payload).names) <= set(fold.stocked.stock.index)
        assert fold.save() == hosted.fold.save()
    finally:
        service.close()


def test_public_names():
    assert rr.Client is Client
    assert rr.AsyncClient is AsyncClient
