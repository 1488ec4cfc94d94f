"""A catalogue and simulated users, so that a newcomer sees a ranker learn at once."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np

from recurrank.catalogue import Catalogue
from recurrank.clicks import make
from recurrank.problem import synthetic
from recurrank.serving.fold import Config
from recurrank.serving.service import Service
from recurrank.serving.store import StoreError
from recurrank.serving.store.base import Report

NAME, ITEMS, POSITIONS, PACE = "demo", 200, 5, 200
"""PACE is slates a second."""


class Demo:
    """A store in a folder that goes away, and a thread of users who click by the position-based model."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recurrank-demo-"))
        self.address = f"sqlite:///{self.folder}/demo.db"
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, service: Service) -> None:
        """Make the ranker and let the users in."""
        problem = synthetic(items=ITEMS, dim=5, seed=0)
        config = Config(
            algorithm="recurrank",
            positions=POSITIONS,
            rounds=1_000_000,
            seed=0,
            window_seconds=60.0,
            unreported="drop",
            options={"design": "spanner"},
        )
        catalogue = Catalogue(problem.features, [f"item {number}" for number in range(ITEMS)])
        service.create(NAME, config, catalogue)
        model, places = (
            make("position-based", problem.attraction, POSITIONS),
            {name: i for i, name in enumerate(catalogue.ids or ())},
        )
        rng = np.random.default_rng()

        def use() -> None:
            while not self._stopping.wait(10 / PACE):
                try:
                    for ranked in [service.rank(NAME) for _ in range(10)]:
                        clicks = model.sample([places[item] for item in ranked.items], rng)
                        service.feedback([Report(ranked.slate, tuple(int(k) for k in np.flatnonzero(clicks)), True)])
                except (StoreError, ValueError):  # it is stopping, or somebody deleted the ranker
                    return

        self._thread = threading.Thread(target=use, name="recurrank-demo", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send the users away."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def clean(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
