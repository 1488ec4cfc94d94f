"""Streams of requests, as data: the candidates of each request, and how attractive they truly are.

Unless stated otherwise, items have unit vectors v, a taste u is a unit vector, and attraction is 0.2 + 0.25 <v, u>;
rankers are given the features v. All randomness comes from ``seed``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, as_array, as_count, as_number, as_probabilities
from recurrank.requests.world import LISTED, POPULAR, World
from recurrank.seeds import stream

BASE, SLOPE = 0.2, 0.25
"""Attraction is BASE + SLOPE <v, u>, where it is linear."""
LOGIT, STEEPNESS = -1.4, 1.5
"""And the logistic function of LOGIT + STEEPNESS <v, u>, where it is logistic."""
LEAST = 0.005
STEEPEST = 20
"""The largest exponent of popularity: 10^6 items then differ by a factor of 10^120."""


def unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def attractions(products: Floats, link: str) -> Floats:
    """Attraction by <v, u>."""
    if link == "logistic":
        return np.asarray(1 / (1 + np.exp(-LOGIT - STEEPNESS * products)))
    return np.clip(BASE + SLOPE * products, LEAST, 1 - LEAST)


class Requests:
    """A stream of requests. :meth:`world` makes what it draws from, the same in every call."""

    def __post_init__(self) -> None:
        _checked(self)

    def world(self) -> World:
        """Items, attraction and groups."""
        raise NotImplementedError


def _checked(stream_: object) -> None:
    """ValueError for values that are not counts, for every field of a dataclass that has one of these names."""
    for name in ("items", "dim", "candidates", "clusters", "context", "visitors", "users", "every"):
        if name in vars(stream_):
            as_count(name, vars(stream_)[name])
    link = vars(stream_).get("link", "linear")
    if link not in ("linear", "logistic"):
        raise ValueError(f"link: {link!r} is unknown; choose 'linear' or 'logistic'")
    if "items" in vars(stream_) and vars(stream_).get("candidates", 0) > vars(stream_)["items"]:
        raise ValueError(f"candidates: {vars(stream_)['candidates']} is more than the {vars(stream_)['items']} items")


def _one_group(features: Floats, attraction: Floats, candidates: int, contexts: Floats | None = None) -> World:
    """Requests that draw from all items."""
    start, size = np.zeros(1, np.int64), np.array([len(features)])
    return World(features, attraction, candidates, start, size, contexts=np.zeros((0, 0)) if contexts is None else contexts)


@dataclass(frozen=True)
class Uniform(Requests):
    """Candidates drawn uniformly from all items.

    >>> Uniform(items=100, dim=4, candidates=10).world().features.shape
    (100, 4)
    """

    items: int = 2000
    dim: int = 10
    candidates: int = 40
    seed: int = 0
    link: str = "linear"

    def world(self) -> World:
        rng = stream(self.seed, "requests")
        v, u = unit(rng.standard_normal((self.items, self.dim))), unit(rng.standard_normal(self.dim))
        return _one_group(v, attractions(v @ u, self.link), self.candidates)


@dataclass(frozen=True)
class Zipf(Uniform):
    """Candidates drawn by popularity 1 / rank^exponent, without repeats."""

    exponent: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= as_number("exponent", self.exponent) <= STEEPEST:
            raise ValueError(f"exponent: {self.exponent!r} is out of range; give a number from 0 to {STEEPEST}")

    def world(self) -> World:
        rng = stream(self.seed, "popularity")
        popularity = rng.permutation(np.arange(1.0, self.items + 1) ** -float(self.exponent))
        return replace(super().world(), drawing=POPULAR, popularity=popularity)


@dataclass(frozen=True)
class Clusters(Requests):
    """A request draws from one cluster, and features are skewed: what is above is confounded with what is below.

    Args:
        items: L, in clusters of equal size.
        dim: d.
        candidates: n of a request.
        clusters: how many.
        seed: the seed of everything.
        link: how attraction depends on the features.
        patience: the range of the exponents with which clusters' visitors examine positions (p_k^exponent); None for all alike.
        named: whether requests name their cluster's kind of patience (of four) as their segment.

    """

    items: int = 2000
    dim: int = 10
    candidates: int = 40
    clusters: int = 40
    seed: int = 0
    link: str = "linear"
    patience: tuple[float, float] | None = None
    named: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.items % self.clusters or self.items // self.clusters < self.candidates:
            raise ValueError(
                f"clusters: {self.items} items in {self.clusters} clusters do not give equal ones of at least {self.candidates}"
            )
        if self.patience is not None:
            exponents = as_array("patience", self.patience)
            if exponents.shape != (2,) or not (np.isfinite(exponents) & (exponents >= 0)).all():
                raise ValueError(f"patience: {self.patience!r} is not a range of exponents; give two numbers of at least 0")

    def world(self) -> World:
        rng, each = stream(self.seed, "requests"), self.items // self.clusters
        centres = np.repeat(rng.standard_normal((self.clusters, self.dim)), each, axis=0)
        v = unit(centres + rng.exponential(1.0, (self.items, self.dim)) - 1)
        u = unit(rng.standard_normal(self.dim))
        world = World(
            v, attractions(v @ u, self.link), self.candidates, np.arange(self.clusters) * each, np.full(self.clusters, each)
        )
        if self.patience is not None:
            kinds = rng.permutation(np.arange(self.clusters) % 4)
            world.patience = np.linspace(*self.patience, 4)[kinds]
            world.segments = [f"patience {kind}" for kind in kinds] if self.named else None
        return world


@dataclass(frozen=True)
class Users(Requests):
    """Users in hidden clusters: those of one have one taste, and requests name their user as their segment.

    Args:
        items: L.
        dim: d.
        candidates: n of a request, drawn uniformly from all items.
        users: how many; all are equally likely to ask.
        clusters: how many tastes they have; user i has taste i modulo this.
        seed: the seed of everything.
        link: how attraction depends on the features.

    """

    items: int = 1000
    dim: int = 10
    candidates: int = 40
    users: int = 40
    clusters: int = 4
    seed: int = 0
    link: str = "linear"

    def world(self) -> World:
        rng = stream(self.seed, "requests")
        v, tastes = (unit(rng.standard_normal((many, self.dim))) for many in (self.items, self.clusters))
        names = [f"user {user}" for user in range(self.users)]
        return World(
            v, attractions(tastes @ v.T, self.link)[np.arange(self.users) % self.clusters], self.candidates,
            np.zeros(self.users, np.int64), np.full(self.users, self.items), segments=names,
        )  # fmt: skip


@dataclass(frozen=True)
class Orthogonal(Requests):
    """No features to share: every item is a dimension of its own; attractions uniform in 0.05 to 0.9."""

    items: int = 40
    candidates: int = 20
    seed: int = 0

    def world(self) -> World:
        attraction = stream(self.seed, "requests").uniform(0.05, 0.9, self.items)
        return _one_group(np.eye(self.items), attraction, self.candidates)


@dataclass(frozen=True)
class Context(Requests):
    """Visitors with contexts: attraction depends on the products of item and context features.

    Attraction is 0.2 + 0.25 <v c', U> with |v| = |c| = 1 and |U| = 1 / sqrt(context size), U a random matrix of signs of taste.
    """

    items: int = 500
    dim: int = 4
    context: int = 3
    visitors: int = 1000
    candidates: int = 40
    seed: int = 0
    link: str = "linear"

    def world(self) -> World:
        rng = stream(self.seed, "requests")
        v, c = unit(rng.standard_normal((self.items, self.dim))), unit(rng.standard_normal((self.visitors, self.context)))
        taste = np.linalg.qr(rng.standard_normal((max(self.dim, self.context), self.context)))[0][: self.dim]
        return _one_group(v, attractions((v @ taste @ c.T).T, self.link), self.candidates, c)


@dataclass(frozen=True, eq=False)
class Visitors(Requests):
    """Visitors and items given as data: a request is one of the visitors, with candidates drawn uniformly.

    Args:
        features: of the items, one row each.
        contexts: of the visitors, one row each.
        attraction: one row per visitor, one column per item.
        candidates: n of a request.

    >>> Visitors([[1.0], [0.5]], [[0.2], [0.4], [0.6]], [[0.1, 0.2]] * 3, candidates=2).world().dim
    3

    """

    features: ArrayLike
    contexts: ArrayLike
    attraction: ArrayLike
    candidates: int = 40

    def world(self) -> World:
        x, c = as_array("features", self.features), as_array("contexts", self.contexts)
        for name, rows in (("features", x), ("contexts", c)):
            if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
                raise ValueError(f"{name}: shape is {rows.shape}; give a matrix of finite numbers")
        alpha = as_probabilities("attraction", self.attraction, shape=(len(c), len(x)))
        if as_count("candidates", self.candidates) > len(x):
            raise ValueError(f"candidates: {self.candidates} is more than the {len(x)} items")
        return _one_group(x, alpha, self.candidates, c)


@dataclass(frozen=True, eq=False)
class Log(Requests):
    """Requests that were recorded, in turn: one matrix of features and one list of attractions each.

    Args:
        features: of the candidates of each request, one row per candidate.
        attraction: of the same candidates.
        order: the numbers of the requests in the order in which they come, again and again; by default each in turn.

    >>> Log([[[1.0, 0.0], [0.0, 1.0]]], [[0.5, 0.2]]).world().candidates
    2

    """

    features: Sequence[ArrayLike]
    attraction: Sequence[ArrayLike]
    order: ArrayLike = ()

    def world(self) -> World:
        rows = [as_array(f"features[{i}]", part) for i, part in enumerate(self.features)]
        alpha = [as_probabilities(f"attraction[{i}]", part) for i, part in enumerate(self.attraction)]
        if not rows or len(rows) != len(alpha):
            raise ValueError(f"attraction: {len(alpha)} lists for {len(rows)} requests; give one per request, and at least one")
        for i, (x, a) in enumerate(zip(rows, alpha, strict=True)):
            if x.ndim != 2 or x.shape[1] != rows[0].shape[1] or len(x) != len(a) or not np.isfinite(x).all():
                raise ValueError(
                    f"features[{i}]: shape {x.shape} for {len(a)} attractions; give finite numbers, one row per item"
                )
        size, order = np.array([len(a) for a in alpha]), np.asarray(self.order)
        if order.ndim != 1 or (order.size and (order.dtype.kind not in "iu" or order.min() < 0 or order.max() >= len(size))):
            raise ValueError(f"order: give numbers of requests, from 0 to {len(size) - 1}")
        return World(
            np.concatenate(rows), np.concatenate(alpha), int(size.max()), np.cumsum(size) - size, size, drawing=LISTED,
            order=order.astype(np.int64),
        )  # fmt: skip
