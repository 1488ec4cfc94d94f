"""Rankers of documents: equal to their literal twins, and what each of them must do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests import naive_documents as naive

import recurrank as rr
from recurrank.queries.simulation import QuerySimulation
from recurrank.rankers.documents import DocumentSlate, registered
from recurrank.seeds import stream

NAMES = sorted(registered())


def clicks_of(slate, labels, rng):
    return rng.random(len(slate)) < 0.15 + 0.2 * labels[slate]


@pytest.fixture(params=NAMES)
def kind(request):
    return registered()[request.param]


def small_queries(rng, dim=4, queries=12):
    """Queries of 1 to 15 documents whose labels follow the features."""
    sizes = rng.integers(1, 16, queries)
    features = rng.random((sizes.sum(), dim)).astype(np.float32)
    score = features @ np.linspace(1, -1, dim)
    labels = np.digitize(score, np.quantile(score, [0.5, 0.7, 0.85, 0.95]))
    return rr.queries.Queries(features, labels, np.concatenate([[0], np.cumsum(sizes)]))


def difference(ranker, twin, config, rounds=60) -> float:
    """Both see the same queries and clicks, and show the same: by how much theta differs at most, relative to its size."""
    rng, largest = np.random.default_rng(config), 0.0
    for t in range(rounds):
        count = int(rng.integers(1, 14))
        features, labels = rng.random((count, ranker.width)), rng.integers(0, 5, count)
        if t % 5 == 0:
            features[count // 2 :] = features[: count - count // 2]  # equal documents
        slate, expected = ranker.rank(features), twin.rank(features)
        assert slate.items.tolist() == list(expected), t
        clicks = clicks_of(slate.items, labels, rng)
        ranker.learn(slate, clicks)
        twin.learn(clicks.tolist())
        largest = max(largest, float((np.abs(ranker.weights - twin.theta) / (np.abs(twin.theta) + 0.01)).max()))
    assert np.abs(ranker.weights).max() > 0
    return largest


@pytest.mark.parametrize("config", range(20))
def test_pdgd_is_its_twin(config):
    dim, positions = 2 + config % 5, (2, 3, 4, 5, 10)[config % 5]
    options = {"learning_rate": (0.1, 1.0, 30.0)[config % 3], "decay": (1.0, 0.99)[config % 2]}
    ranker = rr.rankers.documents.PDGD(dim=dim, positions=positions, seed=config, **options)
    assert difference(ranker, naive.PDGD(dim, positions, ranker.copy().rng, **options), config) < 1e-9


@pytest.mark.parametrize("config", range(20))
def test_dbgd_and_mgd_are_their_twin(config):
    dim, positions, candidates = 2 + config % 5, (2, 3, 4, 5, 10)[config % 5], (1, 2, 5, 9)[config % 4]
    options = {"learning_rate": (0.01, 0.3)[config % 2], "decay": (1.0, 0.99)[config % 3 == 0]}
    if candidates == 1:
        ranker = rr.rankers.documents.DBGD(dim=dim, positions=positions, seed=config, **options)
    else:
        ranker = rr.rankers.documents.MGD(dim=dim, positions=positions, seed=config, candidates=candidates, **options)
    assert difference(ranker, naive.MGD(dim, positions, ranker.copy().rng, candidates, **options), config) < 1e-9


@pytest.mark.parametrize("config", range(20))
def test_pmgd_is_its_twin(config):
    dim, positions, candidates = 2 + config % 4, (2, 3, 4, 5)[config % 4], (1, 2, 3)[config % 3]
    options = {"learning_rate": (0.01, 0.3)[config % 2], "tau": (3.0, 1.0, 0.1, 100.0, 3.0)[config % 5]}
    ranker = rr.rankers.documents.PMGD(dim=dim, positions=positions, seed=config, candidates=candidates, **options)
    assert difference(ranker, naive.PMGD(dim, positions, ranker.copy().rng, candidates, **options), config, rounds=40) < 1e-9


@pytest.mark.parametrize("config", range(20))
def test_pairrank_is_its_twin(config):
    """Theta by Newton's method here and by another one there: equal to 1e-5."""
    dim, positions = 2 + config % 4, (2, 3, 5, 10)[config % 4]
    options = {"width": (0.1, 0.02, 0.5)[config % 3], "ridge": (0.1, 1.0)[config % 2]}
    ranker = rr.rankers.documents.PairRank(dim=dim, positions=positions, seed=config, **options)
    assert difference(ranker, naive.PairRank(dim, positions, ranker.copy().rng, **options), config, rounds=80) < 1e-5


def test_credits_keep_their_precision_however_fast_chances_fall():
    """At tau = 100 what a ranking has left falls by a factor of 10^30 with its first document."""
    features = np.random.default_rng(0).random((12, 2))
    for seed in range(20):
        ranker = rr.rankers.documents.PMGD(dim=2, positions=9, seed=seed, candidates=2, tau=100.0)
        twin = naive.PMGD(2, 9, ranker.copy().rng, 2, tau=100.0)
        slate = ranker.rank(features)
        assert slate.items.tolist() == twin.rank(features)
        np.testing.assert_allclose(slate.memory[:, :3], twin.credit, rtol=1e-9, atol=0)


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0, 10.0])
def test_pairrank_looks_no_further_than_it_has_to(scale):
    """The blocks of 40 documents from the bound on every pair, however few of them are computed."""
    rng = np.random.default_rng(0)
    ranker = rr.rankers.documents.PairRank(dim=3, positions=6, seed=0, width=0.2, ridge=1.0)
    twin = naive.PairRank(3, 6, ranker.copy().rng, width=0.2, ridge=1.0)
    pairs = rng.normal(size=(30, 3)) * [1.0, 3.0, 0.2]
    twin.theta, twin.inverse = scale * np.array([1.0, -0.5, 0.7]), np.linalg.inv(np.eye(3) + pairs.T @ pairs)
    ranker.state.theta[1:] = twin.theta
    ranker.state.root[:] = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(twin.inverse))).T
    for _ in range(8):
        features = rng.random((40, 3))
        assert ranker.rank(features).items.tolist() == twin.rank(features)


def test_directions_are_uniform_on_the_sphere():
    """Means of 4,000 coordinates have deviation 1 / sqrt(3 * 4000) = 0.0091, those of products less: four of them."""
    drawn = np.array([naive.direction(7919 * s, 1 + s % 3, 3) for s in range(4000)])
    np.testing.assert_allclose((drawn**2).sum(axis=1), 1)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.037)
    np.testing.assert_allclose(drawn.T @ drawn / 4000, np.eye(3) / 3, atol=0.037)


def test_pdgd_draws_slates_as_often_as_plackett_and_luce_say():
    """Chi-squared over all 12 slates of 2 out of 4 documents, 11 degrees of freedom: below 31.3 with probability 0.999."""
    ranker = rr.rankers.documents.PDGD(dim=4, positions=2, seed=0)
    scores = [0.0, 1.0, -0.5, 2.0]
    ranker.state.theta[1:] = scores
    seen = dict.fromkeys(itertools.permutations(range(4), 2), 0)
    for _ in range(5000):
        seen[tuple(ranker.rank(np.eye(4)).items.tolist())] += 1
    chance = {slate: 5000 * naive.luce(scores, slate) for slate in seen}
    assert sum((seen[slate] - chance[slate]) ** 2 / chance[slate] for slate in seen) < 31.3


def test_pdgd_survives_scores_that_are_far_apart():
    """Masses that underflow: the step is finite, and towards what was clicked."""
    ranker = rr.rankers.documents.PDGD(dim=3, positions=3, seed=0)
    ranker.state.theta[1:] = [5000.0, 0.0, -5000.0]
    slate = ranker.rank(np.eye(3))
    assert slate.items.tolist() == [0, 1, 2]
    ranker.learn(slate, [False, True, False])
    assert np.isfinite(ranker.weights).all()


def test_learns_the_order_of_the_labels(kind):
    rng = np.random.default_rng(0)
    train, test = small_queries(rng, queries=60), small_queries(rng, queries=60)
    ranker = kind(dim=4, positions=5, seed=0)
    run = rr.queries.simulate(ranker, train, "navigational", 4000, seed=0, test=test)
    assert run.ndcg[-1] > 0.85 > rr.queries.ndcg(test, rng.random(len(test.labels)), 5)
    assert rr.queries.ndcg(test, test.features @ ranker.weights, 5) == pytest.approx(run.ndcg[-1], abs=1e-12)


def test_a_query_at_a_time_and_compiled_are_the_same(kind):
    train = small_queries(np.random.default_rng(3))
    one, many = kind(dim=4, positions=5, seed=1), kind(dim=4, positions=5, seed=1)
    users = rr.queries.make_users("informational", 4, 5)
    simulation = QuerySimulation(many, train, users, seed=2)
    visitors, clicker = stream(2, "requests", 0), stream(2, "users", 0)
    for _ in range(300):
        q = int(visitors.random() * len(train))
        first, last = train.offsets[q], train.offsets[q + 1]
        slate = one.rank(train.features[first:last])
        clicks, labels = np.zeros(len(slate), bool), train.labels[first:last][slate.items]
        for k, label in enumerate(labels):
            clicks[k] = clicker.random() < users.click[label]
            if clicks[k] and clicker.random() < users.stop[label]:
                break
        one.learn(slate, clicks)
    simulation.advance(300)
    np.testing.assert_allclose(many.weights, one.weights, rtol=1e-9, atol=1e-12)
    assert many.served == one.served == 300


def test_save_load_and_copy_go_on_as_if_nothing_had_happened(kind):
    rng = np.random.default_rng(0)
    whole, first = kind(dim=3, positions=4, seed=5), kind(dim=3, positions=4, seed=5)

    def play(rankers, rounds):
        for _ in range(rounds):
            features, clicks = rng.random((8, 3)), rng.random(4) < 0.4
            slates = [ranker.rank(features) for ranker in rankers]
            assert len({tuple(slate.items.tolist()) for slate in slates}) == 1
            for ranker, slate in zip(rankers, slates, strict=True):
                ranker.learn(slate, clicks)

    play([whole, first], 50)
    pending = first.rank(rng.random((8, 3)))
    whole.adopt(pending)
    whole.rng.bit_generator.state = first.rng.bit_generator.state
    second, third = rr.load(first.save()), first.copy()
    assert second.save() == first.save()
    for ranker in (whole, second, third):
        ranker.learn(DocumentSlate.unpack(pending.pack()), [False, True, False, True])
    play([whole, second, third], 50)
    assert (second.weights == whole.weights).all()


def test_late_answers_in_any_order_and_never(kind):
    rng = np.random.default_rng(0)
    ranker, waiting = kind(dim=3, positions=4, seed=5), []
    for _ in range(400):
        waiting.append(ranker.rank(rng.random((9, 3))))
        while len(waiting) > 10:
            slate = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() < 0.8:
                ranker.learn(slate, slate.features[:, 0] > rng.random(4))
    assert ranker.rank(np.eye(3), explore=0).items[0] == 0


def test_rules_are_followed_and_pinned_documents_teach_nothing(kind):
    ranker, features = kind(dim=2, positions=3, seed=0), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    for _ in range(30):
        slate = ranker.rank(features, pin={1: 1}, exclude=[0])
        assert slate.items[1] == 1
        assert 0 not in slate.items
        ranker.learn(slate, [False, True, False])
    assert (ranker.weights == 0).all()


def test_nothing_is_learned_from_slates_that_do_not_explore(kind):
    ranker = kind(dim=2, positions=2, seed=0)
    slate = ranker.rank(np.eye(2), explore=0)
    ranker.learn(slate, [False, True])
    assert (ranker.weights == 0).all()
    assert slate.items.tolist() == [0, 1]


def test_a_catalogue_whose_items_are_named(kind):
    ranker = kind(rr.Catalogue(np.eye(4), ids=list("abcd")), positions=2, seed=0)
    assert set(ranker.rank(candidates=["b", "d"]).ids) == {"b", "d"}
    assert len(set(ranker.rank().ids)) == 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dim": None}, "dim"),
        ({"dim": 0}, "dim"),
        ({"positions": 0}, "positions"),
        ({"seed": -1}, "seed"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
    ],
)
def test_bad_arguments(change, field):
    with pytest.raises(ValueError, match=rf"^{field}: "):
        rr.rankers.documents.PDGD(**{"dim": 2, "positions": 2, "seed": 0, **change})


def test_bad_clicks_and_foreign_slates_change_nothing(kind):
    ranker, other = kind(dim=2, positions=2, seed=0), kind(dim=2, positions=2, seed=1)
    slate = ranker.rank(np.eye(2))
    before = ranker.save(), other.save()
    with pytest.raises(ValueError, match=r"^clicks: "):
        ranker.learn(slate, [True])
    with pytest.raises(ValueError, match=r"^slate: .*another ranker"):
        other.learn(slate, [True, False])
    assert (ranker.save(), other.save()) == before


def test_every_algorithm_documents_itself(kind):
    assert all(isinstance(text, str) and text for text in (kind.__doc__, kind.reference, kind.believes, kind.regret_bound))
