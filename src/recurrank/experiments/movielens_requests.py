"""MovieLens as a stream of requests: users of the data set are the visitors, and movies the candidates.

It uses ratings as GroupLens ships them (``movielens.read_ratings``) as 0 or 1: whether a user rated a movie.

- The 2 L most rated movies are split at random: L are *shown*, ratings of the others are *known* of a visitor.
- Users who rate most are split as in the paper: U1 makes features, U2 are the visitors.
- Features of a shown movie: the first d right singular vectors of U1's ratings of the shown movies, each of unit length on
  average; context of a visitor: their ratings of the known movies in the first c right singular vectors of U1's, of length 1.
  So the context has no information on how the visitor rated a shown movie.
- Attraction, ``truth="fitted"``: least squares of U2's ratings of the shown movies on (1, x) and (1, c) and all their products,
  cut off at 0.005: Anchored's model with ``interactions="outer"``, except for the cut. ``truth="rated"``: 0.5 if the
  visitor rated the movie and else 0.05, which is not a linear function.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from recurrank._arrays import Floats, as_count
from recurrank.experiments.movielens import Ratings, most_frequent, rated, read_ratings, right_vectors
from recurrank.requests import Requests, Visitors, World
from recurrank.seeds import stream

LIKED, OTHER = 0.5, 0.05
"""Attraction of movies that a visitor rated and of others, with ``truth="rated"``."""


@dataclass(frozen=True)
class MovieLens(Requests):
    """Requests of MovieLens users.

    Args:
        path: a MovieLens data set as GroupLens ships it: a zip file, its folder, or the ratings file.
        items: L, the number of movies that can be shown; as many others describe the visitors.
        users: the number of visitors.
        feature_users: the number of other users, whose ratings make the features.
        dim: d, the features per movie.
        context: c, the numbers that describe a visitor.
        candidates: n, the movies per request.
        truth: ``"fitted"`` or ``"rated"``.
        seed: of the splits.

    """

    path: str | Path
    items: int = 500
    users: int = 1000
    feature_users: int = 500
    dim: int = 4
    context: int = 3
    candidates: int = 40
    truth: str = "fitted"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("items", "users", "feature_users", "dim", "context", "candidates"):
            as_count(name, getattr(self, name))
        if self.truth not in ("fitted", "rated"):
            raise ValueError(f"truth: {self.truth!r} is unknown; choose 'fitted' or 'rated'")
        if self.candidates > self.items:
            raise ValueError(f"candidates: {self.candidates} is more than the {self.items} items")

    @functools.cached_property
    def data(self) -> str:
        """The file's name and a fingerprint of its ratings."""
        ratings = _read(Path(self.path))
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(column).tobytes() for column in (ratings.users, ratings.movies)))
        return f"{ratings.source}, {digest.hexdigest()[:12]}"

    def world(self) -> World:
        """Movies, visitors, and the attraction of each movie to each visitor."""
        ratings = _read(Path(self.path))
        movies = most_frequent(ratings.movies, 2 * self.items, "movies", "number of items", ratings.name)
        people = most_frequent(ratings.users, self.feature_users + self.users, "users", "number of users", ratings.name)
        rng = stream(self.seed, "movielens")
        movies, people = rng.permutation(movies), rng.permutation(people)
        matrix = rated(ratings, people, movies).astype(np.float64)
        first, second = matrix[: self.feature_users], matrix[self.feature_users :]
        shown, known = slice(None, self.items), slice(self.items, None)
        with threadpool_limits(1):
            x = right_vectors(first[:, shown], self.dim, ratings.name)
            c = second[:, known] @ right_vectors(first[:, known], self.context, ratings.name)
            x *= np.sqrt(self.items / self.dim)
            c /= np.maximum(np.linalg.norm(c, axis=1, keepdims=True), 1e-12)
            attraction = _fitted(x, c, second[:, shown]) if self.truth == "fitted" else _rated(second[:, shown])
        return Visitors(x, c, attraction, self.candidates).world()


def _fitted(x: Floats, c: Floats, rates: Floats) -> Floats:
    """(1, c) P (1, x)' with P the least squares solution of (1, c) P (1, x)' = rates."""
    left, right = (np.c_[np.ones(len(rows)), rows] for rows in (c, x))
    solution = np.linalg.pinv(left) @ rates @ np.linalg.pinv(right).T
    return np.asarray(np.clip(left @ solution @ right.T, 0.005, 0.995))


def _rated(rates: Floats) -> Floats:
    return np.where(rates > 0, LIKED, OTHER)


@functools.lru_cache(maxsize=2)
def _read(path: Path) -> Ratings:
    return read_ratings(path)
