"""The checker of Assumptions 1 to 3: right where the answer is known, and its counterexamples are real."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recurrank as rr
from recurrank.clicks.assumptions import check

ALPHA = np.array([0.9, 0.7, 0.5, 0.3, 0.1])


@pytest.mark.parametrize("name", ["document", "position", "cascade", "dependent"])
def test_the_papers_models_satisfy_everything(name):
    report = check(rr.clicks.make(name, ALPHA, 3), 3)
    assert all(finding.holds and finding.proved for finding in report)
    assert report.suits_recurrank


@given(st.integers(0, 10**6))
def test_every_counterexample_is_one(seed):
    rng = np.random.default_rng(seed)
    alpha = rng.random(5)
    model = [
        rr.clicks.PositionBased(alpha, rng.random(3)),
        rr.clicks.DependentClick(alpha, rng.random(3)),
        rr.clicks.UserBrowsing(alpha, rng.random((3, 3))),
        rr.clicks.DynamicBayesian(alpha, rng.random(5), rng.random()),
        rr.clicks.ClickChain(alpha, *rng.random(3)),
    ][seed % 5]
    report = check(model, 3)
    best = model.best(3)
    if not report.order_free.holds:
        a, b = report.order_free.rankings
        chi_a, chi_b = model.examine(a), model.examine(b)
        assert any(set(a[:k]) == set(b[:k]) and abs(chi_a[k] - chi_b[k]) > 1e-9 for k in range(3))
    if not report.decreasing.holds:
        assert (np.diff(model.examine(report.decreasing.rankings[0])) > 1e-9).any()
    if not report.least_at_best.holds:
        assert (model.examine(report.least_at_best.rankings[0]) < model.examine(best) - 1e-9).any()
    if not report.best_is_best.holds:
        assert model.expected(report.best_is_best.rankings[0]).sum() > model.expected(best).sum() + 1e-9


def test_what_breaks_each_assumption():
    chain = check(rr.clicks.DependentClick(ALPHA, [0.9, 0.1, 0.5]), 3)
    assert not chain.order_free.holds
    assert "the same items above it" in chain.order_free.counterexample
    rising = check(rr.clicks.PositionBased(ALPHA, [0.5, 1.0, 0.2]), 3)
    assert (rising.order_free.holds, rising.decreasing.holds, rising.least_at_best.holds) == (True, False, True)
    assert not rising.best_is_best.holds
    unsatisfying = rr.clicks.DynamicBayesian(ALPHA, satisfaction=[0.1, 0.9, 0.1, 0.9, 0.1], continuation=1.0)
    report = check(unsatisfying, 3)
    assert (report.order_free.holds, report.decreasing.holds, report.least_at_best.holds) == (True, True, False)
    assert not report.suits_recurrank


def test_search_finds_counterexamples_in_large_catalogues_and_says_when_it_did_not_prove():
    alpha = np.random.default_rng(0).random(500)
    holds = check(rr.clicks.Cascade(alpha), 6, tries=300)
    assert all(finding.holds and not finding.proved for finding in holds)
    broken = check(rr.clicks.DependentClick(alpha, np.linspace(0.9, 0.1, 6)), 6, tries=300)
    assert not broken.order_free.holds
    assert broken.order_free.proved
    satisfaction = np.random.default_rng(1).random(500)
    assert not check(rr.clicks.DynamicBayesian(alpha, satisfaction, 0.9), 6, tries=300).least_at_best.holds


def test_search_and_enumeration_agree():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        model = rr.clicks.ClickChain(rng.random(6), *rng.random(3))
        exact, searched = check(model, 4), check(model, 4, limit=1)
        assert [f.holds for f in exact] == [f.holds for f in searched]
