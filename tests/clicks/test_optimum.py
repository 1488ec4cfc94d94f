"""The best ranking of every click model against all rankings, and where it cannot be known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import recurrank as rr
from recurrank.clicks import optimum as module
from recurrank.clicks.optimum import FOUND, WARNING, optimum


def models(rng, items, positions, attraction):
    recent = np.sort(rng.random((positions, positions)), axis=1)
    recent = np.column_stack([recent[:, 1:], recent[:, 0]])  # a recent click raises the examination
    return [
        rr.clicks.DocumentBased(attraction),
        rr.clicks.Cascade(attraction),
        rr.clicks.PositionBased(attraction, rng.random(positions)),
        rr.clicks.DependentClick(attraction, rng.random(positions) ** 3),
        rr.clicks.DependentClick(attraction, np.full(positions, rng.random())),
        rr.clicks.DynamicBayesian(attraction, rng.random(items), rng.random() ** 0.1),
        rr.clicks.ClickChain(attraction, *rng.random(3)),
        rr.clicks.ClickChain(attraction, 1.0, 1.0, 0.0),
        rr.clicks.UserBrowsing(attraction, rng.random((positions, positions))),
        rr.clicks.UserBrowsing(attraction, recent),
        rr.clicks.DependentClick(attraction, np.sort(rng.random(positions))[::-1]),
    ]


def factored(attraction):
    return rr.clicks.Factored(attraction, lambda shown, k: 0.5**k * (1 + shown[0] % 2) / 2)


@pytest.mark.parametrize("browsed", [module.BROWSED, 0])  # user browsing: all rankings, and branch and bound
def test_no_ranking_has_more_clicks(monkeypatch, browsed):
    monkeypatch.setattr(module, "BROWSED", browsed)
    rng, better, unknown = np.random.default_rng(0), set(), 0
    for trial in range(40):
        items = int(rng.integers(2, 7))
        positions = int(rng.integers(1, min(items, 4) + 1))
        attraction = rng.random(items) if trial % 3 else rng.choice([0.0, 0.3, 1.0], items)
        tried = models(rng, items, positions, attraction)
        if trial % 8 == 1 and browsed:
            tried.append(factored(attraction))  # now and then: each is compiled
        for number, model in enumerate(tried):
            found = model.optimum(positions)
            clicks = [model.expected(ranking).sum() for ranking in permutations(range(items), positions)]
            if not found.exact:
                unknown += 1
                assert (model.name, browsed) == ("user-browsing", 0)
                continue
            assert found.expected.sum() == pytest.approx(max(clicks), abs=1e-9), model.name
            assert found.expected.tolist() == model.expected(found.items).tolist()
            if found.expected.sum() > model.expected(model.best(positions)).sum() + 1e-9:
                better.add(number)
    assert 10 not in better  # the continuation falls
    assert better >= ({2, 3, 5, 7, 11} if browsed else {2, 3, 5, 7})  # where attraction is not the order to show
    assert (unknown > 0) == (browsed == 0)


@pytest.mark.parametrize("name", rr.clicks.names())
def test_the_presets_have_an_exact_optimum_at_the_papers_size(name):
    attraction = rr.synthetic(items=10_000, dim=5, seed=0).attraction
    model = rr.clicks.make(name, attraction, 10)
    found = optimum(model, 10)
    assert found.exact
    rng = np.random.default_rng(0)
    best, top = found.expected.sum(), model.best(200)
    for _ in range(300):  # rankings near it
        assert model.expected(rng.permutation(top)[:10]).sum() <= best + 1e-9
    assert (best > model.expected(model.best(10)).sum() + 1e-9) == (name == "click-chain")


def test_regret_is_against_the_best_ranking():
    """The click chain's regret against the ranking by attraction was -73,268 after a million rounds."""
    problem = rr.synthetic(items=200, dim=4, seed=0)
    model = rr.clicks.make("click-chain", problem.attraction, 5)
    shown = model.optimum(5).items
    clever = np.zeros(200)
    clever[shown] = np.linspace(1, 0.5, 5)  # an oracle that knows more than the attraction
    ranker = rr.rankers.make("oracle", features=problem.features, positions=5, rounds=1000, attraction=clever)
    run = rr.simulate(ranker, model, 1000, seed=0)
    assert run.optimum == "exact"
    assert abs(run.regret[-1]) < 1e-9
    assert model.expected(model.best(5)).sum() < model.expected(shown).sum()


def test_what_cannot_be_known_is_said():
    rng = np.random.default_rng(0)
    attraction, satisfied = rng.random(50), rng.random(50)
    model = rr.clicks.Factored(attraction, lambda shown, k: 0.9**k * (1 - satisfied[shown[0]] * (k > 0)))
    found = model.optimum(5)
    assert (found.exact, found.kind) == (False, FOUND)
    assert found.expected.sum() > model.expected(model.best(5)).sum()  # the search has found better than attraction
    ranker = rr.rankers.make("random", features=np.eye(50), positions=5, rounds=100, seed=0)
    assert rr.simulate(ranker, model, 100).optimum == FOUND
    assert "negative" in WARNING
