"""MovieLens: every format that GroupLens ships, the paper's pipeline against a literal one, and what bad files get."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recurrank.experiments import movielens
from recurrank.experiments.movielens import Ratings, load_prepared, open_movielens, packaged, prepare, read_ratings

REAL = Path(__file__).parents[3] / "shared" / "data" / "ml-1m.zip"
SMALL = {"items": 12, "users": 20, "feature_users": 10, "dim": 4, "splits": 3}


def rated(users: int = 40, movies: int = 25, seed: int = 0, share: float = 0.4) -> list[tuple[int, int, float, int]]:
    """Ratings like MovieLens: ids with gaps, halves of stars, users in order."""
    rng = np.random.default_rng(seed)
    taste = rng.uniform(0.1, 1.0, movies)
    lines = []
    for user in range(users):
        for movie in np.flatnonzero(rng.random(movies) < share * (0.5 + taste)):
            lines.append((3 * user + 1, 7 * int(movie) + 2, rng.integers(1, 11) / 2, 978_300_000 + len(lines)))
    return lines


def as_csv(lines) -> str:
    return "userId,movieId,rating,timestamp\n" + "".join(f"{u},{m},{r},{t}\n" for u, m, r, t in lines)


def as_dat(lines) -> str:
    return "".join(f"{u}::{m}::{r:g}::{t}\n" for u, m, r, t in lines)


def as_data(lines) -> str:
    return "".join(f"{u}\t{m}\t{int(r)}\t{t}\n" for u, m, r, t in lines)


@pytest.mark.parametrize(("name", "write"), [("ratings.csv", as_csv), ("ratings.dat", as_dat), ("u.data", as_data)])
@pytest.mark.parametrize("packing", ["file", "folder", "folder above", "zip"])
def test_every_format_and_packing_gives_the_same(tmp_path, name, write, packing):
    lines = rated()
    folder = tmp_path / "ml-x"
    folder.mkdir()
    (folder / name).write_text(write(lines), encoding="latin-1")
    (folder / "README.html").write_text("not ratings")
    path = {"file": folder / name, "folder": folder, "folder above": tmp_path}.get(packing)
    if path is None:
        path = tmp_path / "ml-x.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("ml-x/README.html", "not ratings")
            archive.write(folder / name, f"ml-x/{name}")
    ratings = read_ratings(path)
    assert ratings.users.tolist() == [u for u, _, _, _ in lines]
    assert ratings.movies.tolist() == [m for _, m, _, _ in lines]


def literal(lines, items, users, feature_users, dim, splits, seed=0):
    """The pipeline as Section 5 tells it, with dictionaries and eigenvectors."""
    by_movie, by_user = {}, {}
    for u, m, _, _ in lines:
        by_movie[m] = by_movie.get(m, 0) + 1
        by_user[u] = by_user.get(u, 0) + 1
    movies = sorted(by_movie, key=lambda m: (-by_movie[m], m))[:items]
    active = sorted(by_user, key=lambda u: (-by_user[u], u))[: users + feature_users]
    pairs = {(u, m) for u, m, _, _ in lines}
    made = []
    for split in range(splits):
        order = np.random.default_rng([seed, split]).permutation(len(active))
        first = np.array([[float((active[i], m) in pairs) for m in movies] for i in order[:feature_users]])
        second = np.array([[float((active[i], m) in pairs) for m in movies] for i in order[feature_users:]])
        _, vectors = np.linalg.eigh(first.T @ first)  # right singular vectors, smallest first
        vectors = vectors[:, ::-1][:, : dim - 1]
        features = np.zeros((items, dim))
        for a in range(items):
            if first[:, a].any():
                signs = [np.sign(v[np.argmax(np.abs(v))]) for v in vectors.T]
                x = vectors[a] * signs
                features[a, :-1] = x / (np.sqrt(2) * np.sqrt(np.sum(x**2)))
            features[a, -1] = 1 / np.sqrt(2)
        theta = np.linalg.pinv(features) @ second.mean(axis=0)
        made.append((features, theta))
    return movies, made


@pytest.mark.parametrize("seed", range(6))
def test_the_pipeline_is_the_literal_one(seed):
    lines = rated(seed=seed)
    ratings = Ratings(np.array([line[0] for line in lines]), np.array([line[1] for line in lines]), "x", "x")
    prepared = prepare(ratings, **SMALL)
    movies, made = literal(lines, **SMALL)
    assert prepared.movies.tolist() == movies
    for split, (features, theta) in enumerate(made):
        np.testing.assert_allclose(prepared.features[split], features, atol=1e-5)
        np.testing.assert_allclose(prepared.theta[split], theta, atol=1e-4)


def test_a_movie_that_no_feature_user_rated_has_only_the_constant():
    lines = [line for line in rated() if not (line[1] == 2 and line[0] > 1)]  # movie 2: one user only
    lines += [(1, 2, 3.0, 0)] * 200  # yet "rated most", and counted once in the matrix
    ratings = Ratings(np.array([line[0] for line in lines]), np.array([line[1] for line in lines]), "x", "x")
    prepared = prepare(ratings, **SMALL)
    assert prepared.movies[0] == 2
    without = [split for split in range(3) if prepared.features[split, 0, :-1].tolist() == [0, 0, 0]]
    assert without
    assert [int(split in without) for split in range(3)] == prepared.about["unrated"]
    assert prepared.features[:, 0, -1] == pytest.approx([2**-0.5] * 3)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.15, 0.5))
def test_attraction_is_always_a_probability(seed, share):
    lines = rated(seed=seed, share=share)
    ratings = Ratings(np.array([line[0] for line in lines]), np.array([line[1] for line in lines]), "x", "x")
    prepared = prepare(ratings, **SMALL)
    for split in range(3):
        attraction = prepared.problem(split).attraction  # it raises where one is not
        assert 0 <= attraction.min() <= attraction.max() <= 1


def test_attraction_beyond_one_is_drawn_towards_the_mean():
    features = np.array([[0.7, 0.7], [-0.7, 0.7], [0.1, 0.7]]) * 2**0.5 / (0.7 * 2)
    theta = np.array([1.0, 0.9])
    before, after = features @ theta, features @ movielens._into_range(features, theta)
    assert before.max() > 1
    assert after.max() == pytest.approx(1, abs=1e-5)
    assert np.corrcoef(before, after)[0, 1] == pytest.approx(1)


def test_a_prepared_file_comes_back_the_same(tmp_path):
    lines = rated()
    (tmp_path / "ratings.csv").write_text(as_csv(lines))
    prepared = prepare(read_ratings(tmp_path), **SMALL)
    prepared.save(tmp_path / "x.npz")
    again = open_movielens(tmp_path / "x.npz")
    assert again.digest == prepared.digest
    assert again.about == prepared.about
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ratings.csv", "x.npz"]
    with pytest.raises(ValueError, match=r"^split: 3 is not one of the 3 splits"):
        again.problem(3)


def test_the_package_carries_ten_splits_of_the_1m_set():
    prepared = packaged()
    assert prepared.features.shape == (10, 1000, 5)
    assert prepared.about["ratings"] == 1_000_209
    assert "Harper" in prepared.about["citation"]
    spans = [prepared.problem(split).attraction for split in range(10)]
    assert 0.1 < min(a.min() for a in spans) < 0.2
    assert 0.6 < max(a.max() for a in spans) < 0.7


@pytest.mark.skipif(not REAL.exists(), reason="MovieLens 1M is not at hand")
def test_the_packaged_splits_are_made_from_the_real_file():
    prepared, carried = prepare(read_ratings(REAL)), packaged()
    assert prepared.movies.tolist() == carried.movies.tolist()
    np.testing.assert_allclose(prepared.features, carried.features, atol=1e-5)
    np.testing.assert_allclose(prepared.theta, carried.theta, atol=1e-5)
    assert prepared.about == carried.about


def broken_zip(folder: Path) -> Path:
    path = folder / "ml.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ml/ratings.csv", as_csv(rated()))
    path.write_bytes(path.read_bytes()[:-100])
    return path


def altered_zip(folder: Path) -> Path:
    path = folder / "ml.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ml/ratings.csv", as_csv(rated()))
    path.write_bytes(path.read_bytes().replace(b"1,2,", b"1,3,", 1))
    return path


def empty_zip(folder: Path) -> Path:
    path = folder / "ml.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ml/tags.csv", "x")
    return path


def text(content: str, name: str = "ratings.csv"):
    def write(folder: Path) -> Path:
        (folder / name).write_text(content)
        return folder / name

    return write


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder / "nowhere.zip", "no such file"),
        (lambda folder: folder, "no ratings.csv"),
        (broken_zip, "truncated"),
        (altered_zip, "CRC"),
        (empty_zip, "no ratings.csv"),
        (text(""), "empty"),
        (text("userId,movieId,rating,timestamp\n"), "no"),
        (text(as_csv(rated())[:-7]), "cut off"),
        (text(as_csv(rated())[:-20] + "\n"), "ratings"),
        (text("userId,movieId,tag,timestamp\n1,2,fun,3\n"), "begins with 'userId,movieId,tag"),
        (text("userId,movieId,rating,timestamp\n1,2,fun,3\n"), "ratings"),
        (text("userId,movieId,rating,timestamp\n1,,3,4\n"), "movie is missing"),
        (text("userId,movieId,rating,timestamp\n1,2,30,4\n"), "rating"),
        (text("userId,movieId,rating,timestamp\n-1,2,3,4\n"), "user"),
        (text("1::2::3::4\n1::2::3\n", "ratings.dat"), "ratings"),
        (text("1 2 3 4\n", "u.data"), "begins with"),
        (text(as_csv(rated())), "40 users in it, 1,100 are needed|25 movies in it, 1,000 are needed"),
    ],
)
def test_bad_files_get_one_line_that_names_them(tmp_path, make, says):
    path = make(tmp_path)
    with pytest.raises(ValueError, match=says) as caught:
        open_movielens(path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("damage", ["short", "other", "missing", "shape", "numbers"])
def test_bad_prepared_files(tmp_path, damage):
    path = tmp_path / "x.npz"
    prepared = packaged()
    prepared.save(path)
    if damage == "short":
        path.write_bytes(path.read_bytes()[:-1000])
    elif damage == "other":
        np.savez(path, x=np.zeros(3))
    elif damage == "missing":
        path.unlink()
    elif damage == "shape":
        np.savez(path, features=prepared.features, theta=prepared.theta[:, :3], movies=prepared.movies, about=np.array("{}"))
    else:
        np.savez(path, features=prepared.features, theta=prepared.theta * 9, movies=prepared.movies, about=np.array("{}"))
    with pytest.raises(ValueError, match=r"x\.npz|attraction"):
        load_prepared(path)


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"dim": 1}, "dim"), ({"dim": 40}, "dim"), ({"items": 0}, "items"), ({"users": 100}, "users"), ({"splits": 0}, "splits")],
)
def test_bad_sizes(changes, says):
    lines = rated()
    ratings = Ratings(np.array([line[0] for line in lines]), np.array([line[1] for line in lines]), "x", "x")
    with pytest.raises(ValueError, match=says):
        prepare(ratings, **{**SMALL, **changes})
