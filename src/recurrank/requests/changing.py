"""Streams with a change: a leader that is always there, items that come and go, a taste that turns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from recurrank._arrays import Floats, as_number
from recurrank.requests.streams import (
    BASE,
    LEAST,
    LOGIT,
    SLOPE,
    STEEPNESS,
    Clusters,
    Requests,
    Uniform,
    attractions,
    unit,
)
from recurrank.requests.world import Turn, World
from recurrank.seeds import stream


class Changed(Requests):
    """Another stream, one of items that follow one taste, with a change."""

    base: Clusters | Uniform | Changed
    alone: ClassVar[tuple[str, ...]] = ()
    """Changes that must not be in the other stream already."""

    def __post_init__(self) -> None:
        super().__post_init__()
        inner: Requests = self
        while isinstance(inner, Changed):
            inner = inner.base
            if type(inner).__name__ in self.alone:
                raise ValueError(f"base: a {type(inner).__name__} cannot be inside a {type(self).__name__}; {self._instead}")
        if not isinstance(inner, Clusters | Uniform):
            raise ValueError(f"base: the items of {type(inner).__name__} follow no taste; give Uniform, Zipf or Clusters")

    _instead: ClassVar[str] = "give one"

    @property
    def link(self) -> str:
        """How attraction depends on the features."""
        return self.base.link

    @property
    def seed(self) -> int:
        """The seed of everything."""
        return self.base.seed


@dataclass(frozen=True)
class Leader(Changed):
    """Another stream with an item of the given attraction in every request.

    Its features are those that have this attraction by the same law: along u, and as long as needed.
    """

    base: Clusters | Uniform | Changed
    attraction: float = 0.9

    alone: ClassVar = ("Leader", "Drift")
    _instead: ClassVar = "a stream has one leader, and it turns with the others: Drift(Leader(...))"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < as_number("attraction", self.attraction) < 1:
            raise ValueError(f"attraction: {self.attraction} is not a probability between 0 and 1")

    def world(self) -> World:
        world = self.base.world()
        u = _taste(world, self.link)
        needed = (
            (np.log(self.attraction / (1 - self.attraction)) - LOGIT) / STEEPNESS
            if self.link == "logistic"
            else (self.attraction - BASE) / SLOPE
        )
        features, attraction = np.vstack([world.features, needed * u]), np.append(world.attraction, self.attraction)
        world.features, world.attraction = features[:-1], attraction[:-1]  # which may change
        return replace(world, features=features, attraction=attraction, leader=len(features) - 1)


@dataclass(frozen=True)
class Churn(Changed):
    """Another stream in which a share of the items is replaced by new ones of the same kind, every ``every`` rounds."""

    base: Clusters | Uniform | Changed
    share: float = 0.01
    every: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= as_number("share", self.share) <= 1:
            raise ValueError(f"share: {self.share} is not a share; give a number from 0 to 1")

    def world(self) -> World:
        world = self.base.world()
        items, each = int(world.size.sum()), int(world.size[0])  # a leader stays

        def turn(rng: np.random.Generator, rounds: int) -> None:
            many = max(1, round(self.share * items)) if self.share > 0 else 0
            gone, u = rng.choice(items, many, replace=False), _taste(world, self.link)
            # A new item lies between two of its cluster: of the same kind, but new.
            other = (gone // each) * each + rng.integers(each, size=len(gone))
            noise = 0.3 * rng.standard_normal((len(gone), len(u)))
            world.features[gone] = unit(world.features[gone] + world.features[other] + noise)
            world.attraction[gone] = attractions(world.features[gone] @ u, self.link)

        return _turning(world, turn, self.every)


@dataclass(frozen=True)
class Drift(Changed):
    """Another stream whose taste u turns by ``angle`` radians in total over every 10^5 rounds."""

    base: Clusters | Uniform | Changed
    angle: float = 0.5
    every: int = 1000

    alone: ClassVar = ("Drift",)
    _instead: ClassVar = "give one of a larger angle"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.isfinite(as_number("angle", self.angle)):
            raise ValueError(f"angle: {self.angle} is not a number of radians")

    def world(self) -> World:
        world = self.base.world()
        u = _taste(world, self.link)
        side = stream(self.seed, "drift").standard_normal(len(u))
        side = unit(side - (side @ u) * u)

        def turn(rng: np.random.Generator, rounds: int) -> None:
            turned = self.angle * rounds / 1e5
            world.attraction[:] = attractions(world.features @ (np.cos(turned) * u + np.sin(turned) * side), self.link)

        return _turning(world, turn, self.every)


def _turning(world: World, turn: Turn, every: int) -> World:
    """The world with a further change every ``every`` rounds."""
    before, each = world.turn, world.every
    if before is None:
        world.turn, world.every = turn, every
        return world

    def both(rng: np.random.Generator, rounds: int) -> None:
        if rounds % each == 0:
            before(rng, rounds)
        if rounds % every == 0:
            turn(rng, rounds)

    world.turn, world.every = both, math.gcd(each, every)
    return world


def _taste(world: World, link: str) -> Floats:
    """The taste u, from the items: the law is linear in <v, u> wherever it is not cut off."""
    inside = (world.attraction > LEAST) & (world.attraction < 1 - LEAST)
    alpha = world.attraction[inside]
    product = (np.log(alpha / (1 - alpha)) - LOGIT) / STEEPNESS if link == "logistic" else (alpha - BASE) / SLOPE
    return np.asarray(np.linalg.lstsq(world.features[inside], product, rcond=None)[0])
