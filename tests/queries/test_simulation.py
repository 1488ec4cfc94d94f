"""Users, NDCG and the simulation of queries, against sums over everything that can happen."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import recurrank as rr
from recurrank.queries import metrics, users
from recurrank.queries.simulation import DISCOUNT


def enumerated(who, labels):
    """The probability of every vector of clicks, summed over all that users may do."""
    found = dict.fromkeys(itertools.product([False, True], repeat=len(labels)), 0.0)

    def go(k, clicks, chance):
        if k == len(labels):
            found[tuple(clicks)] += chance
            return
        p, s = who.examination[k] * who.click[labels[k]], who.stop[labels[k]]
        rest = [False] * (len(labels) - k - 1)
        for clicked, likely in ((True, p), (False, 1 - p)):
            stops = s if clicked or who.always else 0.0
            found[(*clicks, clicked, *rest)] += chance * likely * stops
            go(k + 1, [*clicks, clicked], chance * likely * (1 - stops))

    go(0, [], 1.0)
    return found


@pytest.mark.parametrize("leave", ["click", "always"])
@pytest.mark.parametrize("name", users.NAMES)
def test_clicks_are_as_frequent_as_the_definition_says(name, leave):
    """Chi-squared over the 8 vectors of 3 clicks, at most 7 degrees of freedom: below 24.3 with probability 0.999."""
    who, labels, rng = users.make_users(name, 4, 3, leave), np.array([1, 0, 3]), np.random.default_rng(0)
    chance, clicks = enumerated(who, labels), np.zeros(3, bool)
    seen = dict.fromkeys(chance, 0)
    for _ in range(4000):
        users.click(who, labels, rng, clicks)
        seen[tuple(clicks.tolist())] += 1
    assert sum(chance.values()) == pytest.approx(1)
    assert all(seen[what] == 0 for what, p in chance.items() if p == 0)
    assert sum((seen[what] - 4000 * p) ** 2 / (4000 * p) for what, p in chance.items() if p > 0) < 24.3
    assert users.expected(who, labels) == pytest.approx(sum(p * sum(what) for what, p in chance.items()))


def test_users_by_name():
    assert users.make_users("perfect", 4, 10).click.tolist() == [0, 0.2, 0.4, 0.8, 1]
    assert users.make_users("perfect", 4, 10).stop.tolist() == [0] * 5
    assert users.make_users("informational", 3, 10).stop.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert users.make_users("navigational", 1, 10).click.tolist() == [0.05, 0.95]
    assert users.make_users("position", 2, 2).click == pytest.approx([0.1, 0.4, 1])
    assert users.make_users("position", 0, 2).examination.tolist() == [1, 0.5]
    with pytest.raises(ValueError, match=r"^users: 'nobody' is unknown; choose from perfect"):
        users.make_users("nobody", 4, 10)
    with pytest.raises(ValueError, match=r"^users: .* up to 4, and the file has 5"):
        users.make_users("perfect", 5, 10)
    with pytest.raises(ValueError, match=r"^leave: "):
        users.make_users("perfect", 4, 10, "never")
    with pytest.raises(ValueError, match=r"^stop: shape"):
        users.Users.of([0.5, 0.5], [0.5], [1.0])


def test_ndcg_is_its_definition():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 9, 30)
    labels, offsets = rng.integers(0, 4, sizes.sum()), np.concatenate([[0], np.cumsum(sizes)])
    labels[: sizes[0]] = 0  # nothing to find
    queries, scores = rr.queries.Queries(rng.random((sizes.sum(), 2)), labels, offsets), rng.random(sizes.sum())
    total = 0.0
    for first, last in itertools.pairwise(offsets):
        order = sorted(range(first, last), key=lambda i: -scores[i])
        gain = [
            sum((2 ** labels[i] - 1) / math.log2(k + 2) for k, i in enumerate(some[:3]))
            for some in (order, list(best(labels, first, last)))
        ]
        total += gain[0] / gain[1] if gain[1] else 0
    assert rr.queries.ndcg(queries, scores, 3) == pytest.approx(total / 30)
    with pytest.raises(ValueError, match=r"^scores: "):
        rr.queries.ndcg(queries, scores[:-1])


def best(labels, first, last):
    return sorted(range(first, last), key=lambda i: -labels[i])


def test_totals_are_what_the_slates_say():
    """With one query whose documents are all alike, every impression has the same NDCG and expected clicks."""
    train = rr.queries.Queries(np.zeros((3, 1)), [2, 2, 2], [0, 3])
    ranker = rr.rankers.documents.PDGD(dim=1, positions=2, seed=0)
    run = rr.queries.simulate(ranker, train, "perfect", 50, seed=0, checkpoints=[1, 20, 50])
    assert run.rounds.tolist() == [1, 20, 50]
    assert run.online == pytest.approx((1 - DISCOUNT ** np.array([1, 20, 50])) / (1 - DISCOUNT))
    assert run.regret == pytest.approx([0, 0, 0])
    assert run.clicks[-1] == 100
    assert np.isnan(run.ndcg).all()


def test_anchored_learns_from_queries_too():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 600)
    train = rr.queries.Queries(
        np.column_stack([labels / 4 + rng.normal(0, 0.2, 600), rng.random(600)]), labels, np.arange(0, 601, 10)
    )
    run = rr.queries.simulate(rr.Anchored(dim=2, positions=5, seed=0), train, "perfect", 1000, seed=0, test=train)
    assert run.ndcg[-1] > 0.8
    assert run.ndcg[-1] == pytest.approx(rr.queries.ndcg(train, train.features[:, 0], 5), abs=0.05)


def test_the_best_slates():
    queries = rr.queries.Queries(np.zeros((4, 1)), [0, 3, 0, 0], [0, 2, 4])
    assert [slate.tolist() for slate in metrics.ideal_slates(queries, 1)] == [[3], [0]]
    assert metrics.ideal_dcg(queries, 1).tolist() == [7, 0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"ranker": "pdgd"}, "ranker"),
        ({"impressions": 0}, "impressions"),
        ({"users": "nobody"}, "users"),
        ({"users": users.make_users("perfect", 1, 2)}, "users"),
        ({"users": users.make_users("perfect", 4, 1)}, "users"),
        ({"train": rr.queries.Queries(np.zeros((2, 2)), [0, 1], [0, 2])}, "train"),
        ({"test": rr.queries.Queries(np.zeros((2, 2)), [0, 1], [0, 2])}, "test"),
        ({"checkpoints": [3, 2]}, "checkpoints"),
        ({"checkpoints": [0.5]}, "checkpoints"),
    ],
)
def test_bad_arguments(change, field):
    given = {
        "ranker": rr.rankers.documents.PDGD(dim=1, positions=2, seed=0),
        "train": rr.queries.Queries(np.zeros((3, 1)), [0, 1, 2], [0, 3]),
        "impressions": 10,
    }
    with pytest.raises(ValueError, match=rf"^{field}: "):
        rr.queries.simulate(**{**given, **change})
