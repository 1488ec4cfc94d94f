"""Items that come and go under Balanced and RecurRank: never shown once gone, certificates that stay right, twins, copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive_balanced import Balanced as Twin

import recurrank as rr
from recurrank.rankers import balanced
from recurrank.seeds import stream

K = 3
BOTH = ["balanced", "recurrank"]


def play(ranker, attraction, rounds, rng, clicks="position-based"):
    """Rounds under a click model of the items that are there; what was shown."""
    shown = []
    model = rr.clicks.make(clicks, np.array([attraction.get(item, 0.0) for item in range(max(attraction) + 1)]), K)
    for _ in range(rounds):
        slate = ranker.rank()
        shown.append(slate.items.tolist())
        ranker.learn(slate, model.sample(slate, rng))
    return shown


@pytest.mark.parametrize("name", BOTH)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), steps=st.lists(st.sampled_from(["add", "remove", "update", "load"]), max_size=5))
def test_slates_show_what_is_there(name, seed, steps):
    rng = np.random.default_rng(seed)
    names = [f"item {i}" for i in range(12)]
    catalogue = rr.Catalogue(rng.uniform(0.1, 1, (12, 3)), ids=names)
    ranker = rr.rankers.make(name, features=catalogue, positions=K, rounds=400, seed=seed, delta=1.0)
    for number, step in enumerate(["", *steps]):
        there = [item for item in ranker.catalogue.ids if item]
        some = [str(item) for item in rng.choice(there, min(3, len(there) - K), replace=False)]
        if step == "add":
            ranker.add([f"new {number}", f"newer {number}"], rng.uniform(0.1, 1, (2, 3)))
        elif step == "remove" and some:
            ranker.remove(some)
            there = [item for item in there if item not in some]
        elif step == "update" and some:
            ranker.update(some, rng.uniform(0.1, 1, (len(some), 3)))
        elif step == "load":
            saved = ranker.save()
            ranker = rr.load(saved, ranker.catalogue)
            assert ranker.save() == saved
        there = {*there, *([f"new {number}", f"newer {number}"] if step == "add" else [])}
        assert {item for item in ranker.catalogue.ids if item} == there
        for _ in range(40):
            slate = ranker.rank()
            assert len(set(slate.ids)) == K
            assert set(slate.ids) <= there
            ranker.learn(slate, rng.random(K) < 0.4)
        assert sum(block.width for block in ranker.blocks) == K
        items = [item for block in ranker.blocks for item in block.items]
        assert len(items) == len(set(items))
        assert {ranker.catalogue.ids[item] for item in items} <= there


@pytest.mark.parametrize("name", BOTH)
def test_a_copy_and_a_loaded_one_go_on_alike(name, problem):
    ranker = rr.rankers.make(name, features=problem.features, positions=K, rounds=2000, seed=0)
    attraction = dict(enumerate(problem.attraction))
    play(ranker, attraction, 300, np.random.default_rng(0))
    ranker.remove([3, 5, 8])
    ranker.add(["new"], [problem.features[3] * 0.9])
    assert ranker.catalogue.index["new"] == 3
    copy, other = ranker.copy(), rr.load(ranker.save(), ranker.catalogue)
    before = ranker.save()
    futures = [play(one, attraction, 300, np.random.default_rng(1)) for one in (copy, other)]
    assert futures[0] == futures[1]
    assert copy.save() == other.save()
    assert ranker.save() == before
    copy.remove([0])  # the stock of the others is another one
    assert 0 in ranker.catalogue.index
    assert play(ranker, attraction, 300, np.random.default_rng(1)) == futures[0]


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda ranker: ranker.remove(range(38)), "ids: 2 items would be left for 3 positions"),
        (lambda ranker: ranker.remove([99]), r"ids\[0\]: 99 is not an item"),
        (lambda ranker: ranker.add([7], [[1.0, 2.0, 3.0]]), r"ids\[0\]: 7 is in the catalogue already"),
        (lambda ranker: ranker.add([57], [[1.0, 2.0, 3.0]]), r"ids\[0\]: 57 is not a free index, .* the next one is 40"),
        (lambda ranker: ranker.add({"x", "y"}, np.ones((2, 3))), "ids: a set has no order"),
        (lambda ranker: ranker.update({1, 2}, np.ones((2, 3))), "ids: a set has no order"),
        (lambda ranker: ranker.add(["x"], [[1.0, np.nan, 3.0]]), "features"),
        (lambda ranker: ranker.add(["x"], [[1.0, 2.0, 1e7]]), r"features: 1e\+07 is more than a million times as large"),
        (lambda ranker: ranker.update(["x"], [[1.0, 1.0, 3.0]]), r"ids\[0\]: 'x' is not an item"),
    ],
)
def test_bad_changes_change_nothing(name, change, line):
    ranker = rr.rankers.make(name, features=rr.synthetic(items=40, dim=3, seed=1).features, positions=K, rounds=100, seed=0)
    before = ranker.save()
    with pytest.raises(ValueError, match=f"^{line}"):
        change(ranker)
    assert ranker.save() == before


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("row", [[-1e-300, 7e5], [1e6, 7e5], [1e-300, 1e-300], [0.0, 0.0], [1.0, -7e5]])
def test_an_item_unlike_all_others_comes_and_goes(name, row):
    """Whatever its size: it can be ranked, and what was known of the others' differences can be learned again."""
    features, rng = np.array([[1.0, n / 10] for n in range(8)]), np.random.default_rng(0)
    for learned in (0, 60):
        ranker = rr.rankers.make(name, features=features, positions=K, rounds=1000, seed=0, delta=1.0)
        play(ranker, dict.fromkeys(range(9), 0.4), learned, rng)
        ranker.add(["x"], [row])
        play(ranker, dict.fromkeys(range(9), 0.4), 60, rng)
        ranker.remove(["x"])
        shown = play(ranker, dict.fromkeys(range(9), 0.4), 60, rng)
        assert {item for items in shown for item in items} <= set(range(8))


def balanced_and_twin(seed, options):
    rng = np.random.default_rng(seed)
    features = rng.uniform(0.1, 1.0, (14, 3)) * [1.0, 1.0, 0.0]
    ranker = balanced.Balanced(features, K, 3000, seed, **options)
    return ranker, Twin(features, K, 3000, stream(seed, "ranker"), **options), rng


@pytest.mark.parametrize("options", [{}, {"confidence": "proved", "delta": 1.0}], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_balanced_and_its_twin(seed, options, monkeypatch):
    """Slate by slate, through removals, updates and additions, within the span of the items and beyond it."""
    monkeypatch.setattr(balanced, "BETA", 1.5)
    ranker, twin, rng = balanced_and_twin(seed, options)
    changes = [
        lambda: ranker.remove([2, 9, int(ranker.state.leaders[0])] if ranker.state.leaders[0] not in (2, 9) else [2, 9]),
        lambda: ranker.add(["a", "b"], rng.uniform(0.1, 1.0, (2, 3)) * [1.0, 1.0, 0.0]),
        lambda: ranker.update([int(ranker.state.leaders[1])], rng.uniform(0.1, 1.0, (1, 3)) * [1.0, 1.0, 0.0]),
        lambda: ranker.add(["beyond"], rng.uniform(0.1, 1.0, (1, 3))),
    ]
    for change in [None, *changes]:
        if change is not None:
            change()
            twin.restock(ranker.catalogue.features, ranker.catalogue.alive.tolist())
        for _ in range(250):
            slate = ranker.rank()
            assert slate.items.tolist() == twin.rank()
            clicks = rng.random(K) < 0.1 + 0.7 * ranker.catalogue.features[slate.items, 0]
            ranker.learn(slate, clicks)
            twin.learn(slate.items.tolist(), clicks.tolist())
    assert ranker.state.features.shape[1] == 3


def test_data_of_position_1_are_kept_in_new_coordinates():
    """An item beyond the span brings new coordinates: widths and scores of the old items are as they were."""
    ranker, _, rng = balanced_and_twin(0, {})
    play(ranker, dict.fromkeys(range(14), 0.3), 400, rng)
    old = ranker.state
    ranker.add(["beyond"], [[0.2, 0.1, 0.7]])
    new = ranker.state
    assert (old.features.shape[1], new.features.shape[1]) == (2, 3)
    inverses = [np.linalg.pinv(state.moments[0], rcond=1e-10) for state in (old, new)]
    scores = [state.features[:14] @ inverse @ state.sums[0] for state, inverse in zip((old, new), inverses, strict=True)]
    widths = [
        state.features[:14] @ inverse @ state.features[:14].T for state, inverse in zip((old, new), inverses, strict=True)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-6)
    np.testing.assert_allclose(*widths, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("clicks", ["cascade", "position-based", "document-based"])
def test_certificates_stay_right(clicks):
    """What Balanced drops has K better ones among the items that are there, and cuts are in order, after every change."""
    certified = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        attraction = dict(enumerate(rng.uniform(0.05, 0.95, 8)))
        ranker = balanced.Balanced(np.eye(8), K, 40_000, seed)
        for turn in range(4):
            play(ranker, attraction, 2500, rng, clicks)
            if turn == 1:
                best = max(attraction, key=attraction.get)
                ranker.remove([best])
            elif turn == 2:
                ranker.add(["new"], np.eye(8)[best : best + 1])
                attraction[best] = 0.97
            else:
                continue
            check(ranker, attraction)
        certified += check(ranker, attraction)
    assert certified > 0


def check(ranker, attraction):
    """How much is certified, all of it rightly."""
    there = list(ranker.catalogue.index.values())
    left = [item for block in ranker.blocks for item in block.items.tolist()]
    bar = sorted((attraction[item] for item in there), reverse=True)[K - 1]
    assert all(attraction[item] <= bar for item in there if item not in left)
    for one, other in zip(ranker.blocks, ranker.blocks[1:], strict=False):
        assert min(attraction[item] for item in one.items) >= max(attraction[item] for item in other.items)
    return len(there) - len(left) + len(ranker.blocks) - 1


def test_what_was_learned_is_kept():
    """After a change Balanced knows the rest at once: it loses a tenth of what it lost when it knew nothing."""
    problem = rr.synthetic(items=100, dim=4, seed=0)
    model = rr.clicks.make("position-based", problem.attraction, K)
    ranker, rng = balanced.Balanced(problem.features, K, 20_000, 0), np.random.default_rng(0)
    attraction = dict(enumerate(problem.attraction))
    best = model.expected(model.best(K)).sum()
    lost = [best - model.expected(np.array(items)).sum() for items in play(ranker, attraction, 4000, rng)]
    ranker.remove([int(model.best(K)[0])])
    order = [item for item in np.argsort(-problem.attraction) if item != model.best(K)[0]]
    best = model.expected(np.array(order[:K])).sum()
    after = [best - model.expected(np.array(items)).sum() for items in play(ranker, attraction, 500, rng)]
    assert np.mean(after) < 0.1 * np.mean(lost[:500])


def test_slates_from_before_a_change_are_not_learned_from(problem):
    """The item at an index may be another one by then."""
    for name in BOTH:
        ranker = rr.rankers.make(name, features=problem.features, positions=K, rounds=1000, seed=0)
        early = ranker.rank()
        ranker.remove([int(early.items[0])])
        ranker.add(["another"], [problem.features[0] * 0.5])
        before = ranker.state
        fields = ("moments", "sums") if name == "balanced" else ("short", "clicks")
        learned = [getattr(before, field).copy() for field in fields]
        ranker.learn(early, [True] * K)
        assert all(np.array_equal(one, getattr(ranker.state, field)) for one, field in zip(learned, fields, strict=True))


def test_recurrank_keeps_the_blocks_above():
    """A block goes on with its answers if no item of it or above it leaves; the rest begins anew below it."""
    attraction = dict(enumerate([0.95, 0.9, 0.3, 0.28, 0.26, 0.24, 0.2, 0.15]))
    ranker, rng = rr.RecurRank(np.eye(8), K, 10**6, seed=0, delta=1.0), np.random.default_rng(0)
    while len(ranker.blocks) < 2:
        play(ranker, attraction, 200, rng, "document-based")
    first, rest = ranker.blocks[0], ranker.blocks[1:]
    short = ranker.state.short[: len(first.visits)].copy()
    ranker.remove([int(rest[0].items[0])])
    again = ranker.blocks
    assert (again[0].key, again[0].phase, again[0].items.tolist()) == (first.key, first.phase, first.items.tolist())
    assert np.array_equal(ranker.state.short[: len(first.visits)], short)
    assert (len(again), again[1].phase, again[1].size) == (2, 1, 7 - first.size)
    play(ranker, attraction, 500, rng, "document-based")
    gone = [item for item in range(8) if item not in {i for block in ranker.blocks for i in block.items.tolist()}]
    ranker.add(["new"], [[0.5] * 8])
    assert [(block.phase, block.first, block.size) for block in ranker.blocks] == [(1, 0, 8)]
    assert set(gone) <= set(ranker.blocks[0].items.tolist())


def test_without_ids_a_number_is_its_own_index():
    ranker = rr.Balanced(np.eye(6), positions=K, rounds=100, seed=0)
    ranker.remove([2, 4])
    ranker.add(["x", 4, 6], np.ones((3, 6)))
    assert {name: ranker.catalogue.index[name] for name in ("x", 4, 6)} == {"x": 2, 4: 4, 6: 6}


def test_whole_numbers_are_ids_as_text():
    ranker = rr.Balanced(rr.Catalogue(np.eye(6), ids=range(100, 106)), positions=K, rounds=100, seed=0)
    ranker.remove([101])
    ranker.add([101, np.int64(106)], np.ones((2, 6)))
    assert set(ranker.catalogue.index) == {str(number) for number in range(100, 107)}
    with pytest.raises(ValueError, match="'100' is in the catalogue already"):
        ranker.add([100], np.ones((1, 6)))


@pytest.mark.parametrize(
    "name", [name for name in rr.rankers.names() if name not in ("balanced", "recurrank", "anchored", "club-cascade")]
)
def test_a_catalogue_with_gaps_is_for_rankers_whose_items_change(name):
    """The others would show the indices of removed items."""
    before = rr.Balanced(rr.Catalogue(np.eye(6), ids=list("abcdef")), positions=1, rounds=100, seed=0)
    before.remove(["a"])
    with pytest.raises(ValueError, match=rf"^features: '{name}' needs a catalogue without gaps"):
        rr.rankers.make(
            name, features=before.catalogue, positions=1, rounds=100, told={"theta": np.ones(6), "attraction": np.ones(6)}
        )
    assert "a" not in rr.Balanced(before.catalogue, positions=5, rounds=100, seed=0).rank().ids


def test_a_simulation_refuses_gaps():
    """Attractions would be those of other items, or of none."""
    ranker = rr.Balanced(np.eye(6), positions=K, rounds=100, seed=0)
    ranker.remove([0])
    with pytest.raises(ValueError, match=r"^ranker: items were removed from its catalogue"):
        rr.simulate(ranker, rr.clicks.make("cascade", np.full(5, 0.3), K), rounds=10, seed=0)


def test_a_change_that_changes_nothing_keeps_recurranks_small_features():
    """A time in seconds beside a quality: the estimate is made at the scale of each feature."""
    rng = np.random.default_rng(0)
    features = np.c_[1.7e9 + rng.uniform(0, 1e7, 30), rng.uniform(size=30)]
    model = rr.clicks.PositionBased(0.1 + 0.6 * features[:, 1], examination=1 / np.arange(1, K + 1))
    regret = []
    for update in (False, True):
        ranker = rr.RecurRank(features, positions=K, rounds=20_000, seed=0)
        if update:
            ranker.update([3], features[3:4])
        regret.append(rr.simulate(ranker, model, 20_000, seed=0).regret[-1])
    assert regret[0] == regret[1]


@pytest.mark.parametrize("name", BOTH)
def test_features_of_single_precision_keep_their_rank(name):
    """Rounding is not a dimension, though a catalogue that changes is held in double precision."""
    rng = np.random.default_rng(0)
    features = (rng.normal(size=(60, 3)) @ rng.normal(size=(3, 12))).astype(np.float32)
    ranker = rr.rankers.make(name, features=features, positions=K, rounds=1000, seed=0)
    ranker.update([3], features[3:4])
    explored = ranker._coordinates.map.shape[1] if name == "balanced" else len(ranker._blocks[0].explored)
    assert explored <= 6
    assert not ranker.catalogue.precise
