"""CLUB-cascade with users: its literal twin, hidden clusters that it finds, users that come, and saved states."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive_club import CLUBCascade as Twin

import recurrank as rr
from recurrank.rankers import CLUBCascade

HIDDEN = rr.requests.Users(items=300, dim=3, candidates=12, users=12, clusters=3, seed=1)


@pytest.mark.parametrize("number", range(20))
def test_same_slates(number):
    """Users of two or three kinds, new ones on the way, pinned and excluded candidates, requests without a user."""
    rng = np.random.default_rng(number)
    dim, positions, users = int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(2, 8))
    options = [{}, {"alpha": 0.3}, {"alpha": 0.15, "ridge": 0.5}, {"alpha": 0.0}, {"beta": 0.2, "alpha": 0.25}][number % 5]
    ranker = CLUBCascade(dim=dim, positions=positions, rounds=150, seed=0, **options)
    twin = Twin(np.zeros((1, dim)), positions, 150, None, **options)
    tastes = rng.standard_normal((2 + number % 2, dim))
    for t in range(150):
        user = int(rng.integers(1 + min(users, 1 + t // 8)))
        name = f"user {user}" if user else None
        points = rng.standard_normal((int(rng.integers(positions, 12)), dim)) / 2
        slate = ranker.rank(points, segment=name)
        assert slate.items.tolist() == twin.ranked(points, name), f"round {t}"
        clicks = rng.random(len(slate)) < np.clip(0.3 + points[slate.items] @ tastes[user % len(tastes)], 0, 1)
        ranker.learn(slate, clicks)
        twin.answered(points[slate.items], name, clicks.tolist())
    found = {frozenset(twin.cluster(user)) for user in twin.observed if user is not None}
    assert {frozenset(cluster) for cluster in ranker.clusters} == found


def test_clusters_do_fall_apart():
    """Some configurations above part users and leave others together; hidden clusters are found exactly in 10,000 rounds."""
    ranker = CLUBCascade(dim=3, positions=3, rounds=10_000)
    rr.simulate(ranker, clicks="cascade", requests=HIDDEN, rounds=10_000, seed=1)
    assert sorted(map(sorted, ranker.clusters)) == sorted(sorted(f"user {u}" for u in range(k, 12, 3)) for k in range(3))


def test_it_loses_less_than_one_without_clusters():
    """10,000 rounds: less than half of random, less than one estimate per user and than one for all, by a tenth each."""

    def lost(**options):
        ranker = CLUBCascade(dim=3, positions=3, rounds=10_000, **options)
        return rr.simulate(ranker, clicks="cascade", requests=HIDDEN, rounds=10_000, seed=1).regret[-1]

    world, rng = HIDDEN.world(), np.random.default_rng(0)
    ours, random = lost(), 0.0
    for _ in range(2000):
        alpha = world.attraction[rng.integers(12), rng.permutation(300)[:12]]
        random += 5 * (np.prod(1 - alpha[:3]) - np.prod(1 - np.sort(alpha)[-3:]))
    assert ours < random / 2
    assert ours < 0.9 * min(lost(alpha=0.0), lost(alpha=1e6))


def test_a_round_at_a_time_and_compiled_are_the_same():
    from recurrank.requests.world import COUNT, GROUP, draw, drawn
    from recurrank.seeds import stream

    one, many = (CLUBCascade(dim=3, positions=3, rounds=500, seed=0, alpha=0.3) for _ in range(2))
    world = HIDDEN.world()
    present, visitors, users = drawn(world, 3), stream(4, "requests", 0), stream(4, "users", 0)
    for name in world.segments:
        one.index_of(name)
    for _ in range(500):
        draw(present, visitors)
        rows, group = present.rows[: present.about[COUNT]], present.about[GROUP]
        assert present.truth.tolist() == world.attraction[group, rows].tolist()
        slate = one.rank(world.features[rows], segment=world.segments[group])
        assert slate.propensity.tolist() == [1.0] * 3
        one.learn(slate, rr.clicks.Cascade(present.truth.copy()).sample(slate.items, users))
    rr.simulate(many, clicks="cascade", requests=HIDDEN, rounds=500, seed=4)
    assert len(one.clusters) > 1
    assert one.save() == many.save()
    again = rr.load(one.save())
    assert again.clusters == one.clusters
    assert again.save() == one.copy().save() == one.save()


def test_users_beyond_the_last_are_one():
    """They have the estimate of requests without a user, and nobody else's slates change."""
    ranker, points = CLUBCascade(dim=2, positions=1, users=2), np.eye(2)
    for user in ("a", "b", "c", None, "d"):
        ranker.learn(ranker.rank(points, segment=user), [True])
    assert ranker.clusters == [["a", "b"]]
    assert ranker.state.seen.tolist() == [3, 1, 1]
    with pytest.raises(ValueError, match=r"^segment: 3 is not a name"):
        ranker.rank(points, segment=3)
    with pytest.raises(ValueError, match=r"^users: "):
        CLUBCascade(dim=2, users=0)


def test_pinned_items_teach_nothing():
    ranker = CLUBCascade(dim=2, positions=2)
    ranker.learn(ranker.rank(np.eye(2), pin={0: 1}, segment="a"), [False, True])
    np.testing.assert_array_equal(ranker.state.moments[1], np.outer([1, 1, 0], [1, 1, 0]))
