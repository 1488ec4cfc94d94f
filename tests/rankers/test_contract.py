"""What every ranker must do, run over every algorithm in the registry."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.seeds import stream

NAMES = rr.rankers.names()


@pytest.fixture(params=NAMES)
def make(request, problem):
    def build(**change):
        settings = {"features": problem.features, "positions": 5, "rounds": 5000, "seed": 7, **change}
        return rr.rankers.make(request.param, **settings, told={"attraction": problem.attraction})

    return build


def play(ranker, model, rounds, seed=0):
    users = np.random.default_rng(seed)
    slates = []
    for _ in range(rounds):
        slate = ranker.rank()
        slates.append(slate.items.tolist())
        ranker.learn(slate, model.sample(slate, users))
    return slates


REMEMBER = ("epsilon-greedy", "pbm-pie", "pie")
"""To tell how probable a slate was they compute what ranking alone would compute later, and decide the same."""


def test_slates_show_different_items_that_exist(make, position_model):
    for items in play(make(), position_model, 300):
        assert len(set(items)) == 5
        assert min(items) >= 0
        assert max(items) < 40


def test_slates_have_ids_where_the_catalogue_has(make, problem):
    ids = [f"item {n}" for n in range(40)]
    slate = make(features=rr.Catalogue(problem.features, ids=ids)).rank()
    assert slate.ids == tuple(ids[item] for item in slate.items)
    assert make().rank().ids is None


def test_same_seed_same_slates(make, position_model):
    assert play(make(), position_model, 300) == play(make(), position_model, 300)


def test_a_round_at_a_time_and_compiled_are_the_same(make, position_model):
    one, many = make(), make()
    users = stream(5, "users", 0)
    lost = 0.0
    best = position_model.expected(position_model.best(5))
    for _ in range(2000):
        slate = one.rank()
        lost += (best - position_model.expected(slate)).sum()
        one.learn(slate, position_model.sample(slate, users))
    run = rr.simulate(many, position_model, 2000, seed=5)
    assert run.regret[-1] == pytest.approx(lost, rel=1e-9)
    if one.name in REMEMBER:
        assert play(one, position_model, 300) == play(many, position_model, 300)
    else:
        assert one.save() == many.save()


def test_save_and_load_go_on_as_if_nothing_had_happened(make, problem, position_model):
    whole, first = make(), make()
    for ranker in (whole, first):
        rr.simulate(ranker, position_model, 1500, seed=1)
    pending = first.rank(), whole.rank()
    second = rr.load(first.save(), problem.features)
    assert second.save() == first.save()
    second.learn(pending[0], [True] * 5)
    whole.learn(pending[1], [True] * 5)
    assert play(second, position_model, 100, seed=2) == play(whole, position_model, 100, seed=2)
    for ranker in (second, whole):
        rr.simulate(ranker, position_model, 1500, seed=2)
    assert second.save() == whole.save()


def test_a_copy_goes_on_by_itself(make, position_model):
    """Without a seed it is what load(save()) gives; with one it draws otherwise; either way the first one does not notice."""
    first, alone = make(), make()
    for ranker in (first, alone):
        rr.simulate(ranker, position_model, 1500, seed=1)
    pending = first.rank()
    alone.rank()
    before = first.save()
    same, other = first.copy(), first.copy(seed=99)
    assert same.save() == before
    assert same.catalogue is first.catalogue
    for copy, seed in ((same, 2), (other, 3)):
        copy.learn(pending, [True] * 5)
        rr.simulate(copy, position_model, 1500, seed=seed)
    assert first.save() == before
    alone.learn(pending, [True] * 5)
    rr.simulate(alone, position_model, 1500, seed=2)
    assert same.save() == alone.save()
    again = first.copy(into=other)  # in the memory of a copy that went elsewhere
    assert again.save() == before
    again.learn(pending, [True] * 5)
    rr.simulate(again, position_model, 1500, seed=2)
    assert again.save() == same.save()
    assert first.save() == before


def test_a_copy_draws_from_its_own_seed(problem):
    ranker = rr.rankers.make("random", features=problem.features, positions=5, rounds=100, seed=7)
    slates = [[ranker.copy(seed=seed).rank().items.tolist() for _ in range(2)] for seed in (1, 2)]
    assert slates[0][0] == slates[0][1] != slates[1][0]
    assert ranker.copy().rank().items.tolist() == ranker.rank().items.tolist()


def test_feedback_late_out_of_order_or_never_is_fine(make, position_model):
    ranker = make()
    rng = np.random.default_rng(0)
    waiting = []
    for _ in range(1000):
        waiting.append(ranker.rank())
        while len(waiting) > 20:
            slate = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() < 0.8:
                ranker.learn(slate, position_model.sample(slate, rng))
            elif rng.random() < 0.5:
                ranker.drop(slate)
    assert len(set(ranker.rank().items.tolist())) == 5


@pytest.mark.parametrize(
    ("clicks", "word"),
    [
        ([True] * 4, "shape"),
        ([True] * 6, "shape"),
        ([[True] * 5], "shape"),
        ([[True], [True, False]], "lengths"),
        ([2, 0, 0, 0, 0], "true or false"),
        (["a"] * 5, "true"),
        (np.ma.array([True] * 5, mask=[1, 0, 0, 0, 0]), "masked"),
    ],
)
def test_bad_clicks_change_nothing(make, clicks, word):
    ranker = make()
    slate = ranker.rank()
    before = ranker.save()
    with pytest.raises(ValueError, match=rf"^clicks: .*{word}"):
        ranker.learn(slate, clicks)
    assert ranker.save() == before


def test_a_slate_of_another_ranker_is_refused(make):
    ranker, other, young, elsewhere = make(), make(seed=8), make(), make(features=rr.synthetic(40, 4, seed=9).features)
    slate = ranker.rank()
    elsewhere.rank()
    for stranger in (other, young, elsewhere):
        before = stranger.save()
        with pytest.raises(ValueError, match=r"^slate: .*another ranker"):
            stranger.learn(slate, [False] * 5)
        assert stranger.save() == before
    with pytest.raises(ValueError, match=r"^slate: list is not a slate"):
        ranker.learn([1, 2, 3, 4, 5], [False] * 5)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"positions": 41}, "positions"),
        ({"positions": 0}, "positions"),
        ({"positions": 2.5}, "positions"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": "many"}, "rounds"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"seed": "a"}, "seed"),
        ({"seed": True}, "seed"),
        ({"rounds": 10**400}, "rounds"),
        ({"features": np.ma.masked_less(np.ones((9, 2)), 2)}, "features"),
        ({"features": np.full((9, 2), 1e-310)}, "features"),
        ({"features": [[1.0, 2.0], [3.0]]}, "features"),
        ({"features": np.zeros((10, 2))}, "features"),
        ({"features": np.empty((0, 3))}, "features"),
        ({"features": np.empty((3, 0))}, "features"),
        ({"features": [1.0, 2.0]}, "features"),
        ({"features": [["a"], ["b"]]}, "features"),
        ({"features": np.full((10, 2), np.nan)}, r"features\[0, 0\]"),
        ({"features": np.diag([1.0, np.inf, 1.0])}, r"features\[1, 1\]"),
    ],
)
def test_bad_arguments(make, change, field):
    with pytest.raises(ValueError, match=rf"^{field}: "):
        make(**change)


def test_unknown_name_and_option():
    with pytest.raises(ValueError, match=r"^ranker: 'nope' is unknown; choose from"):
        rr.rankers.make("nope", features=np.eye(3), positions=1, rounds=10)
    with pytest.raises(ValueError, match=r"^ranker: "):
        rr.rankers.make([], features=np.eye(3), positions=1, rounds=10)
    with pytest.raises(ValueError, match=r"^features: missing; random ranks a catalogue, give a matrix with one row per item"):
        rr.rankers.make("random", positions=1, rounds=10)
    with pytest.raises(ValueError, match=r"^ranks: 'music' is unknown; choose from catalogue, requests, queries"):
        rr.rankers.names("music")
    with pytest.raises(ValueError, match=r"^recurrank: 'nope' is not one of its options; it takes delta, design"):
        rr.rankers.make("recurrank", features=np.eye(3), positions=1, rounds=10, nope=1)


def test_every_algorithm_documents_itself(make):
    kind = type(make())
    for text in (kind.__doc__, kind.reference, kind.believes, kind.regret_bound):
        assert isinstance(text, str)
        assert text


@pytest.mark.parametrize("name", NAMES)
def test_a_slate_clicked_all_over(name):
    """More pairs in one round than TopRank's table starts with."""
    problem = rr.synthetic(items=120, dim=3, seed=0)
    told = {"attraction": problem.attraction}
    ranker = rr.rankers.make(name, features=problem.features, positions=120, rounds=1000, seed=0, told=told)
    for _ in range(3):
        ranker.learn(ranker.rank(), np.ones(120, bool))
    assert sorted(ranker.rank().items.tolist()) == list(range(120))


@pytest.mark.parametrize(
    "name", ["linucb", "cascade-linucb", "cascade-lints", "cascade-woful", "c3-ucb", "gl-cdcm", "vac2-ucb"]
)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 5.0, 1e6])
def test_linear_rankers_on_dependent_features_of_any_scale(name, scale):
    rng = np.random.default_rng(0)
    share = rng.random(30) + 0.1
    features = np.column_stack([share, 3 * share, 0.7 * share]) * scale
    ranker = rr.rankers.make(name, features=features, positions=3, rounds=2000, seed=0)
    for _ in range(2000):
        slate = ranker.rank()
        ranker.learn(slate, rng.random(3) < (share / 1.2)[slate.items])
    assert np.isfinite(ranker.state.regression.factor).all()
    assert np.isfinite(ranker.state.regression.theta).all()


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0])
def test_gl_cdcm_fits_features_of_any_scale(scale):
    rng = np.random.default_rng(5)
    features = rng.normal(size=(30, 3))
    attraction = 1 / (1 + np.exp(-(features @ np.array([1.0, -1.0, 0.5]))))
    ranker = rr.rankers.make("gl-cdcm", features=features * scale, positions=5, rounds=5000, seed=0)
    got = 0.0
    for _ in range(3000):
        slate = ranker.rank()
        got += attraction[slate.items].sum()
        ranker.learn(slate, rng.random(5) < attraction[slate.items])
    best = np.sort(attraction)[-5:].sum()
    assert got / 3000 > 0.9 * best


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("toprank", {"delta": 1e-307}, "delta"),
        ("toprank", {"delta": 2}, "delta"),
        ("cascade-linucb", {"sigma": 1e-200}, "sigma"),
        ("cascade-lints", {"sigma": 0}, "sigma"),
        ("cascade-ucb1", {"exploration": -1}, "exploration"),
        ("c3-ucb", {"delta": 3}, "delta"),
        ("c3-ucb", {"discounts": [2, 1]}, "discounts"),
        ("gl-cdcm", {"link": "probit"}, "link"),
        ("pbm-ucb", {"examination": [0.0, 1.0]}, "examination"),
        ("pie", {"explore_at": 9}, "explore_at"),
        ("ranked-bandits", {"inside": "x"}, "inside"),
        ("ranked-bandits", {"inside": "exp3", "exploration": 2}, "exploration"),
        ("epsilon-greedy", {"epsilon": 2}, "epsilon"),
        ("oracle", {"attraction": [0.5]}, "attraction"),
    ],
)
def test_bad_options_of_the_others(name, options, field):
    with pytest.raises(ValueError, match=rf"^{field}"):
        rr.rankers.make(name, features=np.eye(3), positions=2, rounds=100, seed=0, **options)


def test_extreme_options_that_mean_something():
    features = np.array([[0.1, 0.0], [0.0, 0.2], [0.3, 0.1], [0.5, 0.5]])
    assert rr.rankers.make("c3-ucb", features=features, positions=2, rounds=1, ridge=3.0, seed=0).rank().items.tolist() == [
        3,
        2,
    ]
    patient = rr.rankers.make("batchrank", features=features, positions=2, rounds=10, exploration=1e30, seed=0)
    patient.learn(patient.rank(), [True, False])
    assert len(patient.state.batch) == 1


def test_copies_may_rank_while_one_learns(make, position_model, problem):
    """A learner that never ranks itself learns from the slates of two copies, and does so the same way every time."""

    def played() -> bytes:
        learner, rng = make(), np.random.default_rng(5)
        for _ in range(8):
            copies = [rr.load(learner.save(), problem.features) for _ in range(2)]
            for number, copy in enumerate(copies):
                copy.rng = np.random.default_rng([number, learner.served])
            slates = [copy.rank() for _ in range(40) for copy in copies]
            for slate in slates:
                learner.adopt(slate)
            for slate in slates:
                learner.learn(slate, position_model.sample(slate, rng))
        assert learner.served == 640
        return learner.save()

    assert played() == played()


def test_what_was_served_is_counted_without_ranking_again(make, position_model):
    """Of rankers of version 0.1.0 only RecurRank did so."""
    learner = make()
    play(learner, position_model, 100)
    copy = learner.copy(seed=3)
    slate, before = copy.rank(), learner.rng.bit_generator.state
    learner.adopt(slate)
    assert learner.served == copy.served
    assert learner.rng.bit_generator.state == before
    old = make()
    old.follow(1)
    if old.name in ("random", "toprank", "balanced"):
        before = old.rng.bit_generator.state
        old.adopt(slate_of(old))
        assert old.rng.bit_generator.state != before


INCREMENTAL = [
    "cascade-ducb",
    "cascade-klucb",
    "cascade-linucb",
    "cascade-swucb",
    "cascade-ucb-v",
    "cascade-ucb1",
    "dcm-klucb",
    "pbm-ucb",
    "ranked-bandits",
]


@pytest.mark.parametrize("name", INCREMENTAL)
def test_one_that_only_learns_chooses_as_one_that_ranks(name):
    """The lists of one that does not rank are older; what it would show is the same."""
    many = rr.synthetic(items=200, dim=3, seed=2)
    model, users = rr.clicks.PositionBased(many.attraction, [1.0, 0.6, 0.4]), np.random.default_rng(7)
    ranking = rr.rankers.make(name, features=many.features, positions=3, rounds=1000, seed=0)
    learning = ranking.copy()
    for turn in range(600):
        slate = ranking.rank()
        learning.adopt(slate)
        clicks = model.sample(slate, users)
        ranking.learn(slate, clicks)
        learning.learn(slate, clicks)
        if turn % 50 == 49:
            shown, wanted = learning.copy(seed=1).rank(), ranking.copy(seed=1).rank()
            if name == "ranked-bandits":  # repeats are replaced at random; the choices of the bandits are not
                np.testing.assert_array_equal(shown.marks[:, 0], wanted.marks[:, 0])
            np.testing.assert_array_equal(shown.items, wanted.items)


def slate_of(ranker):
    return ranker.copy(seed=1).rank()


def test_a_slate_of_another_ranker_is_not_adopted(make):
    ranker, other = make(), make(seed=8)
    before = ranker.save()
    with pytest.raises(ValueError, match=r"^slate: "):
        ranker.adopt(other.rank())
    with pytest.raises(ValueError, match=r"^slate: "):
        ranker.adopt("slate")
    assert ranker.save() == before


def test_every_kind_of_ranker_is_made_by_its_name():
    assert rr.rankers.names(None) == sorted(
        {name for ranks in ("catalogue", "requests", "queries") for name in rr.rankers.names(ranks)}
    )
    for name in {*rr.rankers.names("requests"), *rr.rankers.names("queries")}:
        ranker = rr.rankers.make(name, dim=3, positions=2, rounds=100, seed=0)
        assert ranker.name == name
        assert len(ranker.options()) > 2
    assert set(rr.rankers.names(served=True)) <= set(rr.rankers.names())
    ranker = rr.rankers.make("pdgd", features=np.eye(4), positions=2, rounds=100, seed=0)
    with pytest.raises(
        ValueError, match=r"^ranker: pdgd ranks the documents of queries; simulate it with recurrank.queries.simulate"
    ):
        rr.simulate(ranker, rr.clicks.Cascade([0.5, 0.4, 0.3, 0.2]), rounds=100)


@pytest.mark.parametrize("name", sorted({*rr.rankers.names(None)} - {*NAMES}))
def test_every_kind_of_ranker_is_saved_and_loaded(name):
    """Those that rank no catalogue, in the middle of play; those of a catalogue have the test above."""
    ranker = rr.rankers.make(name, dim=3, positions=3, rounds=100, seed=0)
    rows, users = np.random.default_rng(1).standard_normal((12, 3)), np.random.default_rng(2)

    def play_on(ranker, answers):
        shown = []
        for _ in range(40):
            slate = ranker.rank(rows)
            shown.append(slate.items.tolist())
            ranker.learn(slate, answers.random(3) < 0.4)
        return shown

    play_on(ranker, users)
    loaded = rr.load(ranker.save())
    assert type(loaded) is type(ranker)
    assert loaded.save() == ranker.save()
    assert play_on(loaded, np.random.default_rng(3)) == play_on(ranker, np.random.default_rng(3))
    assert loaded.save() == ranker.save()
