"""kill -9 in the middle of load: whatever was acknowledged is there, exactly once, and the log gives the same bytes."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.serving.forked import crashed, forking

from recurrank.serving.events import Kind, unpack_items
from recurrank.serving.fold import new_fold
from recurrank.serving.service import Service
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report

ROUNDS = 30
SERVERS = """
import os, sys, tempfile, threading
from recurrank import synthetic
from recurrank.catalogue import Catalogue
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report

SPEC = RankerSpec(algorithm="recurrank", positions=3, rounds=2000, window_seconds=0.05)
ITEMS = Catalogue(synthetic(items=20, dim=3, seed=0).features)

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())  # at once: half a line is no acknowledgement

def started(address, first):
    service = Service(open_store(address), settings=Settings(refresh=0.02, snapshot_events=50, poll=0.01))
    service.create("films", SPEC, ITEMS)
    service.rank("films", first)
    service.feedback([Report(first, (0,), True)])
    service.step()
    return service

def serve(address, round_):
    service = started(address, f"{round_}-first")

    def use(name):
        number = 0
        while True:
            slate = f"{round_}-{name}-{number}"
            say("r", slate, ",".join(service.rank("films", slate).items))
            if number % 5:  # every fifth is never answered
                say("f", slate, service.feedback([Report(slate, (number % 3,), True)])[0])
            number += 1

    for name in range(4):
        threading.Thread(target=use, args=(name,), daemon=True).start()
    say("ready", str(os.getpid()))
    threading.Event().wait()

with tempfile.TemporaryDirectory() as folder:
    started(f"sqlite:///{folder}/x.db", "loaded").close()  # what is compiled is loaded once, for all of them
"""
"""A process that makes servers: each line of its input, a store and a number, is a server of its own, until that is killed."""


@pytest.fixture(scope="module")
def servers():
    with forking(SERVERS) as process:
        yield process


def checked(address: str, acknowledged: list[list[str]]) -> None:
    service = Service(open_store(address), start=False)
    try:
        hosted = service.hosted("films")
        while service.lag():  # the first step closed the windows that were over
            service.step()
        events = service.store.events(0, 10**6, hosted.stored.number)
        assert len({event.seq for event in events}) == len(events)
        fold = new_fold(hosted.spec, hosted.catalogue)
        fold.apply(events)
        assert fold.save() == hosted.fold.save()
        ends = Counter(event.served for event in events if event.kind in (Kind.LEARNED, Kind.DROPPED))
        assert max(ends.values(), default=0) <= 1  # nothing is learned twice
        served = [event for event in events if event.kind == Kind.SERVED]
        ranked = [part for part in acknowledged if part[0] == "r"]
        assert len(ranked) <= len(served)
        with ThreadPoolExecutor(16) as visitors:  # at once, so that they share transactions
            again = visitors.map(lambda part: service.rank("films", part[1]).items, ranked)
            assert list(again) == [items.split(",") for _, _, items in ranked]
        service.step()
        assert hosted.fold.counts["served"] == len(served)  # asking again served nothing new
        learned = [slate for kind, slate, status in acknowledged if kind == "f" and status == "learned"]
        statuses = service.feedback([Report(slate, (0,), True) for slate in learned]) if learned else []
        assert set(statuses) <= {"duplicate"}
        shown = {unpack_items(event.payload, 3) for event in served}
        assert all(len(set(items)) == 3 for items in shown)
    finally:
        service.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_again_and_again(kind, tmp_path, request, servers):
    address = f"sqlite:///{tmp_path}/x.db" if kind == "sqlite" else request.getfixturevalue("database")
    acknowledged = []
    for round_ in range(ROUNDS if kind == "sqlite" else 5):
        acknowledged += crashed(servers, address, round_, 2, 100)
        if round_ % 5 == 4:
            checked(address, acknowledged)
    assert len(acknowledged) > 100
