"""kill -9 in the middle of load: whatever was acknowledged is there, exactly once, and the log gives the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from recurrank.serving.events import Kind, unpack_items
from recurrank.serving.fold import new_fold
from recurrank.serving.service import Service
from recurrank.serving.store import open_store
from recurrank.serving.store.base import Report

ROUNDS = 30
CHILD = """
import os, sys, threading
from recurrank import synthetic
from recurrank.catalogue import Catalogue
from recurrank.serving.spec import RankerSpec
from recurrank.serving.service import Service, Settings
from recurrank.serving.store import open_store
from recurrank.serving.store.base import Report

address, round_ = sys.argv[1:]
service = Service(open_store(address), settings=Settings(refresh=0.02, snapshot_events=50, poll=0.01))
config = RankerSpec(algorithm="recurrank", positions=3, rounds=2000, seed=0, window_seconds=0.05, unreported="drop", options={})
service.create("films", config, Catalogue(synthetic(items=20, dim=3, seed=0).features))
service.rank("films", f"{round_}-first")  # what is compiled is loaded before it counts
service.feedback([Report(f"{round_}-first", (0,), True)])
service.step()

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())  # at once: half a line is no acknowledgement

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
say("ready")
threading.Event().wait()
"""


def crashed(address: str, round_: int) -> list[list[str]]:
    """What a server acknowledged until it was killed at a random moment."""
    command = [sys.executable, "-c", CHILD, address, str(round_)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line, process.stderr.read()
    time.sleep(random.Random(round_).uniform(0.02, 0.25))
    os.kill(process.pid, signal.SIGKILL)
    rest, _ = process.communicate(timeout=60)
    words = [part.split() for part in (line + rest).splitlines(keepends=True) if part.endswith("\n")]
    return [part for part in words if part[0] != "ready"]


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
        for _, slate, items in ranked:
            assert service.rank("films", slate).items == items.split(",")
        service.step()
        assert hosted.fold.counts["served"] == len(served)  # asking again served nothing new
        learned = [slate for kind, slate, status in acknowledged if kind == "f" and status == "learned"]
        again = service.feedback([Report(slate, (0,), True) for slate in learned]) if learned else []
        assert set(again) <= {"duplicate"}
        shown = {unpack_items(event.payload, 3) for event in served}
        assert all(len(set(items)) == 3 for items in shown)
    finally:
        service.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_again_and_again(kind, tmp_path, request):
    address = f"sqlite:///{tmp_path}/x.db" if kind == "sqlite" else request.getfixturevalue("database")
    acknowledged = []
    for round_ in range(ROUNDS if kind == "sqlite" else 5):
        acknowledged += crashed(address, round_)
        if round_ % 5 == 4:
            checked(address, acknowledged)
    assert len(acknowledged) > 100
