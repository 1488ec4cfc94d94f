"""Problems, the paper's transform, catalogues."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import recurrank as rr
from recurrank.seeds import stream


def test_synthetic_is_the_papers():
    """The draw as the paper describes it, step by step."""
    rng = stream(4, "problem")
    items, theta = rng.standard_normal((50, 2)), rng.standard_normal(2)
    features = [np.append(x / (np.sqrt(2) * np.linalg.norm(x)), 1 / np.sqrt(2)) for x in items]
    weight = np.append(theta / (np.sqrt(2) * np.linalg.norm(theta)), 1 / np.sqrt(2))
    problem = rr.synthetic(items=50, dim=3, seed=4)
    np.testing.assert_allclose(problem.features, features, atol=1e-15)
    np.testing.assert_allclose(problem.theta, weight, atol=1e-15)
    np.testing.assert_allclose(problem.attraction, [x @ weight for x in features], atol=1e-12)


@given(hnp.arrays(np.float64, (5, 3), elements=st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6)))
def test_transformed_vectors_have_products_in_the_unit_interval(vectors):
    if not np.linalg.norm(vectors, axis=1).all():
        with pytest.raises(ValueError, match=r"^vectors: one is zero"):
            rr.transform(vectors)
        return
    x = rr.transform(vectors)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1)
    products = x @ x.T
    assert (products >= -1e-12).all()
    assert (products <= 1 + 1e-12).all()


@pytest.mark.parametrize("theta", [[2.0, 0.0], [-0.5, 0.5], [np.nan, 0.0]])
def test_attraction_outside_the_unit_interval_is_named(theta):
    with pytest.raises(ValueError, match=r"^attraction\[0\]: .* lies outside \[0, 1\]"):
        rr.Problem(np.eye(2), theta)


def test_bad_problems():
    for theta in ([[1.0], [1.0, 2.0]], "ab", None):
        with pytest.raises(ValueError, match=r"^theta: "):
            rr.Problem(np.eye(2), theta)
    with pytest.raises(ValueError, match=r"^vectors: "):
        rr.transform([[1.0], [1.0, 2.0]])
    for tiny_or_huge in (1e-200, 1e200):
        np.testing.assert_allclose(rr.transform([tiny_or_huge] * 2), [0.5, 0.5, 0.5**0.5])
    with pytest.raises(ValueError, match=r"^seed: "):
        rr.synthetic(3, 3, seed="a")
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.asmatrix(np.eye(2))
    assert rr.Problem(matrix, [0.5, 0.5]).attraction.shape == (2,)
    with pytest.raises(ValueError, match=r"^theta: shape is \(3,\); it should be \(2,\)"):
        rr.Problem(np.eye(2), [1, 2, 3])
    for arguments, field in (((0, 3), "items"), ((3, 1), "dim"), ((2.5, 3), "items")):
        with pytest.raises(ValueError, match=rf"^{field}: "):
            rr.synthetic(*arguments)


def test_catalogue_ids():
    with pytest.raises(ValueError, match=r"^ids\[2\]: 'a' is the id of item 0 already"):
        rr.Catalogue(np.eye(3), ids=["a", "b", "a"])
    with pytest.raises(ValueError, match=r"^ids: 5 is not a list"):
        rr.Catalogue(np.eye(3), ids=5)
    with pytest.raises(ValueError, match=r"^ids: 2 ids for 3 items"):
        rr.Catalogue(np.eye(3), ids=["a", "b"])
    catalogue = rr.Catalogue(np.eye(3), ids=["a", "b", "c"])
    ranker = rr.RecurRank(catalogue, positions=2, rounds=100, seed=0)
    assert {catalogue.ids[a] for a in ranker.rank().items} <= {"a", "b", "c"}
    assert rr.load(ranker.save(), catalogue).served == 1


def test_fingerprint_sees_every_feature_shape_type_and_id():
    x = np.random.default_rng(0).standard_normal((30, 4))
    other = x.copy()
    other[29, 3] = np.nextafter(other[29, 3], 9)
    names = [str(i) for i in range(30)]
    prints = {
        rr.Catalogue(f, ids=i).fingerprint
        for f, i in [
            (x, None),
            (other, None),
            (x.reshape(40, 3), None),
            (x.astype(np.float32), None),
            (x, names),
        ]
    }
    assert len(prints) == 5
    assert rr.Catalogue(x).fingerprint == rr.Catalogue(np.asfortranarray(x)).fingerprint
