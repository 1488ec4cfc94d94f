"""RankZoom: everything is covered by an active item, and few are active where nothing is to be found."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr


def test_everything_is_covered_and_the_good_part_is_looked_at_closely():
    """Two clusters of thirty items, one clicked: at the first position most active items are of that one."""
    rng = np.random.default_rng(0)
    features = np.repeat(np.eye(2), 30, axis=0) + rng.normal(0, 0.15, (60, 2))
    attraction = np.clip(np.r_[0.7 + 0.2 * (features[:30, 0] - 1), np.full(30, 0.05)], 0, 1)
    ranker = rr.rankers.make("ranked-zooming", features=features, positions=2, rounds=30_000, seed=0, exploration=0.1)
    rr.simulate(ranker, rr.clicks.DocumentBased(attraction), 30_000, seed=1)
    state, longest = ranker.state, np.linalg.norm(features, axis=1).max()
    for k in range(2):
        active = state.active[k, : state.many[k]]
        assert len(set(active)) == len(active)
        radius = np.sqrt(0.1 * np.log(30_000) / (1 + state.seen[k, active]))
        apart = np.linalg.norm(features[active][:, None] - features[None], axis=2) / longest
        assert (apart <= radius[:, None] + 1e-12).any(axis=0).all()
    first = state.active[0, : state.many[0]]
    assert (first < 30).mean() > 0.6
    assert state.seen[0, :30].sum() > 0.9 * state.seen[0].sum()


def test_the_length_of_features_does_not_matter():
    problem = rr.synthetic(items=20, dim=3, seed=0)
    model = rr.clicks.make("document", problem.attraction, 3)
    runs = []
    for scale in (1.0, 1024.0):
        ranker = rr.rankers.make("ranked-zooming", features=problem.features * scale, positions=3, rounds=3000, seed=0)
        runs.append(rr.simulate(ranker, model, 3000, seed=1).regret[-1])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200])
def test_features_of_any_size(scale):
    """Their squares neither overflow nor vanish: the same slates as at length 1."""
    features = np.random.default_rng(0).normal(size=(30, 3))
    shown = []
    for factor in (1.0, scale):
        ranker = rr.rankers.make("ranked-zooming", features=factor * features, positions=3, rounds=1000, seed=0)
        shown.append([ranker.rank().items.tolist() for _ in range(50)])
    assert shown[0] == shown[1]
