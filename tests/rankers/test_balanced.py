"""Balanced: coordinates, candidates, certificates, and answers that come late. Its decisions are in test_twins.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recurrank as rr
from recurrank.rankers import balanced
from recurrank.rankers.balanced import Balanced
from recurrank.rankers.engines.coordinates import Coordinates
from recurrank.rankers.engines.posterior import candidates
from recurrank.theory import certificates


@given(seed=st.integers(0, 10**6), dim=st.integers(1, 6), scale=st.sampled_from([1e-4, 1.0, 1e5]))
def test_coordinates_have_unit_moments_and_keep_every_attraction(seed, dim, scale):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(40, dim)) * scale
    features[:, -1] = features[:, 0]  # a direction too many
    catalogue = rr.Catalogue(features)
    coordinates = Coordinates.of(catalogue.features, None, catalogue.scales)
    points, support = coordinates.points(catalogue.features), coordinates.support
    np.testing.assert_allclose(points @ coordinates.back, features, atol=1e-7 * scale)
    assert coordinates.reach(features[:5] + features[5:10])
    assert not coordinates.reach(np.eye(dim)[-1:] * scale) or dim == 1
    design = rr.g_optimal(features, 0.1)
    moments = (points[design.support] * design.weights[:, None]).T @ points[design.support]
    np.testing.assert_allclose(moments, np.eye(points.shape[1]), atol=1e-8)
    assert sorted(support) == sorted(design.support)
    values = features @ rng.normal(size=dim)
    solution = np.linalg.lstsq(points, values, rcond=None)[0]
    np.testing.assert_allclose(points @ solution, values, atol=1e-7 * np.abs(values).max())
    assert (points**2).sum(axis=1).max() <= points.shape[1] * 1.1 + 1e-6


@given(seed=st.integers(0, 10**6), width=st.integers(1, 6), radius=st.sampled_from([0.01, 0.3, 3.0]))
def test_candidates_are_all_that_can_be_among_the_best(seed, width, radius):
    rng = np.random.default_rng(seed)
    features, theta = rng.normal(size=(50, 3)), rng.normal(size=3)
    spread = np.linalg.cholesky(np.linalg.inv(np.eye(3) + np.cov(features[:10].T) * 10))
    items = rng.permutation(50)[:40].astype(np.int32)
    near = candidates(features, items, theta, spread, radius, width)
    scores = features[items] @ theta
    assert np.array_equal(near[:width], np.argsort(-scores, kind="stable")[:width])
    assert (np.diff(scores[near]) <= 0).all()
    for _ in range(50):
        z = rng.normal(size=3)
        sampled = features[items] @ (theta + spread @ (z * radius / np.linalg.norm(z) * rng.random()))
        assert set(np.argsort(-sampled)[:width]) <= set(near)


@pytest.mark.parametrize("confidence", ["tuned", "proved"])
@pytest.mark.parametrize("clicks", ["cascade", "position-based", "document-based", "dependent-click"])
def test_what_it_is_sure_of_is_so(confidence, clicks):
    certified = 0
    for seed in range(3):
        attraction = np.random.default_rng(seed).uniform(0.02, 0.95, 8)
        ranker = Balanced(np.eye(8), positions=3, rounds=30_000, seed=seed, confidence=confidence)
        seen = certificates(ranker, rr.clicks.make(clicks, attraction, 3), 30_000, seed)
        assert seen.wrong == 0
        certified += seen.certified
    assert certified > 0 or confidence == "proved"


def test_certificates_that_are_wrong_are_counted(monkeypatch):
    monkeypatch.setattr(balanced, "BETA", 0.05)
    model = rr.clicks.DocumentBased(np.linspace(0.52, 0.48, 8))
    wrong = [certificates(Balanced(np.eye(8), 3, 1_000, seed), model, 1_000, seed).wrong for seed in range(10)]
    assert sum(wrong) > 3


def test_answers_count_while_the_set_above_stands(monkeypatch):
    """A slate from before a cut: the first block's data set goes on, that of a block that is no more does not."""
    monkeypatch.setattr(balanced, "BETA", 1.5)
    model, users = rr.clicks.DocumentBased([0.95, 0.6, 0.3, 0.1, 0.05]), np.random.default_rng(0)
    ranker = Balanced(np.eye(5), positions=3, rounds=5_000, seed=0)
    early = ranker.rank()
    while len(ranker.blocks) == 1:
        slate = ranker.rank()
        ranker.learn(slate, model.sample(slate, users))
    before = ranker.state.moments.copy()
    ranker.learn(early, [True, False, False])
    assert np.trace(ranker.state.moments[0]) > np.trace(before[0])
    assert np.array_equal(ranker.state.moments[1:], before[1:])
    stranger = rr.Slate(early.items, np.array([[12345, 0], [-1, -1], [-1, -1]]), early.number, early.ranker)
    before = ranker.state.moments.copy()
    ranker.learn(stranger, [True, False, False])
    assert np.array_equal(ranker.state.moments, before)


def test_accounts_pay_for_what_copies_have_shown(problem):
    """What copies spend, the ranker that adopts their slates has spent; what it is paid is the average of theirs."""
    model, users = rr.clicks.make("position-based", problem.attraction, 5), np.random.default_rng(0)
    learner = Balanced(problem.features, positions=5, rounds=20_000, seed=0)
    rr.simulate(learner, model, 300, seed=0)
    paid, adopted = [], []
    for seed in range(200):
        ranker, copy = learner.copy(), learner.copy(seed=seed)
        slates = [copy.rank() for _ in range(30)]
        for slate in slates:
            ranker.adopt(slate)
        adopted.append(ranker.state.account - learner.state.account)
        paid.append(copy.state.account - learner.state.account)
    assert np.ptp(adopted, axis=0).max() > 0  # some asked, some did not
    apart = np.array(adopted) - paid  # costs are the same, payments are so on average: within 4 standard errors
    assert (np.abs(apart.mean(axis=0)) <= 4 * apart.std(axis=0) / np.sqrt(len(apart)) + 1e-6).all()
    asking = next(slate for slate in slates if slate.marks[0, 1] > len(slate))
    before = ranker.state.moments.copy()
    ranker.learn(asking, model.sample(asking, users))  # the position, whatever else the mark says
    assert (ranker.state.moments != before).any()


def test_half_of_the_slates_lost_and_the_rest_late(problem):
    model = rr.clicks.make("position-based", problem.attraction, 5)
    rng, waiting = np.random.default_rng(0), []
    ranker = Balanced(problem.features, positions=5, rounds=20_000, seed=0)
    best, lost = model.expected(model.best(5)).sum(), []
    for t in range(20_000):
        slate = ranker.rank()
        lost.append(best - model.expected(slate).sum())
        if t % 2:
            waiting.append((slate, model.sample(slate, rng)))
        else:
            ranker.drop(slate)
        if len(waiting) > 500:
            ranker.learn(*waiting.pop(int(rng.integers(len(waiting)))))
    assert np.mean(lost[-2000:]) < 0.1 * np.mean(lost[:500])


@pytest.mark.parametrize("options", [{"confidence": "sure"}, {"delta": 0.0}, {"delta": 2.0}, {"delta": "small"}])
def test_bad_options(options, problem):
    with pytest.raises(ValueError, match=r"^(confidence|delta): "):
        Balanced(problem.features, positions=3, rounds=100, **options)
