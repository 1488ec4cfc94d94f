"""Probabilities of slates in the log: packed and unpacked, exported, returned on request; older slates have none."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.serving.running import ITEMS

import recurrank as rr
from recurrank.logs.reading import read
from recurrank.serving.audit import export
from recurrank.serving.chances import Chances
from recurrank.serving.events import pack_slates, slate_size, unpack_chances, unpack_items
from recurrank.serving.service import Service
from recurrank.serving.spec import LoggedSpec, RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report

CATALOGUE = rr.Catalogue(np.array([features for _, features in ITEMS], float), [item for item, _ in ITEMS])


def packed(marginal, joint, marks=0, given=None):
    """A slate; ``given`` are probabilities given the items above, by default not known."""
    positions = len(marginal)
    items, marked = np.arange(positions, dtype=np.int32)[None], np.full((1, positions, 2), 7, np.int64)
    above = np.full((1, positions), np.nan) if given is None else np.array([given])
    chances = Chances(np.array([marginal], float), np.array([joint], float), above)
    return pack_slates(items, marked, np.array([marks]), chances)[0]


@given(
    st.lists(st.one_of(st.floats(2**-14, 1), st.just(float("nan")), st.just(0.0)), min_size=1, max_size=40),
    st.floats(2**-100, 1),
    st.data(),
)
def test_what_is_packed_is_unpacked(marginal, joint, data):
    """To half a unit of half precision, 2^-11; the joint to single precision."""
    if joint > 1 - 2**-24:
        marginal = [1.0] * len(marginal)
    positions, marks = len(marginal), data.draw(st.integers(0, len(marginal)))
    payload = packed(marginal, joint, marks)
    assert slate_size(payload, positions) == 4 * positions + 16 * marks
    assert unpack_items(payload, positions) == tuple(range(positions))
    found, whole, _ = unpack_chances(payload, positions)
    np.testing.assert_allclose(found, marginal, rtol=2**-11)
    assert whole == pytest.approx(joint, rel=2**-23)


@pytest.mark.parametrize(
    ("marginal", "joint", "size"), [([1.0] * 10, 1.0, 4), ([0.1] * 10, 1e-9, 8), ([0.2, *[0.9] * 9], 0.2, 12)]
)
def test_how_much_it_takes(marginal, joint, size):
    assert len(packed(marginal, joint)) == 40 + size


@pytest.mark.parametrize("payload", [b"", bytes(7), bytes(41), bytes(40 + 12), bytes(40 + 16 * 11), "a" * 40, None])
def test_what_is_not_a_slate(payload):
    assert slate_size(payload, 10) == -1


def test_slates_of_older_versions_have_none():
    payload = np.arange(10, dtype="<i4").tobytes() + bytes(32)
    assert slate_size(payload, 10) == 72
    assert unpack_chances(payload, 10) == (None, None, None)


@pytest.mark.parametrize("algorithm", ["recurrank", "cascade-lints"])
def test_they_are_stored_returned_and_exported(tmp_path, algorithm):
    pq = pytest.importorskip("pyarrow.parquet")
    service = Service(open_store(f"sqlite:///{tmp_path}/log.db"), seed=0, start=False)
    try:
        service.create("films", RankerSpec(algorithm=algorithm, positions=2), CATALOGUE)
        known = algorithm != "cascade-lints"
        asked = [service.rank("films", propensity=True) for _ in range(20)]
        assert all((slate.propensity is not None) == known == (slate.joint is not None) for slate in asked)
        assert service.rank("films").propensity is None
        assert service.rank("films", asked[0].slate, propensity=True) == asked[0]
        if known:
            assert all(0 < slate.joint <= min(slate.propensity) * (1 + 2**-10) for slate in asked)
        service.step()
        export(service.store, tmp_path / "log.parquet")
    finally:
        service.close()
    rows = [row for row in pq.read_table(tmp_path / "log.parquet").to_pylist() if row["kind"] == "served"]
    assert [row["propensity"] for row in rows[:20]] == [slate.propensity for slate in asked]
    assert [row["joint"] for row in rows[:20]] == [slate.joint for slate in asked]
    for row in rows[:20]:
        assert (row["conditional"] is not None) == known
        if known:
            assert np.prod(row["conditional"]) == pytest.approx(row["joint"], rel=1e-6)
            assert row["conditional"][0] == pytest.approx(row["propensity"][0], rel=2e-3)


@pytest.mark.parametrize("algorithm", ["recurrank", "linucb"])
def test_a_share_of_uniform_slates(tmp_path, algorithm):
    """3,000 slates of a view, share 0.4: what comes as often as it says, chi-squared at 10^-4; every slate there is comes."""
    service = Service(open_store(f"sqlite:///{tmp_path}/log.db"), seed=0, start=False)
    try:
        service.create("films", RankerSpec(algorithm=algorithm, positions=2, explore_uniform=0.4), CATALOGUE)
        seen, expected = Counter(), Counter()
        for _ in range(3000):
            slate = service.rank("films", propensity=True)
            seen[tuple(slate.items)] += 1
            expected[tuple(slate.items)] += 1 / slate.joint  # adds up to 3,000 for every slate
            assert min(slate.propensity) >= 0.4 / len(ITEMS) * (1 - 2**-10)
        service.feedback([Report(slate.slate, (0,), True)])
        service.step()
        pq = pytest.importorskip("pyarrow.parquet")
        export(service.store, tmp_path / "log.parquet")
        rows = [row for row in pq.read_table(tmp_path / "log.parquet").to_pylist() if row["kind"] == "served"]
        given, joint = np.array([row["conditional"] for row in rows]), np.array([row["joint"] for row in rows])
        np.testing.assert_allclose(given[:, 0], [row["propensity"][0] for row in rows], rtol=2e-3)
        np.testing.assert_allclose(given.prod(axis=1), joint, rtol=3e-3)
    finally:
        service.close()
    assert len(seen) == len(ITEMS) * (len(ITEMS) - 1)
    deviations = [(total - 3000) / np.sqrt(3000 * (total / seen[items] - 1)) for items, total in expected.items()]
    assert stats.chi2.sf(np.square(deviations).sum(), len(deviations)) > 1e-4


def test_who_cannot_tell_is_refused():
    with pytest.raises(ValueError, match="explore_uniform: 'ranked-bandits' cannot tell"):
        RankerSpec(algorithm="ranked-bandits", positions=2, explore_uniform=0.1).check_served()


def test_specifications_of_before_are_read_and_written_as_they_were():
    spec = LoggedSpec.of(RankerSpec(positions=2))
    assert b"explore_uniform" not in spec.pack()
    assert LoggedSpec.unpack(spec.pack()) == spec
    other = LoggedSpec.of(RankerSpec(positions=2, explore_uniform=0.5))
    assert LoggedSpec.unpack(other.pack()) == other


@pytest.mark.parametrize("algorithm", ["balanced", "anchored"])
def test_what_was_seen_is_exported_and_read_back(tmp_path, algorithm):
    pytest.importorskip("pyarrow.parquet")
    service = Service(open_store(f"sqlite:///{tmp_path}/log.db"), seed=0, start=False)
    try:
        service.create("films", RankerSpec(algorithm=algorithm, positions=3), CATALOGUE)
        for n in range(3):
            service.rank("films", f"s{n}")
        service.feedback([Report("s0", (1,), True, (0, 1)), Report("s1", (0,), True), Report("s2", (), True, ())])
        export(service.store, tmp_path / "log.parquet")
    finally:
        service.close()
    log = read(tmp_path / "log.parquet")
    np.testing.assert_array_equal(log.seen, [[True, True, False], [True] * 3, [False] * 3])
    assert log.on_screen().lengths.tolist() == [2, 3]
