"""Problems: a catalogue whose true attraction is known, for simulations and tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Features, Floats, as_array, as_count, as_features
from recurrank.catalogue.rows import Rows, kept, products
from recurrank.seeds import stream


@dataclass(frozen=True)
class Problem:
    """Features, the true parameter, and so the attraction ``alpha(a) = <a, theta>`` of every item (equation clicklinear).

    Raises ValueError when an attraction is not in [0, 1]: it would not be a probability.

    >>> Problem(features=[[0.5, 0.0], [0.0, 1.0]], theta=[1.0, 0.25]).attraction.tolist()
    [0.5, 0.25]
    """

    features: Features
    theta: Floats

    def __init__(self, features: ArrayLike, theta: ArrayLike) -> None:
        matrix, vector = kept(as_features(features)), as_array("theta", theta)
        if vector.shape != (matrix.shape[1],):
            raise ValueError(f"theta: shape is {vector.shape}; it should be ({matrix.shape[1]},), one number per feature")
        object.__setattr__(self, "features", matrix)
        object.__setattr__(self, "theta", vector)
        attraction = products(Rows(matrix), vector)
        rounding = 1e-9 if matrix.dtype == np.float64 else 1e-6
        outside = ~((attraction >= -rounding) & (attraction <= 1 + rounding))
        if outside.any():
            item = int(np.argmax(outside))
            raise ValueError(f"attraction[{item}]: {attraction[item]} lies outside [0, 1]; scale features or theta")
        object.__setattr__(self, "attraction", np.clip(attraction, 0.0, 1.0))

    def __repr__(self) -> str:
        items, dim = self.features.shape
        low, high = self.attraction.min(), self.attraction.max()
        return f"<{type(self).__name__}: {items:,} items, {dim} features, attraction from {low:.3g} to {high:.3g}>"

    def shuffled(self, seed: object) -> Problem:
        """The same problem with its items in a random order, so that no ranker gains from their numbering."""
        return Problem(self.features[stream(seed, "items").permutation(len(self.features))], self.theta)

    attraction: Floats = None  # type: ignore[assignment]  # set by __init__


def transform(vectors: ArrayLike) -> Floats:
    """The paper's equation (transform x): ``x -> (x / (sqrt 2 |x|), 1 / sqrt 2)`` for a vector or each row of a matrix.

    Two transformed vectors have an inner product in [0, 1], so that attraction is a probability. A zero vector has
    no direction: ValueError.

    >>> transform([3.0, 4.0]).round(3).tolist()
    [0.424, 0.566, 0.707]
    """
    x = as_array("vectors", vectors)
    if x.ndim not in (1, 2) or 0 in x.shape:
        raise ValueError(f"vectors: shape is {x.shape}; give a vector, or a matrix with one vector per row")
    largest = np.abs(x).max(axis=-1, keepdims=True)  # divided out first, so that no square over- or underflows
    if not np.isfinite(largest).all() or not largest.all():
        raise ValueError("vectors: one is zero or not finite; the transform divides by the length, so every vector needs one")
    x = x / largest
    lengths = np.linalg.norm(x, axis=-1, keepdims=True)
    one = np.ones_like(lengths)
    stacked: Floats = np.concatenate([x / lengths, one], axis=-1) / np.sqrt(2.0)
    return stacked


def synthetic(items: int, dim: int, seed: int | np.random.SeedSequence | np.random.Generator = 0) -> Problem:
    """The paper's synthetic problem: standard Gaussian items and theta in ``dim - 1`` dimensions, each transformed.

    >>> problem = synthetic(items=1000, dim=5, seed=0)
    >>> problem.features.shape, bool(problem.attraction.min() >= 0), bool(problem.attraction.max() <= 1)
    ((1000, 5), True, True)
    """
    items, dim = as_count("items", items), as_count("dim", dim, least=2)
    rng = stream(seed, "problem")
    features = transform(rng.standard_normal((items, dim - 1)))
    theta = transform(rng.standard_normal(dim - 1))
    return Problem(features, theta)
