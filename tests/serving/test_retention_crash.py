"""kill -9 while old events leave, while the store is copied, and while it is brought up to date: nothing lost or doubled."""

from __future__ import annotations

import lzma
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from tests import prepared
from tests.serving.forked import crashed, forking

from recurrank.serving.archive import Archive
from recurrank.serving.audit import export, replay
from recurrank.serving.backup import backup
from recurrank.serving.restore import restore
from recurrank.serving.store import Store, open_store
from recurrank.serving.verify import verify

KILLS, MIGRATIONS = 4, 3
SOAK_KILLS, SOAK_MIGRATIONS = 50, 50
"""With --soak, which takes about 160 s of processor time."""
STORES = Path(__file__).parent / "stores"
SERVERS = """
import os, sys, tempfile, threading, time
from recurrank import synthetic
from recurrank.catalogue import Catalogue
from recurrank.serving.backup import backup
from recurrank.serving import retention
from recurrank.serving.retention_worker import answer
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report
from pathlib import Path

SPEC = RankerSpec(algorithm="recurrank", positions=3, rounds=2000, window_seconds=0.05)
ITEMS = Catalogue(synthetic(items=20, dim=3, seed=0).features)
retention.PERIOD = 0.02

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())  # at once: half a line is no acknowledgement

def started(address, first):
    store, folder = open_store(address), Path(address.removeprefix("sqlite:///")).parent
    old = retention.Retention(store, address, retention.Policy(events=1000, archive=f"{folder}/archive"), answer)
    service = Service(store, settings=Settings(refresh=0.02, snapshot_events=50, poll=0.01), retention=old)
    service.create("films", SPEC, ITEMS)
    service.rank("films", first)
    service.feedback([Report(first, (0,), True)])
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
            while service.lag() > 100:  # what is not learned cannot go
                time.sleep(0.005)

    def copy():
        folder = Path(address.removeprefix("sqlite:///")).parent
        while True:
            time.sleep(0.1)
            (folder / "copy.db").unlink(missing_ok=True)
            backup(address, folder / "copy.db")
            (folder / "copy.db").replace(folder / "whole.db")

    for name in range(4):
        threading.Thread(target=use, args=(name,), daemon=True).start()
    threading.Thread(target=copy, daemon=True).start()
    say("ready", str(os.getpid()))
    threading.Event().wait()

with tempfile.TemporaryDirectory() as folder:
    started(f"sqlite:///{folder}/x.db", "loaded").close()  # what is compiled is loaded once, for all of them
"""


def interrupted(folder: Path, store: Store) -> Iterator[str]:
    """What a server was doing when it was killed, as far as it can be told from what it left."""
    floor, last = store.floor(), Archive(f"{folder}/archive").manifest().last
    if any(folder.glob("archive/.writing-*")):
        yield "writing the archive"
    if last > floor.seq:
        yield "between the archive and the floor"
    if len(store.lines(0, floor.seq, 10**6)) > len(floor.open_events()) + 100:
        yield "removing events"
    if any(folder.glob("copy.db*")):
        yield "copying the store"


def test_killed_while_old_events_go_and_the_store_is_copied(tmp_path, soaking):
    address = f"sqlite:///{tmp_path}/x.db"
    acknowledged = []
    while_doing: Counter[str] = Counter()
    kills, least, most = (SOAK_KILLS, 200, 2500) if soaking else (KILLS, 800, 2500)
    with forking(SERVERS) as servers:
        for round_ in range(kills):
            acknowledged += crashed(servers, address, round_, least, most)
            with closing(open_store(address)) as store:
                while_doing.update(interrupted(tmp_path, store))
                assert verify(store).faults == []
    print(f"{kills} kills; what they interrupted: {dict(while_doing)}")
    if soaking:
        assert len(while_doing) >= 2  # the moments are short, and which ones are met depends on the machine
    with closing(open_store(address)) as store:
        floor = store.floor().seq
        assert floor > 0, "nothing has left the log"
        assert Archive(f"{tmp_path}/archive").manifest().last >= floor
        [finding] = [replay(store, stored) for stored in store.rankers()]
        assert finding.faults == []
        export(store, tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet").to_pydict()
    events = list(zip(table["kind"], table["slate"], table["items"], strict=True))
    served = {slate: items for kind, slate, items in events if kind == "served"}
    assert len(served) == sum(kind == "served" for kind, _, _ in events)  # nothing is doubled
    ends = [slate for kind, slate, _ in events if kind in ("learned", "dropped")]
    assert len(ends) == len(set(ends))
    for kind, slate, said in acknowledged:
        assert slate in served  # nothing is lost
        if kind == "r":
            assert served[slate] == said.split(",")
        elif said == "learned":
            assert ("learned", slate, served[slate]) in events or slate in ends
    restore(tmp_path / "whole.db", f"sqlite:///{tmp_path}/again.db")
    with closing(open_store(f"sqlite:///{tmp_path}/again.db")) as store:
        assert verify(store, f"{tmp_path}/archive").faults == []


def test_killed_while_a_store_is_brought_up_to_date(tmp_path, soaking):
    """A store of the first version, opened by a process that is killed ever later; what is left opens and is sound."""
    original = tmp_path / "original.db"
    original.write_bytes(lzma.decompress((STORES / "0.1.0.db.xz").read_bytes()))
    code = "import sys; from recurrank.serving.store import open_store; print(flush=True); open_store(sys.argv[1]).close()"
    rng = np.random.default_rng(0)
    for _ in range(SOAK_MIGRATIONS if soaking else MIGRATIONS):
        path = tmp_path / "log.db"
        for old in tmp_path.glob("log.db*"):
            old.unlink()
        shutil.copy(original, path)
        command = [sys.executable, "-c", code, f"sqlite:///{path}"]
        process = prepared.start(command, stdout=subprocess.PIPE, load=["recurrank.serving.store"])
        process.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.02)))
        process.kill()
        process.wait()
        process.stdout.close()
        store = open_store(f"sqlite:///{path}")
        assert verify(store).faults == []
        store.close()
        assert backup(f"sqlite:///{path}", tmp_path / "log.db.copy").events > 0
        (tmp_path / "log.db.copy").unlink()
