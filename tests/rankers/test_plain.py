"""Rankers in plain Python do what compiled ones do."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.rankers import Option, dispatch, plain, ranker
from recurrank.seeds import stream


class MostClicked:
    """The items with the highest click rate so far, and sometimes one at random."""

    name = "plain-most-clicked"

    def __init__(self, features, positions, rounds, *, share: float = 0.1):
        self.features, self.positions, self.share = features, positions, share
        self.shown, self.clicked = np.zeros(len(features)), np.zeros(len(features))
        self.memory = {"last": (1, [2.5, None]), 3: {"a", "b"}, "rng": np.random.default_rng(0)}
        self.waiting = 0

    def rank(self, rng):
        rate = (self.clicked + 1) / (self.shown + 1)
        order = np.argsort(-rate, kind="stable")
        if rng.random() < self.share:
            order = np.concatenate([rng.choice(order[self.positions - 1 :], 1), order])
            order = order[np.sort(np.unique(order, return_index=True)[1])]
        return order[: self.positions]

    def learn(self, items, clicks):
        self.shown[items] += 1
        self.clicked[items] += clicks
        self.memory["last"] = (int(items[0]), [float(self.memory["rng"].random())])

    def served(self, items):
        self.waiting += 1

    def dropped(self, items):
        self.waiting -= 1


@pytest.fixture(scope="module", autouse=True)
def kind():
    known, states = dict(ranker._rankers), dict(dispatch.algorithms)
    yield plain(MostClicked)
    ranker._rankers.clear()
    ranker._rankers.update(known)
    dispatch.algorithms.clear()
    dispatch.algorithms.update(states)


def make(problem, **options):
    return rr.rankers.make("plain-most-clicked", features=problem.features, positions=5, rounds=1000, seed=7, **options)


def play(one, model, rounds, seed):
    users, slates = np.random.default_rng(seed), []
    for _ in range(rounds):
        slate = one.rank()
        slates.append(slate.items.tolist())
        one.learn(slate, model.sample(slate, users))
    return slates


def test_a_simulation_is_the_same_as_round_by_round(problem, position_model):
    one, many, users = make(problem), make(problem), stream(5, "users", 0)
    best, lost = position_model.expected(position_model.best(5)), 0.0
    for _ in range(500):
        slate = one.rank()
        lost += (best - position_model.expected(slate)).sum()
        one.learn(slate, position_model.sample(slate, users))
    run = rr.simulate(many, position_model, 500, seed=5)
    assert run.regret[-1] == pytest.approx(lost)
    assert one.save() == many.save()


def test_saved_copied_and_restored(problem, position_model):
    whole, first = make(problem, share=0.5), make(problem, share=0.5)
    assert play(whole, position_model, 100, 1) == play(first, position_model, 100, 1)
    second, copy = rr.load(first.save(), problem.features), first.copy()
    assert second.state.object.features is second.catalogue.features
    assert copy.state.object.features is first.catalogue.features
    rest = play(whole, position_model, 100, 2)
    assert play(second, position_model, 100, 2) == rest == play(copy, position_model, 100, 2)
    assert second.save() == whole.save() == copy.save() != first.save()
    assert second.state.object.memory[3] == {"a", "b"}
    copied = first.copy(seed=3)
    slate = copied.rank()
    first.adopt(slate)
    assert first.state.object.waiting == 1
    first.drop(slate)
    assert first.state.object.waiting == 0


def test_it_is_listed_with_its_options(kind):
    assert rr.rankers.registered()["plain-most-clicked"] is kind
    assert kind.__doc__ == MostClicked.__doc__
    assert kind.options_schema()["properties"]["share"] == {"type": "number", "description": "", "default": 0.1}
    with pytest.raises(ValueError, match=r"^plain-most-clicked: 'nope' is not one of its options; it takes share"):
        rr.rankers.make("plain-most-clicked", features=np.eye(3), positions=1, rounds=10, nope=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([0, 1], "short: rank() gave 2 items; it should give 3"),
        ([0, 1, 1], "slate: an item appears twice"),
        ([0, 1, 9], "slate: item 9 does not exist"),
        (None, "slate: object of shape"),
    ],
)
def test_bad_slates(given, said):
    class Short:
        name = "short"

        def __init__(self, features, positions, rounds): ...

        def rank(self):
            return given

        def learn(self, items, clicks): ...

    with pytest.raises(ValueError, match="^" + said.replace("(", r"\(").replace(")", r"\)")):
        plain(Short)(np.eye(4), positions=3, rounds=10).rank()


def test_what_is_not_data_cannot_be_saved():
    class Odd:
        name = "odd"

        def __init__(self, features, positions, rounds):
            self.model = {"inside": object()}

        def rank(self):
            return [0]

        def learn(self, items, clicks): ...

    with pytest.raises(ValueError, match=r"^odd\.model\.inside: a object cannot be saved; keep numbers"):
        plain(Odd)(np.eye(4), positions=1, rounds=10).save()
    with pytest.raises(ValueError, match=r"^Option: it has no rank; a ranker in plain Python has"):
        plain(Option)


def test_every_algorithm_is_a_class_by_its_name(problem):
    for name, kind in rr.rankers.registered().items():
        if kind.compiled:
            assert getattr(rr.rankers, kind.__name__) is kind
            assert kind.__name__ in rr.rankers.__all__
            assert kind.__name__.lower() == name.replace("-", "")
