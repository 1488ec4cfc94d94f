"""Invented films and simulated visitors, so that newcomers see rankers learn at once.

The problem is chosen so that something happens within a minute: nearly everybody likes two of the films, many like two others,
some like one, and a hundred others are hardly liked. So the first block splits after a few seconds, then its parts do.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recurrank.catalogue import Catalogue
from recurrank.clicks import make as make_model
from recurrank.problem import Problem
from recurrank.rankers import DEFAULT
from recurrank.seeds import stream
from recurrank.serving import demo_shop
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import StoreError
from recurrank.serving.store.records import Report

NAME, OTHER = "demo", "demo-recurrank"
ALGORITHMS: dict[str, tuple[str, dict[str, str]]] = {NAME: (DEFAULT, {}), OTHER: ("recurrank", {"design": "spanner"})}
ITEMS, POSITIONS, PACE, GROUP = 120, 5, 240, 12
"""PACE is slates per second and ranker, GROUP the number of slates at a time."""
BEST = (0.95, 0.9, 0.6, 0.55, 0.3)
"""Attraction of the best films; that of the others is below 0.2."""

_WORDS = (
    "Midnight Paper Golden Silent Electric Borrowed Winter Crooked Velvet Hollow Distant Burning Gentle Painted Restless",
    "Harbour Orchard Comet Lantern Tailor Glacier Carousel Railway Garden Compass Sparrow Lighthouse Carnival Bakery",
)


def titles(count: int) -> list[str]:
    """Invented titles, all different, in a fixed random order."""
    every = [f"The {first} {second}" for first in _WORDS[0].split() for second in _WORDS[1].split()]
    return [every[number] for number in stream(0, "demo", 1).permutation(len(every))[:count]]


def films() -> Problem:
    """The problem: attractions as above, linear in four features, which are rotated so that none gives it away."""
    rng = stream(0, "demo", 0)
    attraction = np.concatenate([BEST, rng.uniform(0.02, 0.2, ITEMS - len(BEST))])
    plain = np.column_stack([attraction - 0.3, rng.normal(0, 0.35, (ITEMS, 2)), np.ones(ITEMS)])
    turned, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    order = rng.permutation(ITEMS)
    return Problem((plain @ turned)[order], np.array([1.0, 0.0, 0.0, 0.3]) @ turned)


class Truth(NamedTuple):
    """What is known about the problem of a ranker.

    Attributes:
        by_position: the click rate at each position of a perfect ranking.
        features: names of the features of an item.
        visitor: names of the numbers of a context.

    """

    by_position: Sequence[float]
    features: Sequence[str] = ()
    visitor: Sequence[str] = ()


class Demo:
    """A store in a temporary folder, and visitors who click by the position-based model."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recurrank-demo-"))
        self.address = f"sqlite:///{self.folder}/demo.db"
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._problem, self._shop = films(), demo_shop.Shop()
        self._model = make_model(
            "position-based", self._problem.attraction, POSITIONS, examination=np.arange(1, POSITIONS + 1) ** -0.5
        )

    @property
    def truths(self) -> dict[str, Truth]:
        """What is known about the problem of each ranker."""
        films = Truth(self._model.expected(self._model.best(POSITIONS)).tolist())
        shop = Truth(self._shop.truth(), demo_shop.FEATURES, demo_shop.CONTEXT)
        return {**dict.fromkeys(ALGORITHMS, films), demo_shop.NAME: shop}

    def start(self, service: Service) -> None:
        """Create the first ranker and start its visitors; the others follow in the background, as soon as they are compiled."""
        catalogue = Catalogue(self._problem.features, titles(ITEMS))
        running: set[str] = set()

        def make(name: str) -> None:
            algorithm, options = ALGORITHMS[name]
            spec = RankerSpec(algorithm=algorithm, positions=POSITIONS, rounds=100_000, window_seconds=60.0, options=options)
            service.create(name, spec, catalogue)
            running.add(name)

        def make_others() -> None:
            with contextlib.suppress(StoreError):  # it is stopping
                make(OTHER)
                if not self._stopping.is_set():
                    service.create(demo_shop.NAME, self._shop.spec, self._shop.catalogue)
                    running.add(demo_shop.NAME)

        make(NAME)
        index = {title: i for i, title in enumerate(catalogue.ids or ())}
        rng = np.random.default_rng()

        def visit(name: str) -> None:
            if name == demo_shop.NAME:
                self._shop.restock(service)
                service.feedback(list(visitors.map(lambda one: self._shop.visit(service, one), rng.spawn(GROUP))))
                return
            reports = []
            for ranked in visitors.map(service.rank, [name] * GROUP):  # concurrently, so that they share a transaction
                clicks = self._model.sample([index[item] for item in ranked.items], rng)
                reports.append(Report(ranked.slate, tuple(int(k) for k in np.flatnonzero(clicks)), True))
            service.feedback(reports)

        visitors = ThreadPoolExecutor(GROUP, "recurrank-visitor")

        def use() -> None:
            with visitors:
                come_and_go()

        def come_and_go() -> None:
            while not self._stopping.wait(GROUP / PACE):
                for name in sorted(running):
                    try:
                        visit(name)
                    except StoreError:  # it is stopping
                        return
                    except ValueError:  # the ranker was deleted
                        running.discard(name)

        self._threads = [threading.Thread(target=work, name="recurrank-demo", daemon=True) for work in (use, make_others)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Send the visitors away."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def clean(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
