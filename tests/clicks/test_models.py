"""Every click model against enumeration of all click patterns, against its literal twin, and against its own samples."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive

import recurrank as rr
from recurrank.clicks import model as registry
from recurrank.clicks.filtering import examined_given_clicks
from recurrank.clicks.model import models

POSITIONS = 4


@functools.cache
def case(seed, name):
    """A model with random parameters, and its twin's parameters for a list of items."""
    rng = np.random.default_rng(seed)
    alpha = rng.random(6)
    examination, continuation = rng.random(POSITIONS), rng.random(POSITIONS)
    matrix = rng.random((POSITIONS, POSITIONS))
    satisfaction, gamma, a1, a2, a3 = rng.random(6), *rng.random(4)

    def chi(items, k):
        total = 1.0
        for j in range(k):
            total *= 1 - 0.3 * (items[j] + 1) / (j + 2) / 3
        return total

    clicks = rr.clicks
    match name:
        case "document-based":
            return clicks.DocumentBased(alpha), lambda items: ()
        case "position-based":
            return clicks.PositionBased(alpha, examination), lambda items: (examination,)
        case "cascade":
            return clicks.Cascade(alpha), lambda items: ()
        case "dependent-click":
            return clicks.DependentClick(alpha, continuation), lambda items: (continuation,)
        case "user-browsing":
            return clicks.UserBrowsing(alpha, matrix), lambda items: (matrix,)
        case "dynamic-bayesian":
            return clicks.DynamicBayesian(alpha, satisfaction, gamma), lambda items: (satisfaction[items], gamma)
        case "click-chain":
            return clicks.ClickChain(alpha, a1, a2, a3), lambda items: (a1, a2, a3)
        case "mixture":
            return clicks.Mixture(alpha, examination, gamma), lambda items: (examination, gamma)
        case "set-dependent":
            return clicks.SetDependent(alpha, gamma), lambda items: (gamma,)
        case "factored":
            return clicks.Factored(alpha, chi), lambda items: ([chi(items, k) for k in range(len(items))],)


SHORT = {
    "document-based": "document",
    "position-based": "position",
    "cascade": "cascade",
    "dependent-click": "dependent",
    "user-browsing": "browsing",
    "dynamic-bayesian": "bayesian",
    "click-chain": "chain",
    "factored": "factored",
    "mixture": "mixture",
    "set-dependent": "setwise",
}
NAMES = list(SHORT)


def test_every_registered_model_is_tested():
    assert sorted(NAMES) == sorted(models())


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10**6), length=st.integers(1, POSITIONS))
def test_expected_is_the_sum_over_all_patterns(name, seed, length):
    model, parameters = case(seed % 3 if name == "factored" else seed, name)  # that one takes long to make
    items = np.random.default_rng(seed).permutation(6)[:length]
    alpha = model.attraction[items]
    pattern = getattr(naive, f"{SHORT[name]}_pattern")
    total = sum(pattern(alpha, c, *parameters(items)) for c in itertools.product([False, True], repeat=length))
    assert total == pytest.approx(1)  # the twin is a distribution
    expected = naive.marginals(lambda c: pattern(alpha, c, *parameters(items)), length)
    np.testing.assert_allclose(model.expected(items), expected, atol=1e-12)
    np.testing.assert_allclose(model.examine(items) * alpha, expected, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "factored"])
def test_examination_given_clicks_makes_the_joint_law(name):
    """P(pattern) = prod of e_k alpha or 1 - e_k alpha, e_k = P(examined at k | clicks above)."""
    model, parameters = case(3, name)
    items = np.array([4, 1, 0, 2])
    pattern, examined = getattr(naive, f"{SHORT[name]}_pattern"), np.zeros(4)
    for clicks in itertools.product([False, True], repeat=4):
        examined_given_clicks(model.state, items, np.array(clicks), examined)
        chances = examined * model.attraction[items]
        product = np.prod(np.where(clicks, chances, 1 - chances))
        assert product == pytest.approx(pattern(model.attraction[items], clicks, *parameters(items)), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_sample_is_the_twins_on_the_same_stream(name):
    model, parameters = case(1, name)
    ours, theirs, shuffle = (np.random.default_rng(s) for s in (5, 5, 6))
    twin = getattr(naive, f"{SHORT[name]}_sample")
    for _ in range(500):
        items = shuffle.permutation(6)[:POSITIONS]
        clicks = model.sample(items, ours)
        assert clicks.tolist() == [bool(c) for c in twin(model.attraction[items], theirs, *parameters(items))]


@pytest.mark.parametrize("name", NAMES)
def test_samples_follow_every_pattern(name):
    """40,000 draws; every pattern's count within 5 standard deviations of what enumeration says."""
    model, parameters = case(2, name)
    items, draws, rng = np.array([3, 0, 5]), 40_000, np.random.default_rng(0)
    counts: dict[tuple[bool, ...], int] = {}
    for _ in range(draws):
        key = tuple(model.sample(items, rng).tolist())
        counts[key] = counts.get(key, 0) + 1
    pattern = getattr(naive, f"{SHORT[name]}_pattern")
    for clicks in itertools.product([False, True], repeat=3):
        p = pattern(model.attraction[items], clicks, *parameters(items))
        assert abs(counts.get(clicks, 0) - draws * p) <= 5 * np.sqrt(draws * p * (1 - p)) + 1e-9


@pytest.mark.parametrize("name", rr.clicks.names())
def test_functions_by_the_type_of_the_state_may_be_called_from_python(name):
    model, items = case(0, name)[0], np.array([3, 0, 5])
    chi, clicks = np.empty(3), np.empty(3, bool)
    registry.examine(model.state, items, chi)
    registry.sample(model.state, items, np.random.default_rng(1), clicks)
    assert chi.tolist() == model.examine(items).tolist()
    assert clicks.tolist() == model.sample(items, np.random.default_rng(1)).tolist()


def test_factored_that_cannot_be_compiled_gives_the_same_run():
    problem = rr.synthetic(items=20, dim=3, seed=0)
    table = {k: 0.8**k for k in range(5)}  # numba has no dictionaries of a closure
    slow = rr.clicks.Factored(problem.attraction, lambda items, k: table[k])
    fast = rr.clicks.Factored(problem.attraction, lambda items, k: 0.8**k)
    assert slow.state is None
    assert fast.state is not None
    runs = [
        rr.simulate(rr.RecurRank(problem.features, positions=5, rounds=2000, seed=0), model, 2000, seed=3)
        for model in (slow, fast)
    ]
    np.testing.assert_allclose(runs[0].regret, runs[1].regret, rtol=1e-9)
    assert runs[0].clicks.tolist() == runs[1].clicks.tolist()


def test_factored_refuses_what_is_no_probability():
    with pytest.raises(ValueError, match=r"^chi\[1\]: 1.5 lies outside"):
        rr.clicks.Factored([0.5, 0.5], lambda items, k: 1.0 + k / 2).examine([0, 1])
    for chi in (3, lambda items: 1.0):
        with pytest.raises(ValueError, match=r"^chi: .* is not a function of \(items, k\)"):
            rr.clicks.Factored([0.5], chi)


@pytest.mark.parametrize(
    "chi", [lambda i, k: 1.0 if i[0] == 0 else 3.0, lambda i, k: 1.0 if i[0] == 0 else 1.0 / (i[0] - i[0]), lambda i, k: np.nan]
)
def test_a_compiled_function_that_gives_no_probability_stops_the_simulation(chi):
    model = rr.clicks.Factored([0.9, 0.5, 0.3, 0.2], chi)
    with pytest.raises(ValueError, match=r"^chi"):
        rr.simulate(rr.RecurRank(np.eye(4), 2, 1000, seed=0), model, 100)


def test_factored_takes_any_callable():
    class Half:
        def __call__(self, items, k):
            return 0.5

    for chi in (functools.partial(lambda base, items, k: base**k, 0.5), Half()):
        model = rr.clicks.Factored([0.9, 0.5, 0.3], chi)
        assert model.examine([0, 1])[1] == 0.5
        assert rr.simulate(rr.RecurRank(np.eye(3), 2, 100, seed=0), model, 50).rounds[-1] == 50


def test_bad_random_streams():
    for rng in (5, np.random.RandomState(0)):
        with pytest.raises(ValueError, match=r"^rng: "):
            rr.clicks.Cascade([0.5, 0.4]).sample([0, 1], rng)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", [n for n in NAMES if n != "factored"])
def test_parameters_outside_the_unit_interval(name, bad):
    kind = models()[name]
    good, _ = case(0, name)
    arguments = {p: getattr(good, p) for p in kind.parameters()}
    with pytest.raises(ValueError, match=r"^attraction\[1\]: .* lies outside \[0, 1\]"):
        kind([0.5, bad, 0.1, 0.1, 0.1, 0.1], **arguments)
    for field, value in arguments.items():
        worse = np.array(value, dtype=float)
        worse.flat[0] = bad
        with pytest.raises(ValueError, match=rf"^{field}"):
            kind(good.attraction, **{**arguments, field: worse if worse.ndim else float(worse)})


@pytest.mark.parametrize(
    ("slate", "word"),
    [
        ([0, 0], "twice"),
        ([6], "does not exist"),
        ([-1], "does not exist"),
        ([], "item numbers"),
        ([0.5], "item numbers"),
        ([0, 1, 2, 3, 4], "4 positions"),
    ],
)
def test_bad_slates(slate, word):
    model = case(0, "position-based")[0]
    with pytest.raises(ValueError, match=rf"^slate: .*{word}"):
        model.examine(slate)


def test_make_by_short_name_and_unknown_parameters():
    assert rr.clicks.make("pbm", [0.5, 0.4], 2).name == "position-based"
    assert rr.clicks.make("dcm", [0.5, 0.4], 2, continuation=[0.1, 0.1]).examine([0, 1])[1] == pytest.approx(0.55)
    with pytest.raises(ValueError, match=r"^clicks: 'x' is not a click model; choose from"):
        rr.clicks.make("x", [0.5], 1)
    with pytest.raises(ValueError, match=r"^gamma: the cascade model has no such parameter"):
        rr.clicks.make("cascade", [0.5], 1, gamma=1)


def test_best_and_too_many_positions():
    model = rr.clicks.Cascade([0.1, 0.5, 0.5, 0.9])
    assert model.best(3).tolist() == [3, 1, 2]
    with pytest.raises(ValueError, match=r"^positions: 5 is more than the 4 items"):
        model.best(5)
    for positions in (0, -1):
        with pytest.raises(ValueError, match=r"^positions: "):
            model.best(positions)
    with pytest.raises(ValueError, match=r"^examination: "):
        rr.clicks.UserBrowsing([0.5], [[1.0], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("label", "chi"),
    [
        ("position-based:examination=1/0.5/0.25", [1, 0.5, 0.25]),
        ("pbm:examination=0.5", [0.5, 0.5, 0.5]),
        ("dcm:continuation=1", [1, 1, 1]),
        ("dbn:satisfaction=1:continuation=0.8", [1, 0.4, 0.16]),
        ("ubm:examination=0/0/1/0/0/1/0/0/1", [1, 0.5, 0.25]),
        ("cascade", [1, 0.5, 0.25]),
    ],
)
def test_parameters_in_the_name(label, chi):
    model = rr.clicks.make(label, np.full(4, 0.5), positions=3)
    assert model.examine([0, 1, 2]) == pytest.approx(chi)


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("pbm:examination", "clicks: 'pbm:examination': 'examination' is not an option"),
        ("pbm:power=2", "power: the position-based model has no such parameter; it takes examination"),
        ("pbm:examination=1/0.5", "clicks: pbm:examination=1/0.5 has parameters for 2 positions; give them for all 3"),
        ("pbm:examination=1/2/0", r"examination\[1\]: 2.0 lies outside"),
        ("nope:a=1", "clicks: 'nope' is not a click model"),
    ],
)
def test_bad_parameters_in_the_name(label, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        rr.clicks.make(label, np.full(4, 0.5), positions=3)


def test_a_plain_class_is_a_click_model(problem):
    class Hurried:
        """In a hurry."""

        name = "hurried"

        def __init__(self, attraction, patience=0.5):
            self.patience = patience

        def examine(self, items):
            return self.patience ** np.arange(len(items))

    own, same = rr.clicks.plain(Hurried), rr.clicks.PositionBased(problem.attraction, 0.5 ** np.arange(5))
    try:
        model = rr.clicks.make("hurried", problem.attraction, 5)
        assert rr.clicks.make("hurried:patience=1", problem.attraction, 5).examine([0, 1]).tolist() == [1, 1]
        assert own.parameters() == ["patience"]
        runs = []
        for one in (model, same):
            ranker = rr.rankers.make("balanced", features=problem.features, positions=5, rounds=300, seed=0)
            runs.append(rr.simulate(ranker, one, 300, seed=1))
        assert runs[0].regret == pytest.approx(runs[1].regret)
        assert (runs[0].clicks == runs[1].clicks).all()
    finally:
        del registry._models["hurried"]
    with pytest.raises(ValueError, match=r"^Slate: it has no name; a click model in plain Python has"):
        rr.clicks.plain(rr.Slate)
