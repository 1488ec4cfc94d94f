"""Requests: candidates, rules, segments, contexts, bad input; slates that carry what learning needs; items that come and go."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive_anchored import Anchored as Twin

import recurrank as rr
from recurrank.rankers import request_ranker
from recurrank.rankers.contextual import BASELINES
from recurrank.rankers.engines import anchoring
from recurrank.rankers.engines.anchored_requests import GIVEN, answer
from recurrank.rankers.request import RequestSlate, rules
from recurrank.rankers.stock import Stock
from recurrank.seeds import stream

D, K = 3, 4


@pytest.fixture
def points():
    return np.random.default_rng(5).standard_normal((30, D)) / 3


@pytest.fixture
def shop(points):
    return rr.Catalogue(points, ids=[f"item {i}" for i in range(30)])


def made(**options):
    return rr.Anchored(**{"dim": D, "positions": K, "seed": 3, **options})


def clicks_on(slate, rng):
    """Position-based clicks of an attraction that is linear in the features."""
    chances = (0.3 + slate.features[:, :D] @ np.array([0.3, -0.2, 0.1])) / np.arange(1, len(slate) + 1)
    return rng.random(len(slate)) < np.clip(chances, 0, 1)


def play(ranker, points, rounds, seed=0, **request):
    rng, slates = np.random.default_rng(seed), []
    for _ in range(rounds):
        slate = ranker.rank(points[rng.permutation(len(points))[:12]], **request)
        slates.append(slate.items.tolist())
        ranker.learn(slate, clicks_on(slate, rng))
    return slates


@pytest.mark.parametrize("link", ["linear", "logistic"])
def test_requests_are_the_twins(points, link):
    """The same slates as the literal version, request by request, each with other candidates."""
    ranker, twin = made(link=link), Twin(points, K, 1, stream(3, "ranker"), link=link)
    rng = np.random.default_rng(1)
    for t in range(300):
        rows = rng.permutation(30)[: rng.integers(K, 20)]
        slate = ranker.rank(points[rows])
        assert rows[slate.items].tolist() == twin.rank_request(rows.tolist()), f"round {t}"
        clicks = clicks_on(slate, rng)
        ranker.learn(slate, clicks)
        twin.learn(rows[slate.items].tolist(), clicks.tolist())


@given(
    seed=st.integers(0, 10**6), count=st.integers(1, 12), positions=st.integers(1, K),
    out=st.sets(st.integers(0, 11), max_size=4), pinned=st.dictionaries(st.integers(0, K - 1), st.integers(0, 11), max_size=2),
)  # fmt: skip
def test_rules_are_kept(seed, count, positions, out, pinned):
    """Pinned items stand where they should, excluded ones nowhere, nothing twice; or one line says why that cannot be."""
    ranker = RANKER
    rows = np.random.default_rng(seed).standard_normal((count, D))
    before = ranker.served
    try:
        slate = ranker.rank(rows, exclude=out, pin=pinned, positions=positions)
    except ValueError as error:
        field, _, line = str(error).partition(": ")
        possible = not set(pinned.values()) & out and len(set(pinned.values())) == len(pinned)
        possible = possible and set(pinned.values()) <= set(range(count)) and set(range(count)) - out
        possible = possible and all(k < min(positions, len(set(range(count)) - out)) for k in pinned)
        assert (bool(possible), field in ("pin", "exclude"), "\n" in line, ranker.served) == (False, True, False, before)
        return
    shown = slate.items.tolist()
    assert len(set(shown)) == len(shown) == min(positions, len(set(range(count)) - out))
    assert not set(shown) & out
    for position, item in pinned.items():
        assert shown[position] == item
        assert not slate.free[position]
    assert slate.free.sum() == len(shown) - len(pinned)
    np.testing.assert_array_equal(slate.features, rows[shown])
    ranker.learn(slate, np.random.default_rng(seed).random(len(shown)) < 0.3)


RANKER = made()


BAD = [
    ({"features": [[1.0, 2.0]]}, r"features: shape is \(1, 2\)"),
    ({"features": [[1.0, 2.0, np.nan]]}, r"features\[0, 2\]: nan"),
    ({"features": [[1.0, 2.0], [3.0]]}, "features: rows of different lengths"),
    ({"features": np.zeros((0, D))}, "features: shape is"),
    ({}, "features: missing"),
    ({"features": np.eye(D), "candidates": ["a", "b"]}, "candidates: 2 ids for 3 rows"),
    ({"features": np.eye(D), "candidates": ["a", "b", "a"]}, r"candidates\[2\]: 'a' is repeated"),
    ({"features": np.eye(D), "candidates": "abc"}, "candidates: 'abc' is not a list"),
    ({"features": np.eye(D), "context": [1.0]}, "context: this ranker was made without one"),
    ({"features": np.eye(D), "context": []}, "context: this ranker was made without one"),
    ({"features": np.full((2, D), 1e31)}, r"features\[0, 0\]: 1e\+31 is larger than 1e\+30; give it in another unit"),
    ({"features": np.ma.masked_equal(np.eye(D), 1)}, "features: some entries are masked"),
    ({"features": 1j * np.eye(D)}, "features: rows of different lengths or not numbers"),
    ({"features": np.eye(D), "candidates": ["a", ["b"], "c"]}, r"candidates\[1\]: \['b'\] is not an id"),
    ({"features": np.eye(D), "candidates": {"a", "b", "c"}}, "candidates: a set has no order"),
    ({"features": np.eye(D), "exclude": [[0]]}, r"exclude\[0\]: \[0\] is not an id"),
    ({"features": np.eye(D), "exclude": np.array(0)}, "exclude: 0 is not a list"),
    ({"features": np.eye(D), "pin": {0: [1]}}, r"pin\[0\]: \[1\] is not an id"),
    ({"features": np.eye(D), "pin": np.array([1, 2])}, r"pin: array\(\[1, 2\]\) is not a mapping"),
    ({"features": np.eye(D), "exclude": [0, 1, 2]}, "exclude: no candidate is left"),
    ({"features": np.eye(D), "exclude": "0"}, "exclude: '0' is not a list"),
    ({"features": np.eye(D), "pin": {0: 7}}, "pin: 7 is not among the candidates"),
    ({"features": np.eye(D), "pin": {K: 0}}, f"pin: {K} is not a position"),
    ({"features": np.eye(D), "pin": {3: 0}}, "pin: position 3 is beyond the 3"),
    ({"features": np.eye(D), "pin": {0: 1, 1: 1}}, "pin: 1 is pinned twice"),
    ({"features": np.eye(D), "pin": {0: 1}, "exclude": [1]}, "pin: 1 is excluded too"),
    ({"features": np.eye(D), "pin": [1]}, r"pin: \[1\] is not a mapping"),
    ({"features": np.eye(D), "positions": K + 1}, "positions: 5 is more than the 4"),
    ({"features": np.eye(D), "positions": 0}, "positions: 0 is too small"),
    ({"features": np.eye(D), "segment": 7}, "segment: 7 is not a name"),
    ({"features": np.eye(D), "segment": ["x"]}, r"segment: \['x'\] is not a name"),
    ({"features": np.eye(D), "explore": 1.5}, "explore: 1.5 is not a share"),
]


@pytest.mark.parametrize(("request_", "line"), BAD)
def test_bad_requests_change_nothing(request_, line):
    ranker = made()
    before = ranker.save()
    with pytest.raises(ValueError, match=f"^{line}"):
        ranker.rank(**request_)
    assert ranker.save() == before


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"dim": None}, "dim: missing"),
        ({"features": np.eye(5)}, "dim: 3 is not the 5 features"),
        ({"dim": 0}, "dim: "),
        ({"link": "probit"}, "link: "),
        ({"discount": 0.1}, "discount: "),
        ({"context": -1}, "context: "),
        ({"interactions": "all"}, "interactions: "),
        ({"ridge": 0.0}, "ridge: "),
    ],
)
def test_bad_options(options, line):
    with pytest.raises(ValueError, match=f"^{line}"):
        made(**options)


def test_bad_answers(points):
    ranker, other = made(), made(seed=4)
    slate = ranker.rank(points)
    with pytest.raises(ValueError, match=r"^clicks: shape is \(3,\); it should be \(4,\)"):
        ranker.learn(slate, [True] * 3)
    with pytest.raises(ValueError, match=r"^slate: it was served by another ranker"):
        other.learn(slate, [True] * K)


def test_the_whole_of_a_catalogue_has_the_same_errors(shop):
    ranker = rr.Anchored(shop, positions=K, seed=0)
    for request_, line in (
        ({"context": [1.0]}, "context: this ranker was made without one"),
        ({"candidates": ["item 1", ["item 2"]]}, r"candidates\[1\]: \['item 2'\] is not an id"),
        ({"exclude": [["item 1"]]}, r"exclude\[0\]: \['item 1'\] is not an id"),
        ({"pin": {1: {}}}, r"pin\[0\]: {} is not an id"),
    ):
        with pytest.raises(ValueError, match=f"^{line}"):
            ranker.rank(**request_)


def test_names_come_in_any_collection(shop):
    """As a set, keys, an array or a generator: the slates of a list."""
    names = ["item 3", "item 9", "item 5", "item 2", "item 7"]
    for given_ in (dict.fromkeys(names), dict.fromkeys(names).keys(), np.array(names), (n for n in names), tuple(names)):
        one, other = (rr.Anchored(shop, positions=K, seed=0) for _ in range(2))
        assert one.rank(candidates=given_).ids == other.rank(candidates=names).ids
    assert set(one.rank(candidates=set(names)).ids) <= set(names)
    for given_ in (np.array(names), iter(names), set(names)):
        assert one.copy().rank(exclude=given_).ids == one.copy().rank(exclude=names).ids


KINDS = {kind.name: kind for kind in (rr.Anchored, rr.rankers.CLUBCascade, *BASELINES.values())}
MANY = [(kind, {}) for kind in KINDS.values()] + [(rr.Anchored, {"link": "logistic"})]


@pytest.mark.parametrize(("kind", "options"), MANY)
@pytest.mark.parametrize("size", [1e9, 1e30, 1e200])
def test_large_features_do_not_stop_learning(kind, options, size):
    """Equal rows, whose moments are singular to rounding; what is too large to be added up, from old logs, is passed over."""
    ranker, rng = kind(dim=D, positions=K, seed=0, **options), np.random.default_rng(0)
    for turn in range(40):
        slate = ranker.rank(np.ones((6, D)) if turn % 2 else rng.random((6, D)))
        if turn % 2:
            slate = dataclasses.replace(slate, features=np.full_like(slate.features, size))
        ranker.learn(slate, rng.random(K) < 0.4)
    assert np.isfinite(ranker.state.moments).all()
    assert np.isfinite(ranker.state.theta).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker.knowledge()
    assert len(ranker.rank(np.eye(D))) == D


def test_what_is_too_large_is_refused(shop, points):
    ranker = rr.Anchored(shop, positions=K, seed=0)
    visits = made(context=1, interactions="outer")
    for bad, line in (
        (lambda: ranker.add(["new"], [[1e200, 0, 0]]), "features: 1e\\+200, of 'new', is larger than 1e\\+30"),
        (lambda: ranker.update(["item 1"], [[-1e31, 0, 0]]), "features: 1e\\+31, of 'item 1', is larger"),
        (lambda: rr.Anchored(np.full((5, D), 1e31), positions=K), r"features\[0, 0\]: 1e\+31 is larger"),
        (lambda: visits.rank(points, context=[1e31]), r"context\[0\]: 1e\+31 is larger"),
        (lambda: visits.rank(1e20 * np.ones((5, D)), context=[1e20]), r"context: products with features reach 1e\+40"),
    ):
        with pytest.raises(ValueError, match=f"^{line}"):
            bad()
    assert ranker.catalogue is rr.load(ranker.save(), ranker.catalogue).catalogue
    assert "new" not in ranker.catalogue.index
    poisoned = made()
    poisoned.state.moments[0, 0, 0] = np.inf
    with pytest.raises(ValueError, match=r"^saved ranker: it has learned from features that were too large"):
        rr.load(poisoned.save())


@pytest.mark.parametrize("kind", KINDS.values())
def test_late_answers_teach_about_the_items_that_were_shown(kind):
    """Whatever has become of these, also where a request was for the whole catalogue."""
    late, prompt = (kind(rr.Catalogue(np.eye(5), ids=list("abcde")), positions=1, seed=0) for _ in range(2))
    slates = [late.rank() for _ in range(60)]
    assert [slate.ids for slate in slates] == [prompt.rank().ids for _ in range(60)]
    late.remove(["a"])
    late.add(["new"], [[0, 0, 0, 0, 3.0]])
    late.update(["b"], [[0, 0, 7.0, 0, 0]])
    for slate in slates:
        np.testing.assert_array_equal(slate.features, np.eye(5)["abcde".index(slate.ids[0])][None])
        for ranker in (late, prompt):
            ranker.learn(dataclasses.replace(slate, ranker=ranker.identity), [slate.ids == ("a",)])
    np.testing.assert_array_equal(late.state.theta, prompt.state.theta)
    np.testing.assert_array_equal(late.state.moments, prompt.state.moments)
    late.drop(slates[0])
    with pytest.raises(ValueError, match=r"^slate: int is not a slate"):
        late.learn(3, [True])


def test_short_slates_learn(points):
    ranker = made()
    slate = ranker.rank(points[:2])
    assert len(slate) == 2
    ranker.learn(slate, [True, False])
    assert len(ranker.rank(points, positions=1)) == 1


def test_candidates_of_a_catalogue(shop, points):
    ranker = rr.Anchored(shop, positions=K, seed=0)
    slate = ranker.rank(candidates=["item 3", "item 9", "item 5"], pin={1: "item 5"}, exclude=["item 9", "elsewhere"])
    assert slate.ids == ("item 3", "item 5")
    assert slate.items.tolist() == [3, 5]
    np.testing.assert_array_equal(slate.features, points[[3, 5]])
    for names, line in ((["item 3", "x"], r"candidates\[1\]: 'x' is not an item"), ([], "candidates: none")):
        with pytest.raises(ValueError, match=f"^{line}"):
            ranker.rank(candidates=names)
    assert set(ranker.rank(exclude=["item 0"]).ids) <= set(shop.ids) - {"item 0"}


def test_items_come_and_go(shop, points):
    ranker = rr.Anchored(shop, positions=K, seed=0)
    late = ranker.rank()
    removed = list(late.ids[:2])
    ranker.remove(removed)
    assert len(ranker.catalogue) == 28
    for _ in range(50):
        slate = ranker.rank()
        assert not set(slate.ids) & set(removed)
        ranker.learn(slate, [True, False, False, False])
    ranker.add(["new"], [[9.0, 9.0, 9.0]])
    ranker.update(["item 29"], [[0.1, 0.2, 0.3]])
    assert ranker.rank(candidates=["new", "item 29"]).features.tolist() in (
        [[9.0, 9.0, 9.0], [0.1, 0.2, 0.3]], [[0.1, 0.2, 0.3], [9.0, 9.0, 9.0]],
    )  # fmt: skip
    for bad, line in (
        (lambda: ranker.add(["new"], points[:1]), r"ids\[0\]: 'new' is in the catalogue already"),
        (lambda: ranker.add(["a", "b"], points[:1]), "ids: 2 ids for 1 rows"),
        (lambda: ranker.add(["a"], np.ma.masked_equal(np.ones((1, D)), 1)), "features: some entries are masked"),
        (lambda: ranker.remove(removed), r"ids\[0\]: .* is not an item"),
        (lambda: ranker.update(["x"], points[:1]), r"ids\[0\]: 'x' is not an item"),
    ):
        with pytest.raises(ValueError, match=f"^{line}"):
            bad()
    again = rr.load(ranker.save(), ranker.catalogue)
    assert again.rank().ids == ranker.rank().ids
    ranker.remove([name for name in ranker.catalogue.ids if name][: len(ranker.catalogue) - 2])
    assert len(ranker.rank()) == 2


def test_a_shortlist_gives_the_slates_of_the_whole_catalogue(monkeypatch):
    """Exact: the same slates as when all items are candidates, in every round."""
    points = np.random.default_rng(0).standard_normal((300, D)) / 3
    monkeypatch.setattr(request_ranker, "LARGE", 50)
    short = rr.Anchored(points, positions=K, seed=1)
    monkeypatch.setattr(request_ranker, "LARGE", 10_000)
    whole = rr.Anchored(points, positions=K, seed=1)
    rng = np.random.default_rng(2)
    for _ in range(400):
        monkeypatch.setattr(request_ranker, "LARGE", 50)
        slate = short.rank()
        clicks = rng.random(K) < 0.3 + points[slate.items, 0] / 3
        short.learn(slate, clicks)
        monkeypatch.setattr(request_ranker, "LARGE", 10_000)
        other = whole.rank()
        assert slate.items.tolist() == other.items.tolist()
        whole.learn(other, clicks)
    assert len(short.state.short) < 300 == len(whole.state.short)


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"exclude": ["item 0", "elsewhere"]},
        {"pin": {1: "item 299"}},
        {"segment": "phone", "positions": 2},
        {"explore": 0.5},
        {"exclude": [f"item {i}" for i in range(40)]},
    ],
)
def test_rules_for_a_large_catalogue_are_exact_too(monkeypatch, rules):
    """From the shortlist as from all items, whether a request leaves out a few (the shortlist has spare ones) or many."""
    points = np.random.default_rng(0).standard_normal((300, D)) / 3
    shop = rr.Catalogue(points, ids=[f"item {i}" for i in range(300)])
    monkeypatch.setattr(request_ranker, "LARGE", 50)
    ranker = rr.Anchored(shop, positions=K, seed=1)
    rng = np.random.default_rng(2)
    for _ in range(60):
        other = ranker.copy()
        slate, whole = ranker.rank(**rules), other.rank(candidates=shop.ids, **rules)
        assert slate.ids == whole.ids
        assert (slate.propensity == whole.propensity).all()
        ranker.learn(slate, rng.random(len(slate)) < 0.3 + points[slate.items, 0] / 3)
    assert len(ranker.state.short) < 300


def test_an_iterator_leaves_out_as_much_as_a_list(monkeypatch):
    points = np.random.default_rng(0).standard_normal((300, D)) / 3
    monkeypatch.setattr(request_ranker, "LARGE", 50)
    ranker = rr.Anchored(points, positions=K, seed=1)
    first = ranker.rank().items.tolist()
    most = np.argsort(-points @ np.random.default_rng(1).standard_normal(D))[:40].tolist() + first + ranker.state.short.tolist()
    slate, other = ranker.copy().rank(exclude=iter(most)), ranker.copy().rank(exclude=most)
    assert slate.items.tolist() == other.items.tolist()
    assert len(slate) == K


def discounted(rounds, link="linear", discount=0.9, **request):
    points = np.random.default_rng(5).standard_normal((30, D)) / 3
    ranker = made(link=link, discount=discount)
    play(ranker, points, rounds, **request)
    return ranker


@pytest.mark.parametrize("link", ["linear", "logistic"])
def test_a_discount_is_the_twins(points, link):
    """Short slates among the others; 150 answers, of which a logistic ranker linearises the first 144 anew."""
    ranker, twin = made(link=link, discount=0.95), Twin(points, K, 1, stream(3, "ranker"), link=link, discount=0.95)
    rng = np.random.default_rng(1)
    for t in range(150):
        rows = rng.permutation(30)[: rng.integers(1, 20)]
        slate = ranker.rank(points[rows])
        assert rows[slate.items].tolist() == twin.rank_request(rows.tolist()), f"round {t}"
        clicks = clicks_on(slate, rng)
        ranker.learn(slate, clicks)
        twin.learn(rows[slate.items].tolist(), clicks.tolist())
    np.testing.assert_allclose(ranker.state.theta, twin.theta, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ranker.state.answered, twin.answered)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.999])
def test_an_answer_counts_by_its_age(discount):
    """The newest in full, the one before it times the discount, whenever estimates are made."""
    ranker = discounted(120, discount=discount, positions=2)
    since = int(ranker.state.clock[0] - ranker.state.clock[4])
    counted = ranker.state.answered * discount**since
    np.testing.assert_allclose(counted, [(1 - discount**120) / (1 - discount)] * 2 + [0, 0])


def test_the_newest_answers_are_not_forgotten():
    """2,000 answers at a click rate of 0.3, of which some two count: the mean of theta was 0.05."""
    ranker, rng, found = (
        rr.Anchored(dim=1, positions=1, discount=0.5, ridge=0.01, intercept=False, seed=0),
        np.random.default_rng(0),
        [],
    )
    for _ in range(2000):
        ranker.learn(ranker.rank([[1.0]]), [rng.random() < 0.3])
        found.append(float(ranker.state.theta[1]))
    assert np.mean(found) == pytest.approx(0.3, abs=0.05)


def test_linearising_anew_keeps_the_discount():
    """The same answers 64 and 65 times: moments that were made anew are of as much weight as those that grew."""
    anew, plain = discounted(64, "logistic", 0.9), made(link="logistic", discount=0.9)
    plain.state.clock[3] = 10**9  # it is never time to linearise anew
    play(plain, np.random.default_rng(5).standard_normal((30, D)) / 3, 64)
    assert int(anew.state.clock[0]) == int(anew.state.clock[4]) == 64
    weights = [float(ranker.state.moments[:, 1, 1].sum()) for ranker in (anew, plain)]
    assert 0.5 < weights[0] / weights[1] < 2


REQUESTS = [
    {},
    {"positions": 2},
    {"pin": {0: 3}},
    {"pin": {1: 2}, "exclude": [4]},
    {"explore": 0.3},
    {"explore": 0.0},
    {"pin": {0: 1, 1: 2, 2: 0, 3: 3}},
]


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("rounds", [0, 60])
def test_probabilities_of_all_slates_add_up(points, request_, rounds):
    """The law of a request, by asking for every slate that there is: a probability, with these marginals, and what is drawn."""
    ranker = made()
    play(ranker, points, rounds)
    rows, size = points[:6], request_.get("positions", K)
    pin, exclude = request_.get("pin", {}), request_.get("exclude", [])
    allowed = rules(range(6), exclude, pin, size)
    account, law, added = float(ranker.state.account[0]), {}, np.zeros((size, 6))
    for items in itertools.permutations(range(6), size):
        if any(items[k] != item for k, item in pin.items()) or set(items) & set(exclude):
            continue
        marginal, joint = np.ones(size), 1.0
        if len(allowed.slots):
            given = np.searchsorted(allowed.rows, np.array(items)[allowed.slots])
            share = request_.get("explore", 1.0)
            choice, _, _ = ranker._outcome(rows, allowed.rows, allowed.slots, share, GIVEN, account, given)
            marginal[allowed.slots], joint = choice.marginal, choice.joint
        law[items] = (marginal, joint)
        added[range(size), items] += joint
    assert sum(joint for _, joint in law.values()) == pytest.approx(1, abs=1e-12)
    for items, (marginal, _) in law.items():
        np.testing.assert_allclose(marginal, added[range(size), items], atol=1e-12)
    copy, seen = None, Counter()
    for seed in range(1000):
        copy = ranker.copy(seed, into=copy)
        slate = copy.rank(rows, **request_)
        items = tuple(slate.items.tolist())
        assert slate.joint == law[items][1]
        assert slate.propensity.tolist() == law[items][0].tolist()
        seen[items] += 1
    off = sum((seen[items] - 1000 * joint) ** 2 / (1000 * joint) for items, (_, joint) in law.items() if joint > 0)
    freedom = sum(joint > 0 for _, joint in law.values()) - 1
    assert off <= freedom + 5 * np.sqrt(2 * max(freedom, 1))  # chi-square, five deviations above its mean


@pytest.mark.parametrize("link", ["linear", "logistic"])
@pytest.mark.parametrize("dim", [1, 3, 7, 8, 13, 32])
def test_one_call_shows_what_the_compiled_rounds_choose(dim, link):
    """With probabilities, one call computes all outcomes; without, ``choose`` computes the one it needs: equal to the bit."""
    rng = np.random.default_rng(dim)
    one, other = (rr.Anchored(dim=dim, positions=K, seed=3, link=link) for _ in range(2))
    names, done = [f"x{i}" for i in range(25)], Counter()
    for turn in range(150):
        rows = rng.standard_normal((25, dim)).round(turn % 3) / 3  # rounded ones have equal scores
        request_ = {"features": rows, "candidates": names, "explore": 1.0 if turn % 5 else 0.5}
        request_ |= [{}, {"pin": {1: "x7"}, "exclude": ["x3"]}, {"positions": 2}][turn % 3]
        slate, again = one.rank(**request_), other.rank(**request_, propensity=False)
        assert slate.names == again.names
        assert (slate.done, slate.change) == (again.done, again.change)
        assert (slate.features == again.features).all()
        done[slate.done] += 1
        clicks = rng.random(len(slate)) < 0.3
        one.learn(slate, clicks)
        other.learn(again, clicks)
    assert one.save() == other.save()
    assert set(done) == {0, 1, 2}


def test_scores_of_items_are_remembered_only_while_they_hold(shop, points):
    """A ranker that ranks by id, one that is given the same features: equal slates, as items and estimates change."""
    rng, names = np.random.default_rng(0), list(shop.ids)
    by_id, copy = rr.Anchored(shop, positions=K, seed=1), None
    for turn in range(60):
        copy = by_id.copy(turn, into=copy)
        other = by_id.copy(turn)
        some = [str(name) for name in rng.choice(names, 9, replace=False)]
        rows = np.array([copy.catalogue.features[copy.catalogue.index[name]] for name in some])
        for _ in range(2):
            assert copy.rank(candidates=some).names == other.rank(rows, candidates=some).names
        slate = by_id.rank(candidates=some)
        by_id.learn(slate, rng.random(K) < 0.3)
        if turn % 7 == 0:
            by_id.update(some[:2], rng.standard_normal((2, D)))


def test_read_only_features_compile_nothing_anew(points):
    """Such as those that the service reads from a body."""
    ranker = rr.Anchored(dim=D, positions=K, seed=0)
    ranker.rank(points)
    before = len(answer.overloads)
    ranker.rank(np.frombuffer(points.tobytes()).reshape(points.shape))
    assert len(answer.overloads) == before


def test_items_whose_scores_overflow_are_ranked_last():
    """Logs of older versions may have such items."""
    rows = np.vstack([np.full((3, D), 1e308), np.full((3, D), -1e308), np.zeros((4, D))])
    ranker = rr.Anchored(Stock(rows, {name: place for place, name in enumerate("abcdefghij")}, named=True), positions=K, seed=3)
    play(ranker, np.random.default_rng(0).standard_normal((30, D)) / 3, 40)
    for _ in range(20):
        slate = ranker.rank(candidates=list("abcdefghij"))
        assert len(set(slate.items.tolist())) == K


def test_probabilities_are_told_unless_nobody_asks(points, shop):
    ranker, whole = made(), rr.Anchored(shop, positions=K, seed=0)
    assert ranker.rank(points, propensity=False).joint is None
    for asked in ({}, {"positions": K - 1}):
        slate = whole.rank(**asked, propensity=False)
        assert (slate.propensity, slate.joint, slate.conditional) == (None, None, None)
        assert whole.rank(**asked).propensity is not None
    slate = ranker.rank(points)
    again = RequestSlate.unpack(slate.pack())
    assert again.joint == slate.joint
    assert again.propensity.tolist() == slate.propensity.tolist()


@pytest.mark.parametrize("kind", [rr.Anchored, *BASELINES.values()])
def test_probabilities_are_estimated_by_sampling(points, kind):
    """500 draws of a copy: within 5 standard errors of what is known, or of another estimate where nothing is."""
    ranker = kind(dim=D, positions=K, seed=3)
    play(ranker, points, 40)
    request_ = {"features": points[:6], "pin": {1: 2}}
    slate = ranker.rank(**request_)
    share, error = ranker.estimate_propensity(slate, 500, **request_)
    known = slate.propensity if slate.propensity is not None else ranker.estimate_propensity(slate, 500, 1, **request_)[0]
    assert (np.abs(share - known) < 5 * np.sqrt(2) * error).all()
    assert share[1] == 1
    with pytest.raises(ValueError, match=r"^slate: 4 items, but this request shows 2; give the slate's own request"):
        ranker.estimate_propensity(slate, 1, features=points[:2])


@pytest.mark.parametrize("interactions", ["none", "outer"])
def test_contexts(points, interactions):
    ranker = made(context=2, interactions=interactions)
    slate = ranker.rank(points, context=[1.0, 0.5])
    assert slate.features.shape == (K, D + 2 + (6 if interactions == "outer" else 0))
    ranker.learn(slate, [True] * K)
    for context, line in (
        (None, "context: missing"),
        ([1.0], r"context: shape is \(1,\)"),
        ([1.0, np.inf], r"context\[1\]: inf"),
        (np.ma.masked_equal([1.0, 9e9], 9e9), "context: some entries are masked"),
    ):
        with pytest.raises(ValueError, match=f"^{line}"):
            ranker.rank(points, context=context)


def test_segments_have_strata_of_their_own(points):
    ranker = made()
    play(ranker, points, 40, segment="phone")
    play(ranker, points, 40, segment="desk")
    per = anchoring.strata_per_segment(K)
    assert ranker.state.moments.shape[0] == 3 * per
    assert ranker.state.moments[:per].sum() == 0 != ranker.state.moments[per:].sum()
    assert rr.load(ranker.save()).segments == {None: 0, "phone": 1, "desk": 2}


def test_what_an_event_must_hold(points):
    """Slates served by a copy, packed and unpacked, adopted and answered late and in another order: the same state by fold."""
    first = made()
    play(first, points, 60)
    copy, folded = first.copy(seed=8), first.copy()
    rng = np.random.default_rng(3)
    served = [copy.rank(points, segment="a" if i % 2 else None, pin={1: 4} if i % 3 else None) for i in range(40)]
    events = [slate.pack() for slate in served]
    answers = [clicks_on(slate, rng) for slate in served]
    for ranker in (first, folded):
        slates = [RequestSlate.unpack(event) for event in events]
        for slate in slates:
            ranker.adopt(slate)
        for i in np.random.default_rng(1).permutation(40)[:30]:
            ranker.learn(slates[i], answers[i])
    assert first.save() == folded.save()
    np.testing.assert_array_equal(RequestSlate.unpack(events[7]).features, served[7].features)
    assert RequestSlate.unpack(events[7]).names == served[7].names


def test_save_copy_and_go_on(points):
    whole, first = made(link="logistic"), made(link="logistic")
    play(whole, points, 150)
    play(first, points, 150)
    second, third = rr.load(first.save()), first.copy()
    expected = play(whole, points, 100, seed=1)
    assert play(second, points, 100, seed=1) == play(third, points, 100, seed=1) == expected
    assert second.save() == third.save() == whole.save()
    with pytest.raises(ValueError, match=r"^features: missing"):
        rr.load(rr.Anchored(points, positions=K, seed=0).save())


def test_no_exploration_where_none_is_allowed(points):
    ranker = made()
    play(ranker, points, 100)
    order = np.argsort(-(points @ ranker.state.theta[1:]), kind="stable")[:K].tolist()
    assert all(ranker.rank(points, explore=0).items.tolist() == order for _ in range(60))


def test_a_discount_forgets(points):
    ranker = made(discount=0.9)
    play(ranker, points, 300)
    assert (
        ranker.state.moments[: anchoring.THIRDS, 0, 0].sum()
        < made_once(points).state.moments[: anchoring.THIRDS, 0, 0].sum() / 5
    )


def made_once(points):
    ranker = made()
    play(ranker, points, 300)
    return ranker


def test_strata_nest():
    strata = anchoring.Strata.of(4, 2)
    assert len(strata.position) == 2 * anchoring.strata_per_segment(4)
    for coarse, fine in zip(strata.levels, strata.levels[1:], strict=False):
        assert len({(c, f) for c, f in zip(coarse, fine, strict=True)}) == len(set(fine))  # a finer label has one parent


def test_the_guard_is_off_where_strata_are_right_and_on_where_they_are_not():
    """Lower positions that tell another theta get less weight, and theta stays in the anchor's ellipsoid."""
    rng, dim = np.random.default_rng(0), 4
    strata = anchoring.Strata.of(2, 1)
    theta, other = np.array([0.3, 0.1, -0.1, 0.05]), np.array([0.3, -0.2, 0.2, 0.0])
    for lower, on in ((0.5 * theta, False), (0.5 * other, True)):
        moments, sums = np.zeros((9, dim, dim)), np.zeros((9, dim))
        for g, true in ((0, theta), (3, lower)):
            x = np.c_[np.ones(4000), rng.standard_normal((4000, dim - 1))]
            clicks = rng.random(4000) < np.clip(x @ true, 0, 1)
            moments[g], sums[g] = np.tril(5 * x.T @ x), 5 * x.T @ clicks
        found = anchoring.estimate(moments, sums, strata, theta, np.ones(2), 1.0)
        assert (found.inflation[0] > 1) == on
        apart = found.theta - found.anchor
        assert apart @ found.anchor_information @ apart <= dim + 3 * np.sqrt(2 * dim)


def test_knowledge(points):
    ranker = made()
    play(ranker, points, 600, segment="phone")
    known = ranker.knowledge()
    truth = [0.3, 0.3, -0.2, 0.1]
    assert [c.feature for c in known.coefficients] == [-1, 0, 1, 2]
    assert all(c.low - (c.high - c.low) < t < c.high + (c.high - c.low) for c, t in zip(known.coefficients, truth, strict=True))
    phone = [e for e in known.examination if e.segment == "phone"]
    assert [e.position for e in phone] == list(range(K))
    assert phone[0] == ("phone", 0, 1.0, None)
    assert all(abs(e.without_click_above - 1 / (k + 1)) < 0.25 for k, e in enumerate(phone))
    assert all(e.without_click_above is None for e in known.examination if e.segment is None)
    assert known.guard == (1.0, 1.0)
    assert made().knowledge().leaders is None
    assert len(rr.Anchored(points, positions=K, seed=0).knowledge().leaders) == K


@pytest.mark.parametrize("clicks", rr.clicks.names())
def test_rules_do_not_bias_what_is_learned(clicks):
    """1,500 requests with items excluded and pinned: theta is the truth's direction, within 6 deviations of chi-square."""
    world = rr.requests.Uniform(items=60, dim=D, candidates=12, seed=2).world()
    ranker, rng = made(), np.random.default_rng(4)
    for _ in range(1500):
        rows = rng.permutation(60)[:12]
        best = rows[np.argmax(world.attraction[rows])]  # pinned low by a rule that knows its worth
        place = int(rng.integers(12))
        pin = {int(rng.integers(K)): int(np.flatnonzero(rows == best)[0])} if rng.random() < 0.3 else {}
        slate = ranker.rank(world.features[rows], pin=pin, exclude=[place] if place not in pin.values() else [])
        model = rr.clicks.make(clicks, world.attraction[rows], K)
        ranker.learn(slate, model.sample(slate.items, rng))
    u = np.linalg.lstsq(np.c_[np.ones(60), world.features], world.attraction, rcond=None)[0]
    found = ranker._estimated
    apart = found.theta - u * (found.theta @ found.information @ u) / (u @ found.information @ u)  # the scale is the anchor's
    assert apart @ found.information @ apart < (D + 1) + 6 * np.sqrt(2 * (D + 1))


def test_late_and_lost_answers_do_not_bias_what_is_learned(points):
    """3,000 requests, answered in shuffled batches of 100 while a half is lost: theta within 6 deviations of chi-square."""
    ranker, rng = made(), np.random.default_rng(7)
    for _ in range(30):
        slates = [ranker.rank(points[rng.permutation(30)[:12]]) for _ in range(100)]
        answers = [clicks_on(slate, rng) for slate in slates]
        for i in rng.permutation(100)[:50]:
            ranker.learn(slates[i], answers[i])
    found, apart = ranker._estimated, ranker._estimated.theta - np.array([0.3, 0.3, -0.2, 0.1])
    assert apart @ found.information @ apart < (D + 1) + 6 * np.sqrt(2 * (D + 1))
    assert int(ranker.state.clock[0]) == 1500


def test_whole_numbers_name_items_that_have_ids(points):
    ranker = rr.Anchored(rr.Catalogue(points, ids=range(100, 130)), positions=4, seed=0)
    assert not {"100", "101"} & set(ranker.rank(exclude=[100, 101]).names)
    assert ranker.rank(candidates=[100, 101, 102], pin={1: 102}).names[1] == "102"
    named = rr.Anchored(dim=2, positions=2, seed=0)
    named.add([1, 2], np.eye(2))
    assert named.rank(exclude=[1]).names == ("2",)
