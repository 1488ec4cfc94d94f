"""Compile what a server needs into numba's cache before the server starts, for example at installation."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator

import numpy as np

from recurrank.catalogue import Catalogue
from recurrank.rankers import names
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report

ITEMS, DIM, POSITIONS, SLATES = 12, 3, 3, 40


def warm(rankers: Iterable[str] = ()) -> Iterator[tuple[str, float]]:
    """Serve a few slates with each ranker, by default all; yields the name and seconds of each when it is done.

    Raises ValueError for a ranker that does not exist or is not served.
    """
    known = names(served=True)
    wanted = list(rankers) or known
    for name in wanted:
        if name not in known:
            raise ValueError(f"rankers: {name!r} is not one that is served; choose from {', '.join(known)}")
    for name in wanted:
        began = time.perf_counter()
        _serve(name)
        yield name, time.perf_counter() - began


def _serve(name: str) -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((ITEMS, DIM))
    spec = RankerSpec(algorithm=name, positions=POSITIONS, rounds=1000, window_seconds=60.0)
    with tempfile.TemporaryDirectory() as folder:
        service = Service(open_store(f"sqlite:///{folder}/log.db"), seed=0, start=False, settings=Settings(refresh=0))
        try:
            for kind in (np.float64, np.float32):  # as they come in JSON, and in files
                service.create(kind.__name__, spec, Catalogue(features.astype(kind)))
                for number in range(SLATES):
                    ranked = service.rank(kind.__name__)
                    service.feedback([Report(ranked.slate, (number % POSITIONS,), True)])
                    service.step()
                service.status(kind.__name__)
        finally:
            service.close()
