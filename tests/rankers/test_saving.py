"""Saved rankers: checked, versioned, never half loaded."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import recurrank as rr
from recurrank.rankers.saving import MAGIC


@pytest.fixture
def ranker(problem, position_model):
    ranker = rr.RecurRank(problem.features, positions=5, rounds=3000, seed=0)
    rr.simulate(ranker, position_model, 3000, seed=0)
    return ranker


def test_truncated_at_any_length_is_refused(ranker, problem):
    blob = ranker.save()
    for length in [0, 1, len(MAGIC), len(MAGIC) + 5, 100, len(blob) // 2, len(blob) - 1]:
        with pytest.raises(ValueError, match=r"^saved ranker: "):
            rr.load(blob[:length], problem.features)


def test_any_altered_byte_is_refused(ranker, problem):
    blob = bytearray(ranker.save())
    for place in np.linspace(0, len(blob) - 1, 60).astype(int):
        altered = bytearray(blob)
        altered[place] ^= 1
        with pytest.raises(ValueError, match=r"^saved ranker: "):
            rr.load(bytes(altered), problem.features)


def test_newer_version_is_named(ranker, problem):
    blob = bytearray(ranker.save())
    blob[len(MAGIC) : len(MAGIC) + 2] = (99).to_bytes(2, "big")
    blob[-32:] = hashlib.sha256(bytes(blob[:-32])).digest()
    with pytest.raises(ValueError, match="version 99 is newer than 3"):
        rr.load(bytes(blob), problem.features)


def test_older_version_is_named(ranker, problem):
    blob = bytearray(ranker.save())
    blob[len(MAGIC) : len(MAGIC) + 2] = (1).to_bytes(2, "big")
    blob[-32:] = hashlib.sha256(bytes(blob[:-32])).digest()
    with pytest.raises(ValueError, match="version 1 is older than 3"):
        rr.load(bytes(blob), problem.features)


def test_another_catalogue_is_refused(ranker, problem):
    blob = ranker.save()
    changed = problem.features.copy()
    changed[7, 2] += 1e-9
    for other in (
        changed,
        problem.features[:-1],
        problem.features.astype(np.float32),
        rr.Catalogue(problem.features, ids=map(str, range(40))),
    ):
        with pytest.raises(ValueError, match=r"^features: not the catalogue"):
            rr.load(blob, other)


def test_the_catalogue_is_not_in_it():
    rng = np.random.default_rng(0)
    small = rr.RecurRank(rng.standard_normal((1000, 4)), positions=3, rounds=100, seed=0)
    large = rr.RecurRank(rng.standard_normal((1000, 60)), positions=3, rounds=100, seed=0)
    assert abs(len(large.save()) - len(small.save())) < 60_000 < 1000 * 60 * 8
    assert len(small.save()) < 1000 * 4 + 10_000  # an order over the items is four bytes per item


@pytest.mark.parametrize("blob", ["abc", None, 5, b"", b"something else entirely, but long enough to have a digest at its end"])
def test_what_is_no_saved_ranker(problem, blob):
    with pytest.raises(ValueError, match=r"^saved ranker: "):
        rr.load(blob, problem.features)


def test_restored_has_history_and_blocks(ranker, problem):
    copy = rr.load(ranker.save(), problem.features)
    assert copy.options() == ranker.options()
    assert [(c.id, c.closed) for c in copy.history] == [(c.id, c.closed) for c in ranker.history]
    assert all((a.theta == b.theta).all() for a, b in zip(copy.history, ranker.history, strict=True))
    assert [b.items.tolist() for b in copy.blocks] == [b.items.tolist() for b in ranker.blocks]
    assert copy.feedback == ranker.feedback
