"""A service that grows by hand: rankers of both kinds, users who report finally, in parts, late or never."""

from __future__ import annotations

import hashlib
import time

import numpy as np

from recurrank.catalogue import Catalogue
from recurrank.serving.changes import Wanted
from recurrank.serving.retention import Policy, Retention
from recurrank.serving.retention_worker import answer
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report, Serve

K = 3
NAMES = ("films", "shop")
# Renewals by the clock that is moved by hand alone: all runs draw the same slates, however busy the machine is.
SETTINGS = Settings(refresh=0, pause=0, expire=0, snapshot_events=100, snapshot_seconds=1e9)


class Time:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def spec(name: str, window: float) -> RankerSpec:
    algorithm = "anchored" if name == "shop" else "recurrank"
    return RankerSpec(algorithm=algorithm, positions=K, rounds=5000, seed=0, window_seconds=window)


class Running:
    """A service whose users report finally, in parts, late or never, by a clock that is moved by hand."""

    def __init__(
        self,
        address: str,
        policy: Policy | None,
        window: float = 0.05,
        apart: bool = False,
        settings: Settings = SETTINGS,
    ) -> None:
        self.settings = settings
        self.work = None if apart else answer
        self.address, self.policy, self.clock, self.rng = address, policy, Time(), np.random.default_rng(0)
        self.served = 0
        self.start()
        catalogue = Catalogue(np.random.default_rng(5).standard_normal((12, 2)), [f"item {n}" for n in range(12)])
        for name in NAMES:
            self.service.create(name, spec(name, window), catalogue)

    def start(self) -> None:
        store = open_store(self.address)
        retention = Retention(store, self.address, self.policy, self.work)
        self.service = Service(store, self.clock, seed=1, start=False, settings=self.settings, retention=retention)

    def rounds(self, count: int, names: tuple[str, str] = NAMES) -> None:
        """Slates of these rankers in groups of 50; items of the shop come and go."""
        service, rng = self.service, self.rng
        for _ in range(count // 50):
            slates = [f"s{self.served + n}" for n in range(50)]
            self.served += 50
            hosted = [service.hosted(names[n % 2]) for n in range(50)]
            draws = [(one, one.draw()) for one in hosted]
            pairs = zip(slates, draws, strict=True)
            service.store.commit([Serve(slate, one.stored.number, d.payload, d.stock) for slate, (one, d) in pairs])
            chosen = [slate for slate in slates if rng.random() < 0.9]
            service.store.commit([Report(slate, (int(rng.integers(K)),), bool(rng.random() < 0.7)) for slate in chosen])
            service.step()
            self.clock.now += 0.03
            if rng.random() < 0.3:
                service.change_items("shop", Wanted(add=[f"new {self.served}"], add_features=[[0.5, self.served / 1e4]]))
            service.step()

    def states(self) -> dict[str, str]:
        """Digests of what was learned: pytest compares long bytes letter by letter, which takes minutes where they differ."""
        while self.service.step():  # closing windows adds events
            pass
        return {name: hashlib.sha256(self.service.hosted(name).fold.save()).hexdigest() for name in NAMES}


def grown(address: str, policy: Policy | None, rounds: int = 1000, step: int = 250) -> Running:
    """A service after so many rounds, with a step of retention and a restart every now and then."""
    running = Running(address, policy)
    for part in range(rounds // step):
        running.rounds(step)
        if policy is not None:
            time.sleep(0.06)  # windows are over by the wall clock, too
            running.service.retention.step()
            assert running.service.retention.failed is None
        if part % 3 == 2:
            running.service.close()
            running.start()
            running.service.step()
    return running
