"""A store of the version that is installed, for ``test_stores.py``: ``python tests/serving/stores/write.py [NAME [SLATES]]``.

The files are written once, by the release they are named after, and never again: later versions must open the store and
fold its log to the same states. ``VERSION.db.xz`` is a SQLite store, ``VERSION.json`` what each ranker had learned.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sqlite3
import sys
import tempfile
from pathlib import Path

import numpy as np

import recurrank as rr
from recurrank.catalogue import Catalogue
from recurrank.serving.fold import Fold
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report

HERE = Path(__file__).parent
POSITIONS, SLATES = 4, 800
RANKERS = {
    "recurrank": {},
    "recurrank-spanner": {"design": "spanner"},
    "balanced": {},
    "toprank": {},
    "cascade-linucb": {},
}


class Time:
    """A clock that is moved by hand."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def learned(fold: Fold) -> dict[str, object]:
    """What a ranker has learned: its counts, and a digest of every array of its state."""
    arrays = {**fold.ranker.pack()[1], "shown": fold.shown, "clicked": fold.clicked, "at": fold.at}
    digests = {name: hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest()[:16] for name, part in arrays.items()}
    return {"seq": fold.seq, "served": fold.ranker.served, "counts": fold.counts, "arrays": digests}


def write(path: Path, slates: int = SLATES) -> dict[str, object]:
    """A store with slates that were learned, dropped, reported in parts and left open."""
    problem = rr.synthetic(items=20, dim=3, seed=2)
    catalogue = Catalogue(problem.features, [f"item {i}" for i in range(20)])
    model = rr.clicks.DocumentBased(problem.attraction)
    clock, rng = Time(), np.random.default_rng(0)
    settings = Settings(refresh=0, expire=0, snapshot_events=1000, snapshot_seconds=1e9)
    service = Service(open_store(f"sqlite:///{path}"), clock, seed=1, start=False, settings=settings)
    for name, options in RANKERS.items():
        algorithm = name.removesuffix("-spanner")
        size = {"positions": POSITIONS, "rounds": 1000, "seed": 3, "window_seconds": 60.0, "unreported": "drop"}
        service.create(name, RankerSpec(algorithm=algorithm, options=options, **size), catalogue)
    for _ in range(slates // 10):
        for name in RANKERS:
            for ranked in [service.rank(name) for _ in range(10)]:
                clicks = np.flatnonzero(model.sample([catalogue.ids.index(item) for item in ranked.items], rng))
                if rng.random() < 0.1:
                    service.feedback([Report(ranked.slate, tuple(clicks[:1]), False)])
                if rng.random() < 0.9:
                    service.feedback([Report(ranked.slate, tuple(clicks), True)])
        clock.now += 20
        service.step()
    service.step()
    states = {name: learned(service.hosted(name).fold) for name in RANKERS}
    service.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("VACUUM")
    connection.close()
    return states


if __name__ == "__main__":
    version = sys.argv[1] if len(sys.argv) > 1 else rr.__version__  # of a version that has no number yet, a name
    kept = HERE / f"{version}.db.xz"
    if kept.exists():
        raise SystemExit(f"{kept}: there already, and never written again")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "store.db")
        states = write(file, int(sys.argv[2]) if len(sys.argv) > 2 else SLATES)
        kept.write_bytes(lzma.compress(file.read_bytes(), preset=9))
    (HERE / f"{version}.json").write_text(json.dumps(states, indent=1) + "\n")
