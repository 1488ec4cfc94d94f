"""An invented shop for the demonstration: visitors of three kinds, each with candidates of their own, and stock that changes.

Attraction is linear in the products of an item's features and the visitor's kind, so that the three kinds want different
things. They also examine a page differently, which the ranker learns by segment.
"""

from __future__ import annotations

import time

import numpy as np

from recurrank._arrays import Floats
from recurrank.catalogue import Catalogue
from recurrank.seeds import stream
from recurrank.serving.asked import Asked
from recurrank.serving.changes import Wanted
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store.records import Report

NAME = "demo-shop"
ITEMS, CANDIDATES, POSITIONS = 120, 25, 5
CHANGE_SECONDS, CHANGE_ITEMS = 3.0, 2
"""Seconds between two changes of the stock, and the number of items that sell out each time; as many new ones come in."""
FEATURES = ("cheap", "good", "plain", "new")
KINDS = ("bargain hunter", "enthusiast", "in a hurry")
CONTEXT = KINDS[1:]
"""Features of a context: an indicator per kind, except the first. Indicators of all kinds would sum to the constant feature, so
that no number of clicks could identify the coefficients."""
TASTES = np.array([[0.7, 0.1, 0.0, 0.0], [0.0, 0.6, -0.2, 0.3], [0.2, 0.2, 0.3, 0.0]])
"""How much each kind likes each feature."""
PATIENCE = (0.4, 0.3, 1.6)
"""By kind: position k, from 1, is examined with probability k^-patience."""

_WORDS = (
    "Oak Steel Linen Copper Walnut Glass Wool Marble Cork Bamboo Leather Velvet",
    "Lamp Chair Desk Sofa Shelf Rug Clock Mirror Stool Vase Kettle Bench Basket Frame",
)


class Shop:
    """The items, those who visit, and what they click."""

    def __init__(self) -> None:
        self._rng = stream(0, "demo", 2)
        self._made, self._changed = 0, time.monotonic()
        self.items = dict(self._new() for _ in range(ITEMS))

    def _new(self) -> tuple[str, Floats]:
        first, second = (words.split() for words in _WORDS)
        number, self._made = self._made, self._made + 1
        name = f"{first[number % len(first)]} {second[(number // len(first)) % len(second)]} {number + 1}"
        return name, self._rng.random(len(FEATURES))

    @property
    def spec(self) -> RankerSpec:
        """The ranker of the shop."""
        options = {"context": len(CONTEXT), "interactions": "outer"}
        return RankerSpec(algorithm="anchored", positions=POSITIONS, rounds=100_000, window_seconds=60.0, options=options)

    @property
    def catalogue(self) -> Catalogue:
        """The initial stock."""
        return Catalogue(np.array(list(self.items.values())), list(self.items))

    @staticmethod
    def context(kind: int) -> list[float]:
        """The context of a visitor of this kind."""
        return [float(name == KINDS[kind]) for name in CONTEXT]

    @staticmethod
    def truth(visits: int = 2_000) -> list[float]:
        """Click rate by position of perfect slates: the mean over ``visits`` visits of each kind."""
        rng, total = stream(0, "demo", 3), np.zeros(POSITIONS)
        for kind in range(len(KINDS)):
            attraction = _attraction(rng.random((visits, CANDIDATES, len(FEATURES))), kind)
            total += np.sort(attraction)[:, : -POSITIONS - 1 : -1].mean(axis=0) * _looked(kind)
        return [float(rate) for rate in total / len(KINDS)]

    def visit(self, service: Service, rng: np.random.Generator) -> Report:
        """One visitor's search, and what they clicked."""
        kind = int(rng.integers(len(KINDS)))
        found = [str(name) for name in rng.permutation(list(self.items))[:CANDIDATES]]
        ranked = service.rank(NAME, asked=Asked(found, context=self.context(kind), segment=KINDS[kind]))
        rows = np.array([self.items[name] for name in ranked.items])
        clicked = rng.random(len(rows)) < _attraction(rows, kind) * _looked(kind)[: len(rows)]
        return Report(ranked.slate, tuple(int(position) for position in np.flatnonzero(clicked)), True)

    def restock(self, service: Service) -> None:
        """Every few seconds, replace a few items by new ones."""
        if time.monotonic() - self._changed < CHANGE_SECONDS:
            return
        self._changed = time.monotonic()
        gone = [str(name) for name in self._rng.permutation(list(self.items))[:CHANGE_ITEMS]]
        new = dict(self._new() for _ in range(CHANGE_ITEMS))
        service.change_items(NAME, Wanted(list(new), list(new.values()), remove=gone))
        self.items = {name: row for name, row in self.items.items() if name not in gone} | new


def _attraction(rows: Floats, kind: int) -> Floats:
    wanted: Floats = np.clip(0.05 + rows @ TASTES[kind], 0.01, 0.95)
    return wanted


def _looked(kind: int) -> Floats:
    looked: Floats = np.arange(1.0, POSITIONS + 1) ** -PATIENCE[kind]
    return looked
