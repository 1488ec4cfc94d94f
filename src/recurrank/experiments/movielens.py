"""MovieLens as a ranking problem: from ratings as GroupLens ships them to features and theta (Section 5).

| paper | code |
|---|---|
| the L = 1000 movies with most ratings | ``Prepared.movies``; ties by the smaller id |
| the 1100 users who rate most, split at random into U1 (100) and U2 (1000) | ``feature_users``, ``users``; one split per run |
| the rating matrix of U1 | 1 where the user rated the movie, 0 elsewhere (implicit feedback) |
| feature vectors by SVD, d = 5 | row a of the first d - 1 right singular vectors, then ``transform``, which adds the constant |
| theta: the linear system against the rating matrix of U2 | least squares of the mean over U2 on the features |

Where the paper does not specify the details:

- The singular vectors are not scaled by the singular values; the transform divides by the length anyway. Their signs,
  which an SVD leaves free, are chosen to make the largest entry of each positive.
- A movie that no user of U1 rated has a zero vector, which has no direction: it gets only the constant, (0, ..., 0, 1/sqrt 2).
- Least squares may give an attraction outside [0, 1]. All attractions are then shrunk towards their mean until they fit;
  they stay linear in the features. (On the 1M set this does not happen.)
- Everything is stored in float32, so that prepared files and fresh preparations give the same runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from recurrank._arrays import Floats, Ints, as_count
from recurrank.problem import Problem, transform

FILES = ("ratings.csv", "ratings.dat", "u.data")
"""The data sets' files of ratings: 20M and later, 10M and 1M, 100K."""

LARGEST_ID = 50_000_000
"""Largest valid id of a user or movie."""
CITATION = (
    "F. Maxwell Harper and Joseph A. Konstan (2015): The MovieLens Datasets: History and Context. "
    "ACM Transactions on Interactive Intelligent Systems 5(4), article 19. doi:10.1145/2827872"
)


class Ratings(NamedTuple):
    """Which user rated which movie. The ratings themselves are not used: see the top of this file.

    ``name`` is the file for messages, ``source`` the same without the folders above the data set.
    """

    users: Ints
    movies: Ints
    name: str
    source: str


@dataclass(frozen=True)
class Prepared:
    """Features and theta of several random splits of the users, over the same movies.

    Attributes:
        features: (splits, L, d), float32.
        theta: (splits, d), float32.
        movies: (L,), the movies' ids in the data set, most rated first.
        about: their source and the settings of the preparation.

    """

    features: np.ndarray[Any, np.dtype[np.float32]]
    theta: np.ndarray[Any, np.dtype[np.float32]]
    movies: Ints
    about: dict[str, Any]

    @property
    def digest(self) -> str:
        """A fingerprint of the numbers, 12 hexadecimal digits."""
        hashed = hashlib.sha256()
        for array in (self.features, self.theta, self.movies.astype(np.int32)):
            hashed.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return hashed.hexdigest()[:12]

    def problem(self, split: int) -> Problem:
        """The problem of one split, the movies in the order of ``movies``."""
        if not 0 <= split < len(self.features):
            raise ValueError(f"split: {split} is not one of the {len(self.features)} splits, 0 to {len(self.features) - 1}")
        return Problem(self.features[split].astype(np.float64), self.theta[split].astype(np.float64))

    def save(self, path: Path) -> None:
        """Write a .npz file atomically."""
        partial = path.with_name(path.name + ".partial")
        try:
            with open(partial, "wb") as file:
                np.savez_compressed(
                    file,
                    features=self.features,
                    theta=self.theta,
                    movies=self.movies.astype(np.int32),
                    about=np.array(json.dumps(self.about)),
                )
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def packaged() -> Prepared:
    """The ten splits of MovieLens 1M in the package: derived numbers, not ratings.

    >>> packaged().features.shape
    (10, 1000, 5)
    """
    with resources.as_file(resources.files("recurrank.experiments").joinpath("movielens-1m.npz")) as path:
        return load_prepared(path)


def open_movielens(path: Path) -> Prepared:
    """A prepared .npz file, or ratings as GroupLens ships them, prepared now as in the paper."""
    return load_prepared(path) if path.suffix == ".npz" else prepare(read_ratings(path))


def load_prepared(path: Path) -> Prepared:
    """A file that :meth:`Prepared.save` wrote; ValueError says in one line what is wrong with it."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; `recurrank movielens` makes one")
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            features, theta, movies = file["features"], file["theta"], file["movies"]
            about = json.loads(str(file["about"]))
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not a file that `recurrank movielens` wrote, or a truncated one ({error})") from error
    shapes = (
        features.ndim == 3 and theta.shape == (features.shape[0], features.shape[2]) and movies.shape == features.shape[1:2]
    )
    if not shapes or features.size == 0 or features.dtype != np.float32 or theta.dtype != np.float32:
        raise ValueError(
            f"{path}: features are {features.dtype} {features.shape}, theta {theta.shape}; they do not fit together"
        )
    prepared = Prepared(features, theta, movies.astype(np.int64), about)
    for split in range(len(features)):
        prepared.problem(split)  # raises if an attraction is not a probability
    return prepared


# ---------------------------------------------------------------------------------------------------- ratings


def read_ratings(path: Path) -> Ratings:
    """The ratings in a GroupLens zip, its unpacked folder, or the ratings file itself; ValueError in one line otherwise."""
    if path.is_dir():
        found = [file for name in FILES for file in (path / name, *sorted(path.glob(f"*/{name}"))) if file.is_file()]
        if not found:
            raise ValueError(f"{path}: no {', '.join(FILES[:-1])} or {FILES[-1]} in this folder; give a MovieLens data set")
        path = found[0]
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give a MovieLens data set, for example ml-20m.zip")
    if zipfile.is_zipfile(path):
        return _read_zip(path)
    if path.suffix == ".zip":
        raise ValueError(f"{path}: not a zip file, or a truncated one; fetch it again")
    with open(path, "rb") as file:
        ending = path.stat().st_size and file.seek(-1, os.SEEK_END) >= 0 and file.read(1)
        if ending != b"\n":
            raise ValueError(f"{path}: empty, or its last line has no end, so it was cut off; fetch it again")
        file.seek(0)
        return _parse(file, path, str(path), f"{path.absolute().parent.name}/{path.name}")


def _read_zip(path: Path) -> Ratings:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for name in FILES for member in archive.namelist() if member.rpartition("/")[2] == name]
            if not members:
                raise ValueError(f"{path}: no {', '.join(FILES[:-1])} or {FILES[-1]} inside; give a MovieLens data set")
            with archive.open(members[0]) as file:
                return _parse(file, members[0], f"{path}, {members[0]}", path.name)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(f"{path}: not a zip file, or a truncated one ({error}); fetch it again") from error


def _parse(file: IO[bytes], path: Path | str, name: str, source: str) -> Ratings:
    """Users and movies of a ratings file in one of three formats, detected from its first line."""
    try:
        import pyarrow as pa
        from pyarrow import compute, csv
    except ImportError as error:
        raise ValueError(f"{name}: reading ratings needs pyarrow; install recurrank[report]") from error
    delimiter, columns = _format(file.readline(), name)
    file.seek(0)
    wanted = {"user": pa.int32(), "movie": pa.int32(), "rating": pa.float32()}
    try:
        table = csv.read_csv(
            path if isinstance(path, Path) else file,
            read_options=csv.ReadOptions(column_names=columns, skip_rows=int(delimiter == ","), block_size=4 << 20),
            parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=csv.ConvertOptions(column_types=wanted, include_columns=list(wanted)),
        )
    except pa.ArrowInvalid as error:
        raise ValueError(f"{name}: not a complete file of ratings ({error})") from error
    if table.num_rows == 0:
        raise ValueError(f"{name}: no ratings in it")
    for column, (least, most) in {"user": (0, LARGEST_ID), "movie": (0, LARGEST_ID), "rating": (0, 5)}.items():
        span = compute.min_max(table[column]).as_py()
        if table[column].null_count or not (least <= span["min"] and span["max"] <= most):
            reach = f"between {span['min']} and {span['max']}"
            raise ValueError(f"{name}: {column} is missing somewhere, or {reach}; expected {least} to {most:,}")
    return Ratings(table["user"].to_numpy(), table["movie"].to_numpy(), name, source)


def _format(first: bytes, name: str) -> tuple[str, list[str]]:
    """Delimiter and columns, by the first line."""
    if first.strip().lower().startswith(b"userid,movieid,rating"):
        return ",", ["user", "movie", "rating", "timestamp"]
    if first.count(b"::") == 3:  # pyarrow's delimiters have one character, so it sees an empty column between every two
        return ":", ["user", "", "movie", " ", "rating", "  ", "timestamp"]
    if first.count(b"\t") == 3:
        return "\t", ["user", "movie", "rating", "timestamp"]
    shown = first[:40].decode("latin-1").strip()
    raise ValueError(f"{name}: begins with {shown!r}; expected {', '.join(FILES)} as GroupLens ships them")


# ---------------------------------------------------------------------------------------------------- the pipeline


def prepare(
    ratings: Ratings,
    items: int = 1000,
    users: int = 1000,
    feature_users: int = 100,
    dim: int = 5,
    splits: int = 10,
    seed: int = 0,
) -> Prepared:
    """Features and theta as in Section 5, for ``splits`` random splits of the most active users."""
    items, users, feature_users = as_count("items", items), as_count("users", users), as_count("feature_users", feature_users)
    dim, splits = as_count("dim", dim, least=2), as_count("splits", splits)
    if dim - 1 > min(feature_users, items):
        raise ValueError(f"dim: {dim} needs at least {dim - 1} feature users and items; there are {feature_users} and {items}")
    movies = most_frequent(ratings.movies, items, "movies", "number of items", ratings.name)
    active = most_frequent(ratings.users, feature_users + users, "users", "number of users", ratings.name)
    matrix = rated(ratings, active, movies)
    with threadpool_limits(1):  # small matrices: BLAS threads would only wait for each other
        prepared = [_split(matrix, feature_users, dim, np.random.default_rng([seed, s]), ratings.name) for s in range(splits)]
    about = {
        "source": ratings.source,
        "ratings": len(ratings.users),
        "items": items,
        "users": users,
        "feature_users": feature_users,
        "dim": dim,
        "splits": splits,
        "seed": seed,
        "unrated": [int(zero) for _, _, zero in prepared],
        "citation": CITATION,
    }
    features, theta = np.stack([x for x, _, _ in prepared]), np.stack([t for _, t, _ in prepared])
    return Prepared(features.astype(np.float32), theta.astype(np.float32), movies, about)


def most_frequent(ids: Ints, count: int, what: str, options: str, name: str) -> Ints:
    """The ``count`` ids that occur most, most frequent first, ties by the smaller id."""
    occurrences = np.bincount(ids)
    present = int(np.count_nonzero(occurrences))
    if present < count:
        raise ValueError(
            f"{name}: {present:,} {what} in it, {count:,} are needed; give a larger data set or a smaller {options}"
        )
    return np.argsort(-occurrences, kind="stable")[:count]


def rated(ratings: Ratings, users: Ints, movies: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The 0/1 matrix: one row per user, one column per movie."""
    row, column = np.full(ratings.users.max() + 1, -1, np.int32), np.full(ratings.movies.max() + 1, -1, np.int32)
    row[users], column[movies] = np.arange(len(users)), np.arange(len(movies))
    u, m = row[ratings.users], column[ratings.movies]
    both = (u >= 0) & (m >= 0)
    matrix = np.zeros((len(users), len(movies)), np.bool_)
    matrix[u[both], m[both]] = True
    return matrix


def _split(
    rated: np.ndarray[Any, np.dtype[np.bool_]], feature_users: int, dim: int, rng: np.random.Generator, name: str
) -> tuple[Floats, Floats, int]:
    """Features, theta and the number of movies without a direction, for one random split of the rows."""
    order = rng.permutation(len(rated))
    first, second = rated[order[:feature_users]], rated[order[feature_users:]]
    vectors = right_vectors(first.astype(np.float64), dim - 1, name)
    directed = first.any(axis=0)
    features = np.zeros((len(vectors), dim))
    features[directed] = transform(vectors[directed])
    features[~directed, -1] = 1 / np.sqrt(2.0)
    # theta = argmin |X theta - mean of U2's rows|^2
    theta = np.linalg.lstsq(features, second.mean(axis=0), rcond=None)[0]
    return features, _into_range(features, theta), int((~directed).sum())


def right_vectors(matrix: Floats, count: int, name: str) -> Floats:
    """The first right singular vectors as columns, the largest entry of each positive; ValueError if there are fewer."""
    # F = U S V',  x_a = (V_a1, ..., V_a,count)
    _, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    if count > len(sizes) or sizes[count - 1] <= 1e-9 * max(sizes[0], 1.0):
        raise ValueError(f"{name}: {len(matrix)} users' ratings have a rank below {count}; take more of them")
    vectors = right[:count].T
    return np.asarray(vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(count)]))


def _into_range(features: Floats, theta: Floats) -> Floats:
    """Theta with every attraction in [0, 1]: shrunk towards the mean m, which is theta = (0, ..., 0, m sqrt 2)."""
    attraction = features @ theta
    mean = np.clip(attraction.mean(), 0.05, 0.95)
    furthest = max((attraction - mean).max() / (1 - mean), (mean - attraction).max() / mean)
    if furthest <= 1:
        return theta
    constant = np.zeros_like(theta)
    constant[-1] = mean * np.sqrt(2.0)
    drawn: Floats = constant + (theta - constant) * (1 - 1e-6) / furthest
    return drawn
