"""G-optimal designs: certified values, small supports, and the shapes of features that break naive code."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests import naive

import recurrank as rr
from recurrank.design import optimal, version_0_1_0
from recurrank.design.basis import start
from recurrank.design.steps import caratheodory, wolfe_atwood


def shapes():
    rng = np.random.default_rng(0)
    gauss = rng.standard_normal((3000, 6))
    low = rng.standard_normal((3000, 3)) @ rng.standard_normal((3, 8))
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    falling = (rng.standard_normal((3000, 8)) * 10.0 ** -np.linspace(0, 8, 8)) @ turn
    return {
        "gaussian": (gauss, 6),
        "rank deficient": (low, 3),
        "rank deficient, float32": (low.astype(np.float32), 3),
        "repeated items": (np.repeat(rng.standard_normal((5, 3)), 100, axis=0), 3),
        "one item": (rng.standard_normal((1, 5)), 1),
        "fewer items than features": (rng.standard_normal((4, 9)), 4),
        "rank one": (np.outer(rng.standard_normal(500), [1.0, 2.0, 3.0]), 1),
        "tiny": (1e-6 * gauss, 6),
        "huge": (1e6 * gauss, 6),
        "columns of different scales": (gauss * [1e-6, 1e6, 1, 1e3, 1, 1], 6),
        "one far from all others": (np.vstack([gauss, 1e7 * rng.standard_normal((1, 6))]), 6),
        "one very far from all others": (np.vstack([gauss[:200], [[1e8, -1e8, 1e8, 0, 0, 0]]]), 6),
        "one further still": (np.vstack([gauss[:200], [[1e9, -1e9, 1e9, 1e9, 0, 0]]]), 6),
        "one far and off the span": (np.vstack([low, 1e7 * rng.standard_normal((1, 8))]), 4),
        "orthogonal": (np.eye(50), 50),
        "a direction that one row in many has": (np.eye(20)[np.r_[np.zeros(30_000, int), np.arange(20)]], 20),
        "float32 with a falling spectrum": (falling.astype(np.float32), None),
        "with zeros": (np.vstack([np.zeros((10, 4)), np.eye(4)]), 4),
        "a grid": (np.stack(np.meshgrid(*[np.arange(-3.0, 4.0)] * 4), -1).reshape(-1, 4), 4),
        "integers": (rng.integers(-3, 4, (200, 3)), 3),
    }


@pytest.mark.parametrize("name", shapes())
@pytest.mark.parametrize("tolerance", [0.5, 0.05, 1e-4])
@pytest.mark.parametrize("room", [None, 50])
def test_design_of_every_shape(name, tolerance, room, monkeypatch):
    """With room for fifty rows in the pool, what fits into memory goes the way of what does not."""
    if room:
        monkeypatch.setattr(optimal, "POOL_NUMBERS", 0)
        monkeypatch.setattr(optimal, "START_ROWS", room)
    features, rank = shapes()[name]
    design = rr.g_optimal(features, tolerance)
    rank = design.rank if rank is None else rank  # where rounding decides, any rank is right that the rest agrees with
    assert design.rank == rank
    assert design.weights.sum() == pytest.approx(1, abs=1e-12)
    assert (design.weights > 0).all()
    assert len(np.unique(design.support)) == len(design.support) <= rank * (rank + 1) // 2
    assert rank * (1 - 1e-9) <= design.value <= rank * (1 + tolerance)
    if (
        "far" not in name and "further" not in name and "falling" not in name
    ):  # the plain pseudo-inverse has no digits left there
        scaled = np.asarray(features, dtype=np.float64) / np.abs(features).max(axis=0).clip(1e-300)
        assert naive.leverages(scaled, design.support, design.weights).max() == pytest.approx(design.value, rel=1e-6)


def test_far_row_certified_with_sixty_digits():
    """The row far from all others, with leverages in decimal arithmetic instead of floats."""
    features, _ = shapes()["one far from all others"]
    design = rr.g_optimal(features)
    with localcontext() as context:
        context.prec = 60
        rows = [[Decimal(float(v)) for v in row] for row in features]
        weighted = [(Decimal(float(w)), rows[a]) for w, a in zip(design.weights, design.support, strict=True)]
        table = [
            [sum(w * x[i] * x[j] for w, x in weighted) for j in range(6)] + [Decimal(int(i == j)) for j in range(6)]
            for i in range(6)
        ]
        for i in range(6):  # Gauss and Jordan; Q is positive definite, so no pivot is zero
            table[i] = [v / table[i][i] for v in table[i]]
            for r in range(6):
                if r != i:
                    table[r] = [a - table[r][i] * b for a, b in zip(table[r], table[i], strict=True)]
        inverse = [row[6:] for row in table]
        worst = max(sum(x[i] * inverse[i][j] * x[j] for i in range(6) for j in range(6)) for x in rows)
    assert float(worst) == pytest.approx(design.value, rel=1e-9)


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 40), st.integers(1, 6)),
        elements=st.floats(-100, 100, allow_nan=False, width=32).map(lambda v: 0.0 if abs(v) < 1e-3 else v),
    )
)
def test_any_small_matrix(features):
    if not features.any():
        with pytest.raises(ValueError, match="every feature of every item is zero"):
            rr.g_optimal(features)
        return
    design = rr.g_optimal(features, 0.05)
    rank = design.rank
    assert rank == np.linalg.matrix_rank(features)
    assert len(design.support) <= rank * (rank + 1) // 2
    assert design.weights.sum() == pytest.approx(1)
    assert design.value <= rank * 1.05
    scaled = features / np.abs(features).max(axis=0).clip(1e-300)
    assert naive.leverages(scaled, design.support, design.weights).max() == pytest.approx(design.value, rel=1e-5)


def test_value_falls_with_the_tolerance_towards_the_rank():
    features = np.random.default_rng(1).standard_normal((2000, 5))
    values = [rr.g_optimal(features, tolerance).value for tolerance in (0.5, 0.1, 0.01, 1e-4, 1e-6)]
    assert values[-1] == pytest.approx(5, rel=2e-6)
    assert values == sorted(values, reverse=True)


def test_many_violators_take_more_than_one_scan_and_end_certified():
    features = np.random.default_rng(2).standard_normal((60_000, 30))
    design = rr.g_optimal(features, 0.02)
    moments = (features[design.support].T * design.weights) @ features[design.support]
    exact = np.einsum("ij,jk,ik->i", features, np.linalg.inv(moments), features).max()
    assert design.value == pytest.approx(exact, rel=1e-9)
    assert exact <= 30 * 1.02
    assert 1 <= design.scans <= 6


def test_compiled_steps_are_the_twins():
    rng = np.random.default_rng(3)
    points = rng.standard_normal((40, 4))
    weights = np.zeros(40)
    weights[:6] = rng.dirichlet(np.ones(6))
    twin = weights.copy()
    for _ in range(60):
        inverse = np.linalg.inv((points.T * weights) @ points)
        done = wolfe_atwood(points, weights, inverse, 1e-3, 1)
        if done:
            break
        twin = naive.wolfe_atwood_step(points, twin)
        np.testing.assert_allclose(weights, twin, atol=1e-12)
        np.testing.assert_allclose(inverse, np.linalg.inv((points.T * weights) @ points), rtol=1e-8)
    assert done


@given(st.integers(0, 1000), st.integers(1, 4))
def test_caratheodory_never_raises_a_leverage(seed, rank):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((rank * (rank + 1) // 2 + int(rng.integers(0, 15)), rank))
    weights = rng.dirichlet(np.ones(len(points)))
    fewer = caratheodory(points, weights)
    assert (fewer >= 0).all()
    assert (fewer > 0).sum() <= rank * (rank + 1) // 2
    assert fewer.sum() == pytest.approx(1)
    before = naive.leverages(points, np.arange(len(points)), weights)
    held = np.flatnonzero(fewer > 0)
    after = naive.leverages(points, held, fewer[held])
    assert (after <= before * (1 + 1e-8)).all()


@pytest.mark.parametrize("seed", range(12))
def test_float32_at_the_edge_of_its_rank_ends(seed):
    """Rows that rounding puts on both sides of the span must not keep the search for a basis going."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    features = ((rng.standard_normal((20_000, 8)) * 10.0 ** -np.linspace(0, 8, 8)) @ turn).astype(np.float32)
    design = rr.g_optimal(features)
    assert 4 <= design.rank <= 8
    assert design.value <= design.rank * 1.05
    assert rr.volumetric_spanner(features).rank >= 4


def test_a_memory_map_gives_the_same_design(tmp_path):
    features = np.random.default_rng(4).standard_normal((5000, 7)).astype(np.float32)
    np.save(tmp_path / "x.npy", features)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    here, there = rr.g_optimal(features), rr.g_optimal(mapped)
    assert here.support.tolist() == there.support.tolist()
    assert here.value == there.value


@pytest.mark.parametrize("tolerance", [0, -1, float("nan"), float("inf"), 1e-9, None, "x"])
def test_bad_tolerance(tolerance):
    with pytest.raises(ValueError, match=r"^tolerance: "):
        rr.g_optimal(np.eye(2), tolerance)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_is_named_by_place(value):
    features = np.random.default_rng(0).standard_normal((10_000, 20))
    features[9_000, 13] = value
    with pytest.raises(ValueError, match=r"^features\[9000, 13\]: .* is not finite"):
        rr.g_optimal(features)


@pytest.mark.parametrize("large", [1, 3])
@pytest.mark.parametrize("times", [1e20, 1e100])
def test_items_far_larger_than_all_others_are_refused_in_one_line(large, times):
    features = np.random.default_rng(0).random((50, 5))
    features[:large] *= times
    for make in (rr.g_optimal, lambda rows: rr.Balanced(rows, positions=5, rounds=100, seed=0)):
        with pytest.raises(
            ValueError, match=r"^features: some items are .* times as large as others; give items of one scale$"
        ):
            make(features)


@pytest.mark.parametrize("large", [0, 1, 3, 5])
def test_items_a_million_million_times_as_large_as_others_have_a_design(large):
    features = np.random.default_rng(0).random((50, 5))
    features[:large] *= 1e12
    assert rr.g_optimal(features).value <= 5 * 1.05


def test_a_catalogue_of_zeros_but_for_a_few_rows():
    """None of which is in the sample that designs begin with."""
    features = np.zeros((40_000, 32), np.float32)
    sampled = np.union1d(start(40_000, optimal.POOL_NUMBERS // 32), start(40_000))
    places = np.setdiff1d(np.arange(40_000), sampled)[:5]
    features[places] = np.random.default_rng(0).standard_normal((5, 32))
    design = rr.g_optimal(features)
    assert design.support.tolist() == places.tolist()
    assert design.rank == 5
    assert design.value == pytest.approx(5)
    assert set(places) <= set(rr.volumetric_spanner(features).support)
    assert set(rr.RecurRank(features, 1, 1000, seed=0).blocks[0].explored) == set(places)


@pytest.mark.parametrize("caratheodory", [caratheodory, version_0_1_0.caratheodory])
def test_fewer_points_of_many(caratheodory):
    """Several rounds of null vectors, and Q as it was but for a factor of at least 1."""
    rng = np.random.default_rng(1)
    points, weights = rng.standard_normal((200, 6)), rng.dirichlet(np.ones(200))
    fewer = caratheodory(points, weights)
    assert (fewer > 0).sum() <= 21
    before, after = (points.T * weights) @ points, (points.T * fewer) @ points
    factor = after[0, 0] / before[0, 0]
    assert factor >= 1
    np.testing.assert_allclose(after, factor * before, rtol=1e-8, atol=1e-10)
