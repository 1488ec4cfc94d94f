"""A server's garbage: small collections as it goes, full ones by the hour in a quiet moment."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys

from recurrank.serving import garbage


def full_collections() -> int:
    return gc.get_stats()[2]["collections"]


MANY = """
import gc
from recurrank.serving.garbage import collected_by_the_hour

def full(): return gc.get_stats()[2]["collections"]

before, thresholds = full(), gc.get_threshold()
with collected_by_the_hour(lambda: False):
    kept = [[] for _ in range(300_000)]
    print(full() - before)
print(gc.get_threshold() == thresholds)
kept += [[] for _ in range(900_000)]  # so this number of objects is enough to see it
print(full() > before)
"""


def test_making_many_objects_starts_no_full_collection():
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["0", "True", "True"]


def test_a_full_collection_waits_for_a_quiet_moment_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(garbage, "EVERY", 0.0)
    monkeypatch.setattr(garbage, "PATIENCE", 3)
    waited: list[float] = []
    collected: list[str] = []

    class Loop:
        def call_later(self, seconds, function, *arguments):
            waited.append(seconds)
            if not collected:
                function(*arguments)

    monkeypatch.setattr(garbage.gc, "collect", lambda: collected.append("all"))
    with garbage.collected_by_the_hour(lambda: True) as start:
        start(Loop())  # type: ignore[arg-type]
    assert waited == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert collected == ["all"]


def test_it_runs_on_a_real_event_loop(monkeypatch):
    monkeypatch.setattr(garbage, "EVERY", 0.01)
    before = full_collections()

    async def run() -> None:
        with garbage.collected_by_the_hour(lambda: False) as start:
            start(asyncio.get_running_loop())
            while full_collections() < before + 2:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert full_collections() >= before + 2
