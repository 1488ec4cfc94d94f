"""Catalogues in memory: whose the features are, what ids may be, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recurrank as rr
from recurrank.catalogue import catalogue as module
from recurrank.catalogue import rows

FEATURES = np.random.default_rng(0).standard_normal((50, 3))


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_a_buffer_may_be_used_again(kind: str) -> None:
    buffer = FEATURES.astype(kind)
    ranker = rr.RecurRank(buffer, positions=5, rounds=1000, seed=0)
    problem = rr.Problem(buffer, np.zeros(3))
    buffer[:] = 0
    assert (ranker.catalogue.features == FEATURES.astype(kind)).all()
    assert (problem.features == FEATURES.astype(kind)).all()
    assert rr.load(ranker.save(), FEATURES.astype(kind)).rank().items.tolist() == ranker.rank().items.tolist()


def test_read_only_maps_and_arrays_are_shared(tmp_path: Path) -> None:
    np.save(tmp_path / "features.npy", FEATURES)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    frozen = FEATURES.copy()
    frozen.setflags(write=False)
    unchangeable = np.frombuffer(FEATURES.tobytes()).reshape(FEATURES.shape)
    for features in (mapped, mapped[3:], frozen, frozen[3:], unchangeable):
        assert np.shares_memory(rr.Catalogue(features).features, features)


def read_only_view_of_an_array(tmp_path: Path) -> tuple[Any, Any]:
    features = FEATURES.copy()
    view = features[:]
    view.setflags(write=False)
    return view, features


def read_only_view_of_bytes(tmp_path: Path) -> tuple[Any, Any]:
    memory = bytearray(FEATURES.tobytes())
    view = np.frombuffer(memoryview(memory).toreadonly()).reshape(FEATURES.shape)
    return view, np.frombuffer(memory).reshape(FEATURES.shape)


def read_only_view_of_a_map(tmp_path: Path) -> tuple[Any, Any]:
    np.save(tmp_path / "features.npy", FEATURES)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r+")
    view = mapped[:]
    view.setflags(write=False)
    return view, mapped


def data_frame(tmp_path: Path) -> tuple[Any, Any]:
    table = pytest.importorskip("pandas").DataFrame(FEATURES.copy())
    return table, table.iloc


@pytest.mark.parametrize(
    "made", [read_only_view_of_an_array, read_only_view_of_bytes, read_only_view_of_a_map, data_frame], ids=lambda f: f.__name__
)
def test_read_only_views_of_writeable_memory_are_copied(tmp_path: Path, made: Callable[[Path], tuple[Any, Any]]) -> None:
    features, writeable = made(tmp_path)
    catalogue = rr.Catalogue(features)
    problem = rr.Problem(features, np.zeros(3))
    writeable[0, 0] = 99.0
    assert (catalogue.features == FEATURES).all()
    assert (problem.features == FEATURES).all()


def test_a_large_array_that_was_written_to_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COPIED", 100)
    monkeypatch.setattr(rows, "COPIED", 100)
    buffer = FEATURES.copy()
    ranker = rr.RecurRank(buffer, positions=5, rounds=1000, seed=0)
    assert ranker.catalogue.features is buffer
    blob = ranker.save()
    buffer[7, 1] += 1
    with pytest.raises(ValueError, match="features: they were changed after the ranker was made"):
        ranker.save()
    buffer[:] = FEATURES
    assert ranker.save() == blob
    view = buffer[:]
    view.setflags(write=False)
    catalogue = rr.Catalogue(view)
    buffer[7, 1] += 1
    with pytest.raises(ValueError, match="features: they were changed"):
        catalogue.check()


def test_whole_numbers_are_ids() -> None:
    catalogue = rr.Catalogue(FEATURES[:3], ids=[26, np.int64(7), "a"])
    assert catalogue.ids == ("26", "7", "a")


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a", None, "c"], r"ids\[1\]: None is neither a text nor a whole number"),
        (["a", "b", 1.5], r"ids\[2\]: 1.5 is neither"),
        ([True, "b", "c"], r"ids\[0\]: True is neither"),
        ("abc", "ids: 'abc' is not a list"),
        (3, "ids: 3 is not a list"),
        ({"a", "b", "c"}, "ids: a set has no order; give a list, one id per item"),
        (frozenset("abc"), "ids: a set has no order"),
    ],
)
def test_other_ids_are_refused(ids: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rr.Catalogue(FEATURES[:3], ids=ids)


def test_things_say_what_they_are() -> None:
    ranker = rr.Balanced(FEATURES, positions=4, rounds=1000, seed=0)
    assert repr(rr.Catalogue(FEATURES.astype("f4"))) == "<Catalogue: 50 items, 3 features (float32), no ids>"
    assert repr(ranker) == "<Balanced: 50 items, 3 features, 4 positions, 0 slates served>"
    slate = ranker.rank()
    assert repr(slate) == f"<Slate 0 of {ranker.identity}: {', '.join(map(str, slate.items))}>"
    requests = rr.Anchored(rr.Catalogue(FEATURES[:3], ids=["a", "b", "c"]), positions=2, rounds=10, seed=0)
    shown = requests.rank(candidates=["c", "a"])
    assert repr(shown) == f"<RequestSlate 0 of {requests.identity}: {', '.join(shown.ids or ())}>"
    assert repr(rr.Problem(np.eye(2), [0.25, 1])) == "<Problem: 2 items, 2 features, attraction from 0.25 to 1>"


@pytest.mark.parametrize(
    ("saved", "given", "said"),
    [
        (FEATURES.astype("f4"), FEATURES, "its features were float32, and these are float64"),
        (FEATURES, rr.Catalogue(FEATURES, ids=range(50)), "its items had no ids"),
        (FEATURES, FEATURES.astype("f4"), "these are 50 x 3 features as float32, without ids; load it with the same numbers"),
        (FEATURES, 1e300 * FEATURES, "these are 50 x 3 features as float64, without ids"),
    ],
)
def test_another_catalogue_is_told_from_the_right_one(saved: Any, given: Any, said: str) -> None:
    blob = rr.Balanced(saved, positions=5, rounds=1000, seed=0).save()
    with pytest.raises(ValueError, match=said):
        rr.load(blob, given)
