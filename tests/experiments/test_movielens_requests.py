"""MovieLens users as visitors, against the same steps written out."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.experiments.test_movielens import as_dat, rated

from recurrank.experiments import requests
from recurrank.experiments.experiment import run_one
from recurrank.experiments.movielens_requests import LIKED, OTHER, MovieLens
from recurrank.seeds import stream

SMALL = {"items": 10, "users": 15, "feature_users": 12, "dim": 3, "context": 2, "candidates": 6}


@pytest.fixture
def ratings(tmp_path):
    path = tmp_path / "ratings.dat"
    path.write_text(as_dat(rated()), encoding="latin-1")
    return path


@pytest.mark.parametrize("truth", ["fitted", "rated"])
def test_visitors_are_users(ratings, truth):
    world = MovieLens(ratings, **SMALL, truth=truth, seed=4).world()
    lines = rated()
    pairs = {(u, m) for u, m, _, _ in lines}
    by = [{}, {}]
    for u, m, _, _ in lines:
        by[0][m], by[1][u] = by[0].get(m, 0) + 1, by[1].get(u, 0) + 1
    most = [sorted(count, key=lambda i, count=count: (-count[i], i)) for count in by]
    rng = stream(4, "movielens")
    movies, people = rng.permutation(most[0][:20]), rng.permutation(most[1][:27])
    first, second = (np.array([[float((u, m) in pairs) for m in movies] for u in some]) for some in (people[:12], people[12:]))

    def directions(matrix, count):
        vectors = np.linalg.eigh(matrix.T @ matrix)[1][:, ::-1][:, :count]
        return vectors * np.sign(vectors[np.abs(vectors).argmax(0), range(count)])

    x = directions(first[:, :10], 3) * np.sqrt(10 / 3)
    c = second[:, 10:] @ directions(first[:, 10:], 2)
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    np.testing.assert_allclose(world.features, x, atol=1e-9)
    np.testing.assert_allclose(world.contexts, c, atol=1e-9)
    if truth == "rated":
        np.testing.assert_array_equal(world.attraction, np.where(second[:, :10] == 1, LIKED, OTHER))
    else:
        rows = [np.outer([1, *c[u]], [1, *x[m]]).ravel() for u in range(15) for m in range(10)]
        found = np.linalg.lstsq(np.array(rows), second[:, :10].ravel(), rcond=None)[0]
        np.testing.assert_allclose(world.attraction.ravel(), np.clip(rows @ found, 0.005, 0.995), atol=1e-8)


def test_they_are_environments_of_the_suite(ratings, monkeypatch):
    monkeypatch.setattr(requests, "MovieLens", functools.partial(MovieLens, **SMALL))
    (one,) = requests.suite("anchored", "movielens", runs=1, rounds=40, movielens=ratings).experiments
    assert run_one(one).checkpoints[-1] == 40
    with pytest.raises(ValueError, match=r"^environments: 'movielens' is unknown"):
        requests.suite("anchored", "movielens")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"truth": "x"}, "truth: 'x' is unknown"),
        ({"candidates": 11}, "candidates: 11 is more than the 10"),
        ({"users": 0}, "users: "),
        ({"items": 13}, ".*25 movies in it, 26 are needed"),
        ({"context": 13}, ".*ratings have a rank below 13"),
    ],
)
def test_bad_settings(ratings, change, line):
    with pytest.raises(ValueError, match=f"^{line}"):
        MovieLens(ratings, **{**SMALL, **change}).world()
