"""kill -9 while items come and go under load: what was removed stays away, and the log gives the same bytes."""

from __future__ import annotations

from collections import defaultdict

import pytest
from tests.serving.forked import crashed, forking

from recurrank.serving.audit import replay
from recurrank.serving.events import Kind
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
from recurrank.serving.store.records import Report

SPECS = {
    name: RankerSpec(algorithm=algorithm, positions=3, rounds=2000, window_seconds=0.05)
    for name, algorithm in (("shop", "anchored"), ("films", "balanced"), ("books", "recurrank"))
}
ITEMS = Catalogue(np.random.default_rng(0).random((20, 3)), [f"i{n}" for n in range(20)])

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())  # at once: half a line is no acknowledgement

def started(address):
    service = Service(open_store(address), settings=Settings(refresh=0.02, snapshot_events=50, poll=0.01))
    for name, spec in SPECS.items():
        service.create(name, spec, ITEMS)
        service.feedback([Report(service.rank(name).slate, (0,), True)])
    service.feedback([Report(service.rank("shop", asked=Asked(features=np.ones((2, 3)))).slate, (0,), True)])
    service.step()
    return service

def serve(address, round_):
    service, gone = started(address), {name: set() for name in SPECS}

    def change():
        moment = random.Random(round_)
        for number, name in enumerate(itertools.cycle(SPECS)):
            items = list(service.stocked(name).stock.index)
            remove = moment.sample(items, 2) if len(items) > 12 else []
            add = [f"n{round_}-{number}-{j}" for j in range(2)] if len(items) < 30 else []
            service.change_items(name, Wanted(add, [[1.0, moment.random(), moment.random()] for _ in add], remove=remove))
            gone[name].update(remove)
            say("gone", name, *remove)

    def use(name):
        moment = random.Random(name)
        for number in itertools.count():
            before = set(gone[name])
            if number % 2 or name != "shop":
                asked = None
            else:
                asked = Asked(moment.sample(sorted(service.stocked("shop").stock.index), 8), segment="phone", pin={})
            try:
                ranked = service.rank(name, asked=asked)
            except ValueError as error:  # a candidate was removed since it was looked up
                if "is not an item" not in str(error):
                    raise
                continue
            say("bad" if before & set(ranked.items) else "r", name, ranked.slate, ",".join(ranked.items))
            if number % 5:
                service.feedback([Report(ranked.slate, (number % 3,), True)])

    for name in SPECS:
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


def checked(address: str, name: str, gone: set[str], shown: dict[str, list[str]]) -> None:
    """The log is sound, gives what was learned, and no slate after a removal shows what was removed."""
    service = Service(open_store(address), start=False)
    try:
        while service.lag():
            service.step()
        hosted = service.hosted(name)
        assert not gone & set(service.stocked(name).stock.index)
        assert {slate: service.rank(name, slate).items for slate in shown} == shown
        events = service.store.events(0, 10**6, hosted.stored.number)
        fold = new_fold(hosted.spec, hosted.catalogue)
        stocked = fold.stocked
        here = set(stocked.stock.index)
        for event in events:
            if event.kind == Kind.ITEMS:
                stocked = stocked.after([event])
                here = set(stocked.stock.index)
            elif event.kind == Kind.SERVED:
                names = hosted.names(event.payload)
                assert set(names) <= here or names == ["0", "1"] or names == ["1", "0"]
        fold.apply(events)
        assert fold.save() == hosted.fold.save()
        assert replay(service.store, hosted.stored).faults == []
        assert verify(service.store).faults == []
    finally:
        service.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_while_items_come_and_go(kind, tmp_path, request, servers, soaking):
    address = f"sqlite:///{tmp_path}/x.db" if kind == "sqlite" else request.getfixturevalue("database")
    gone: dict[str, set[str]] = defaultdict(set)
    shown: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for round_ in range(20 if soaking else 5 if kind == "sqlite" else 2):
        before = {name: set(items) for name, items in gone.items()}
        for what, *words in crashed(servers, address, round_, 30, 200):
            assert what in ("gone", "r"), words
            if what == "gone":
                gone[words[0]].update(words[1:])
            else:
                name, slate, items = words
                shown[name][slate] = items.split(",")
                assert not before.get(name, set()) & set(shown[name][slate])
    assert sum(map(len, gone.values())) > 10
    for name, slates in shown.items():
        checked(address, name, gone[name], slates)
