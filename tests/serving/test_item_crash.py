"""kill -9 while items come and go under load: what was removed stays away, and the log gives the same bytes."""

from __future__ import annotations

import pytest
from tests.serving.forked import crashed, forking

from recurrank.serving.audit import replay
from recurrank.serving.events import Kind, unpack_request
from recurrank.serving.fold import new_fold
from recurrank.serving.service import Service
from recurrank.serving.store import open_store
from recurrank.serving.verify import verify

SERVERS = """
import itertools, os, random, sys, tempfile, threading
import numpy as np
from recurrank.catalogue import Catalogue
from recurrank.serving.asked import Asked
from recurrank.serving.changes import Wanted
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.base import Report

SPEC = RankerSpec(algorithm="anchored", positions=3, rounds=2000, window_seconds=0.05)
ITEMS = Catalogue(np.random.default_rng(0).random((20, 3)), [f"i{n}" for n in range(20)])

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())  # at once: half a line is no acknowledgement

def started(address):
    service = Service(open_store(address), settings=Settings(refresh=0.02, snapshot_events=50, poll=0.01))
    service.create("shop", SPEC, ITEMS)
    for asked in (None, Asked(features=np.ones((2, 3)))):
        service.feedback([Report(service.rank("shop", asked=asked).slate, (0,), True)])
    service.step()
    return service

def serve(address, round_):
    service, gone = started(address), set()

    def change():
        moment = random.Random(round_)
        for number in itertools.count():
            items = list(service.stocked("shop").stock.index)
            remove = moment.sample(items, 2) if len(items) > 12 else []
            add = [f"n{round_}-{number}-{j}" for j in range(2)] if len(items) < 30 else []
            service.change_items("shop", Wanted(add, [[1.0, moment.random(), moment.random()] for _ in add], remove=remove))
            gone.update(remove)
            say("gone", *remove)

    def use(name):
        moment = random.Random(name)
        for number in itertools.count():
            before = set(gone)
            if number % 2:
                asked = None
            else:
                asked = Asked(moment.sample(sorted(service.stocked("shop").stock.index), 8), segment="phone", pin={})
            try:
                ranked = service.rank("shop", asked=asked)
            except ValueError as error:  # a candidate was removed since it was looked up
                if "is not an item" not in str(error):
                    raise
                continue
            say("bad" if before & set(ranked.items) else "r", ",".join(ranked.items))
            if number % 5:
                service.feedback([Report(ranked.slate, (number % 3,), True)])

    for name in range(3):
        threading.Thread(target=use, args=(name,), daemon=True).start()
    threading.Thread(target=change, daemon=True).start()
    say("ready", str(os.getpid()))
    threading.Event().wait()

with tempfile.TemporaryDirectory() as folder:
    started(f"sqlite:///{folder}/x.db").close()  # what is compiled is loaded once, for all of them
"""


@pytest.fixture(scope="module")
def servers():
    with forking(SERVERS) as process:
        yield process


def checked(address: str, gone: set[str]) -> None:
    """The log is sound, gives what was learned, and no slate after a removal shows what was removed."""
    service = Service(open_store(address), start=False)
    try:
        while service.lag():
            service.step()
        hosted = service.hosted("shop")
        assert not gone & set(service.stocked("shop").stock.index)
        events = service.store.events(0, 10**6, hosted.stored.number)
        fold = new_fold(hosted.spec, hosted.catalogue)
        here = set(fold.stocked.stock.index)
        for event in events:
            fold.apply([event])
            if event.kind == Kind.ITEMS:
                here = set(fold.stocked.stock.index)
            elif event.kind == Kind.SERVED:
                shown = unpack_request(event.payload)
                assert set(shown.names) <= here or shown.names == ["0", "1"] or shown.names == ["1", "0"]
        assert fold.save() == hosted.fold.save()
        assert replay(service.store, hosted.stored).faults == []
        assert verify(service.store).faults == []
    finally:
        service.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_while_items_come_and_go(kind, tmp_path, request, servers, soaking):
    address = f"sqlite:///{tmp_path}/x.db" if kind == "sqlite" else request.getfixturevalue("database")
    gone: set[str] = set()
    for round_ in range(20 if soaking else 5 if kind == "sqlite" else 2):
        before = set(gone)
        for what, *words in crashed(servers, address, round_, 30, 200):
            assert what in ("gone", "r"), words
            if what == "gone":
                gone.update(words)
            else:
                assert not before & set(words[0].split(","))
    assert len(gone) > 10
    checked(address, gone)
