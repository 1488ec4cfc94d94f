"""What is called by its address gets its arguments as numba lays them out in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

import recurrank as rr
from recurrank._addresses import Packed, call
from recurrank._compiled import addressed, hot
from recurrank.rankers.ranker import Ranker, register_state


class Inner(NamedTuple):
    flag: int
    small: np.float64
    table: np.ndarray


class Outer(NamedTuple):
    count: int
    inner: Inner
    half: float
    rng: np.random.Generator
    out: np.ndarray


@addressed
def _everything(at):
    given = at[0]
    inner, out = given.inner, given.out
    out[0], out[1], out[2], out[3] = given.count, inner.flag, inner.small, given.half
    out[4] = given.rng.random()
    for i in range(inner.table.shape[0]):
        for j in range(inner.table.shape[1]):
            out[5] += (i + 1) * (j + 2) * inner.table[i, j]
    return given.count + 1


@addressed
def _fails(at):
    return 1 // at[0][0]


@njit
def _call(function):
    return call(function)


@pytest.mark.parametrize("flag", [0, -1])
def test_arguments_of_all_kinds_arrive(flag):
    table = np.arange(24.0).reshape(4, 6)[::2, ::3]  # strides of its own
    given = Outer(41, Inner(flag, np.float64(0.25), table), 0.5, np.random.default_rng(7), np.zeros(6))
    arguments = Packed(given)
    assert _call(arguments.call(_everything)) == 42
    weighted = sum((i + 1) * (j + 2) * table[i, j] for i in range(2) for j in range(2))
    assert given.out.tolist() == [41, flag, 0.25, 0.5, np.random.default_rng(7).random(), weighted]


def test_errors_of_the_callee_are_the_callers():
    arguments = Packed((0,))
    with pytest.raises(ZeroDivisionError):
        _call(arguments.call(_fails))


def test_the_same_function_is_compiled_for_every_form_of_its_arguments():
    """Arrays with other strides have a form of their own, as do read-only ones."""
    table, out = np.arange(24.0).reshape(4, 6), np.zeros(6)
    frozen = table.copy()
    frozen.flags.writeable = False
    for inner in (table, table.T, table[:, ::2], frozen, table):
        out[:] = 0
        given = Outer(1, Inner(0, np.float64(0), inner), 0.0, np.random.default_rng(7), out)
        arguments = Packed(given)
        _call(arguments.call(_everything))
        rows, columns = inner.shape
        assert out[5] == sum((i + 1) * (j + 2) * inner[i, j] for i in range(rows) for j in range(columns))


def test_what_has_no_known_form_is_refused():
    with pytest.raises(TypeError, match="str cannot be handed over"):
        Packed((1, "text"))
    with pytest.raises(TypeError, match="bool cannot be handed over"):  # numba has two forms of it
        Packed((1, (True,)))


class Flagged(NamedTuple):
    flag: bool


class Undecided(Ranker):
    name, reference, believes, uses_features, regret_bound = "undecided", "a test", "nothing", False, "none"
    compiled_rank = compiled_learn = addressed(lambda state, *_: state.flag)

    def __init__(self, features, positions, rounds, seed=None):
        super().__init__(features, positions, rounds, seed)
        self.state = Flagged(True)


def test_a_state_that_is_not_made_of_arrays_is_refused_in_one_line():
    ranker = Undecided(np.eye(3), positions=2, rounds=10)
    with pytest.raises(ValueError, match=r"^undecided: of its state a bool cannot be handed over .*; make it of arrays$"):
        ranker.rank()


class Counted(NamedTuple):
    shown: np.ndarray


@hot
def show_any(s, rng, slate):
    """It reads the generator and the state, under another name."""
    first = int(rng.random() * len(s.shown))
    for k in range(len(slate.items)):
        slate.items[k] = (first + k) % len(s.shown)


@hot
def count(mine, slate, clicks):
    for k in range(len(clicks)):
        mine.shown[slate.items[k]] += 1
    return False


class Named(Ranker):
    name, reference, believes, uses_features, regret_bound = "named", "a test", "nothing", False, "none"
    compiled_rank, compiled_learn = show_any, count

    def __init__(self, features, positions, rounds, seed=None):
        super().__init__(features, positions, rounds, seed)
        self.state = Counted(np.zeros(len(self.catalogue)))


@hot
def show_first(state, rng, slate):
    """It reads the generator alone."""
    for k in range(len(slate.items)):
        slate.items[k] = k
    if rng.random() < 0.5:
        slate.items[0], slate.items[1] = 1, 0


class Stateless(Named):
    name = "stateless"
    compiled_rank = show_first


def test_functions_may_call_their_state_as_they_like_and_need_not_read_it():
    register_state(Counted, Named)
    for kind in (Named, Stateless):
        ranker = kind(np.eye(5), positions=2, rounds=10, seed=0)
        slates = [ranker.rank() for _ in range(40)]
        for slate in slates:
            ranker.learn(slate, [True, False])
        assert ranker.state.shown.sum() == 80
        assert len({tuple(slate.items.tolist()) for slate in slates}) == (5 if kind is Named else 2)


def test_from_python_a_function_is_called_as_it_is():
    assert call(lambda: np.int64(3)) == 3


@pytest.mark.parametrize("name", ["position-based", "cascade", "factored"])
def test_models_called_by_address_and_models_within_the_loop_play_the_same_rounds(name, problem):
    """``factored`` has a user's function in its state, and is compiled into the loop."""
    if name == "factored":
        model = rr.clicks.Factored(problem.attraction, chi=lambda items, k: 0.7**k)
        twin = rr.clicks.PositionBased(problem.attraction, examination=0.7 ** np.arange(4))
    else:
        twin = model = rr.clicks.make(name, problem.attraction, 4)
    runs = [
        rr.simulate(rr.RecurRank(problem.features, positions=4, rounds=3000, seed=0), model, 3000, seed=seed)
        for model, seed in ((model, np.random.default_rng(5)), (twin, np.random.default_rng(5)))
    ]
    assert np.allclose(runs[0].regret, runs[1].regret, rtol=1e-12)
    assert (runs[0].clicks == runs[1].clicks).all()
