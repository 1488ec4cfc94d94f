"""The robustness suite: environments as data, and the command."""

from __future__ import annotations

import json
import pickle
from itertools import permutations

import numpy as np
import pytest

from recurrank.cli import main
from recurrank.experiments.robustness import ENVIRONMENTS, HalfHidden, suite


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environments_are_what_they_say(name):
    environment = pickle.loads(pickle.dumps(ENVIRONMENTS[name]))  # as it travels to other processes
    seeds = [np.random.SeedSequence([seed]) for seed in (0, 0, 1)]
    one, same, other = (environment.source.setting(0, seed, environment.positions) for seed in seeds)
    assert one.features.shape == (environment.items, environment.dim)
    assert one.model.attraction.shape == (environment.items,)
    assert np.array_equal(one.model.attraction, same.model.attraction)
    assert not np.array_equal(one.model.attraction, other.model.attraction)
    assert one.model.attraction.max() <= environment.source.scale
    assert one.model.state is not None  # it runs compiled
    examined = one.model.examine(one.model.best(environment.positions))
    assert examined[0] == 1
    assert (np.diff(examined) <= 0).all()


def test_set_dependent_examination():
    model = HalfHidden(np.array([0.2, 0.6, 1.0]))
    assert model.examine([1, 0, 2]).tolist() == pytest.approx([1, 1 - 0.3, (1 - 0.3) * (1 - 0.1)])
    rankings = [model.expected(ranking).sum() for ranking in permutations(range(3), 2)]
    assert model.optimum(2).expected.sum() == pytest.approx(max(rankings))


def test_no_environment_has_its_items_in_order():
    """The most attractive item is anywhere, and the numbers of the items say nothing about their attraction."""
    for environment in ENVIRONMENTS.values():
        settings = [environment.source.setting(0, np.random.SeedSequence([seed]), environment.positions) for seed in range(10)]
        assert len({int(s.model.attraction.argmax()) for s in settings}) > 3, environment.name
        numbers = np.arange(environment.items)
        correlation = [np.corrcoef(numbers, s.model.attraction)[0, 1] for s in settings]
        assert abs(np.mean(correlation)) < 4 / np.sqrt(10 * environment.items), environment.name


def test_plan():
    assert len(suite().experiments) == 13 * 3 * 5
    chosen = suite("balanced,recurrank:design=spanner", "leader, movielens", runs=2, rounds=100).experiments
    assert [experiment.id for experiment in chosen][:3] == [
        "suite/leader/balanced/0",
        "suite/leader/balanced/1",
        "suite/leader/recurrank:design=spanner/0",
    ]
    assert {experiment.environment.rounds for experiment in chosen} == {100}
    for wrong in ({"rankers": "moon"}, {"environments": "moon"}, {"runs": 0}, {"rounds": 0}):
        with pytest.raises(ValueError, match=r"^(rankers|environments|runs|rounds): "):
            suite(**wrong)


def test_the_command(capsys):
    arguments = ["suite", "--rankers", "balanced,random", "--environments", "leader,chain-cascade", "--runs", "2"]
    with pytest.raises(SystemExit) as done:
        main([*arguments, "--rounds", "2000", "--jobs", "1", "--json"])
    assert done.value.code == 0
    document = json.loads(capsys.readouterr().out)
    found = [(row["environment"], row["ranker"], row["runs"], row["rounds"]) for row in document]
    assert found == [(e, r, 2, 2000) for e in ("leader", "chain-cascade") for r in ("balanced", "random")]
    assert document[0]["regret_mean"] < document[1]["regret_mean"]
