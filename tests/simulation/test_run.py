"""The compiled loop against plain Python, checkpoints, determinism and bad input."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from tests import naive

import recurrank as rr
from recurrank.rankers.ranker import register_state
from recurrank.seeds import stream


def test_the_loop_is_the_naive_simulation():
    problem = rr.synthetic(items=30, dim=3, seed=1)
    examination = 1 / np.arange(1, 5)
    model = rr.clicks.PositionBased(problem.attraction, examination)
    twin = naive.RecurRank(problem.features, positions=4, rounds=3000, seed=2)
    users = stream(3, "users", 0)
    best = np.sort(problem.attraction)[::-1][:4] @ examination
    regret = clicks = 0.0
    marks = [1, 10, 500, 3000]
    expected = []
    for t in range(1, 3001):
        slate, clicked = naive.position_based_round(twin, problem.attraction, examination, users)
        regret += best - problem.attraction[slate] @ examination
        clicks += sum(clicked)
        if t in marks:
            expected.append((regret, clicks))
    ranker = rr.RecurRank(problem.features, positions=4, rounds=3000, seed=2)
    run = rr.simulate(ranker, model, 3000, seed=3, checkpoints=marks)
    assert run.rounds.tolist() == marks
    np.testing.assert_allclose(run.regret, [r for r, _ in expected], rtol=1e-10)
    assert run.clicks.tolist() == [c for _, c in expected]


@pytest.mark.parametrize("name", rr.clicks.names())
def test_every_model_runs_and_repeats(name):
    problem = rr.synthetic(items=40, dim=3, seed=0)
    model = rr.clicks.make(name, 0.3 * problem.attraction, 4)

    def run(seed):
        return rr.simulate(rr.RecurRank(problem.features, positions=4, rounds=5000, seed=0), model, 5000, seed=seed)

    runs = [run(1), run(1)]
    assert runs[0].regret.tolist() == runs[1].regret.tolist()
    other = run(2)
    assert other.clicks[-1] != runs[0].clicks[-1]
    # clicks follow their expectation: within 5 standard deviations of a sum of 20,000 clicks at most
    best = model.expected(model.best(4)).sum()
    assert abs(runs[0].clicks[-1] - (5000 * best - runs[0].regret[-1])) < 5 * np.sqrt(5000 * 4)


def test_going_on_is_the_same_as_going_through():
    problem = rr.synthetic(items=40, dim=3, seed=0)
    model = rr.clicks.DocumentBased(problem.attraction)
    whole = rr.RecurRank(problem.features, positions=4, rounds=4000, seed=0)
    run = rr.simulate(whole, model, 4000, seed=1)
    parts = rr.RecurRank(problem.features, positions=4, rounds=4000, seed=0)
    seen = []
    rr.simulate(parts, model, 4000, seed=1, checkpoints=range(100, 4001, 100), progress=seen.append)
    assert parts.save() == whole.save()
    assert seen == list(range(100, 4001, 100))
    assert parts.served == 4000
    assert run.rounds[0] == 1
    assert (np.diff(run.rounds) > 0).all()


def test_regret_is_against_the_best_ranking_even_when_that_is_not_by_attraction():
    model = rr.clicks.PositionBased([0.9, 0.1], examination=[0.1, 1.0])
    ranker = rr.RecurRank(np.eye(2), positions=2, rounds=100, seed=0)
    run = rr.simulate(ranker, model, 100, seed=0)
    assert (np.diff(run.regret) >= 0).all()  # showing the worse item first earns more clicks here
    assert 0 < run.regret[-1] < 100 * (0.91 - 0.19)


def test_all_rounds_are_played_whatever_the_checkpoints():
    ranker = rr.RecurRank(np.eye(4), positions=2, rounds=1000, seed=0)
    run = rr.simulate(ranker, rr.clicks.Cascade([0.5] * 4), 1000, checkpoints=[10])
    assert ranker.served == 1000
    assert run.rounds.tolist() == [10]


class Fixed(NamedTuple):
    order: np.ndarray[Any, Any]


@rr.hot
def rank(state, rng, slate):
    for k in range(len(slate.items)):
        slate.items[k] = state.order[k]


@rr.hot
def learn(state, slate, clicks):
    return False


class Always(rr.Ranker):
    """A compiled ranker from outside the package, which shows what it is told."""

    name, reference, believes, uses_features, regret_bound = "always", "", "", False, ""
    compiled_rank, compiled_learn = rank, learn

    def __init__(self, order):
        super().__init__(np.eye(5), len(order), 100, 0)
        self.state = Fixed(np.array(order))


register_state(Fixed, Always)


@pytest.mark.parametrize(
    ("order", "line"),
    [([0, 1, 0], "an item appears twice"), ([0, 1, 5], "item 5 does not exist"), ([0, -1, 1], "item -1 does not exist")],
)
def test_what_a_compiled_ranker_of_the_users_draws_is_checked(order, line):
    """Else its regret would be that of no ranking, and might be negative."""
    with pytest.raises(ValueError, match=f"^always: rank.. drew what cannot be shown: slate: {line}"):
        Always(order).rank()
    with pytest.raises(ValueError, match=f"^always: rank.. drew what cannot be shown: slate: {line}"):
        rr.simulate(Always(order), rr.clicks.Cascade([0.5] * 5), 100)
    assert rr.simulate(Always([2, 1, 0]), rr.clicks.Cascade([0.5] * 5), 100).regret[-1] == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"seed": "a"}, "seed"),
        ({"checkpoints": [[1], [2, 3]]}, "checkpoints"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"checkpoints": []}, "checkpoints"),
        ({"checkpoints": [5, 5]}, "checkpoints"),
        ({"checkpoints": [0]}, "checkpoints"),
        ({"checkpoints": [101]}, "checkpoints"),
        ({"model": rr.clicks.Cascade([0.5, 0.5])}, "model"),
        ({"model": rr.clicks.PositionBased([0.5] * 3, [1.0])}, "model"),
        ({"model": "position-based"}, "model: 'position-based' is a name; give rr.clicks.PositionBased"),
        ({"model": np.eye(3)}, "model: ndarray is not a click model; give rr.clicks"),
    ],
)
def test_bad_input(change, field):
    ranker = rr.RecurRank(np.eye(3), positions=2, rounds=100, seed=0)
    before = ranker.save()
    with pytest.raises(ValueError, match=rf"^{field}\b"):
        rr.simulate(ranker, **{"model": rr.clicks.Cascade([0.5] * 3), "rounds": 100, **change})
    assert ranker.save() == before


def test_arguments_in_the_wrong_order_are_named():
    ranker, model = rr.RecurRank(np.eye(3), positions=2, rounds=100, seed=0), rr.clicks.Cascade([0.5] * 3)
    with pytest.raises(ValueError, match=r"^ranker: Cascade is not a ranker; give the ranker first"):
        rr.simulate(model, ranker, 100)
