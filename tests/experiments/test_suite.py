"""Suites from Python: what the commands give, and environments that are not a catalogue."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, replace

import click
import numpy as np
import pytest

import recurrank as rr
from recurrank.cli import main
from recurrank.experiments import compare, paper, requests
from recurrank.experiments.experiment import Environment, code_of
from recurrank.experiments.requests import RequestSource
from recurrank.experiments.suite import Suite
from recurrank.requests import Clusters

SMALL = {"positions": 3, "rounds": 300, "runs": 2, "items": 30, "dim": 3}


def rows(found) -> list[dict]:
    return [row._asdict() | {"seconds_mean": 0} for row in found.rows]


def test_the_command_only_parses_and_prints(capsys, tmp_path):
    arguments = [f"--{name}={value}" for name, value in SMALL.items()]
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--rankers", "random,oracle", "--clicks", "cascade", "--jobs", "1", "--json", *arguments])
    assert ended.value.code == 0
    printed = [row | {"seconds_mean": 0} for row in json.loads(capsys.readouterr().out)]
    said: list[str] = []
    suite = compare.suite("random,oracle", "cascade", **SMALL)
    assert printed == rows(suite.run(tmp_path, jobs=1, say=said.append))
    assert {"report.html", "results.parquet", "regret.png"} <= {path.name for path in tmp_path.iterdir()}
    assert not said
    suite.run(tmp_path, jobs=1, say=said.append)
    assert said == [f"4 of 4 runs were finished before, in {tmp_path}; delete it to run them again"]


def test_rows_of_another_problem_are_not_reused(tmp_path):
    """Not with other items, dimensions, positions or users, though the rows have the same names."""

    def lost(**changed) -> float:
        return compare.suite("random", **{"clicks": "cascade", **SMALL, **changed}).run(tmp_path, jobs=1).rows[0].regret_mean

    first = lost()
    others = [lost(items=40), lost(dim=5), lost(positions=4), lost(clicks="cascade")]
    assert len({first, *others}) == 4
    assert others[3] == first
    requests_of = requests.suite("anchored", "cascade", runs=1, rounds=50)
    [known] = [one.environment for one in requests_of.experiments]
    small, other = (Clusters(items=60, clusters=3, candidates=10, seed=seed) for seed in (0, 1))
    ids = {
        code_of(replace(requests_of.experiments[0], environment=replace(known, source=RequestSource(stream, clicks))))
        for stream in (small, other)
        for clicks in ("cascade", "position")
    }
    assert len(ids) == 4
    assert code_of(requests_of.experiments[0]) == code_of(
        requests.suite("anchored", "cascade", runs=1, rounds=50).experiments[0]
    )


def test_a_ranker_that_takes_no_context_from_a_catalogue_is_refused():
    """It used to read beyond the end of an array."""
    with pytest.raises(ValueError, match=r"^context: 'club-cascade' needs one with every request; simulate it with requests"):
        compare.suite("club-cascade:context=1", **SMALL).run(jobs=1)


@pytest.mark.parametrize(
    ("name", "module"), [("paper", "paper"), ("suite", "robustness"), ("yandex", "yandex"), ("compare", "compare")]
)
def test_a_default_of_a_command_is_that_of_its_suite(name, module):
    command: click.Command = __import__(f"recurrank.cli.{name}", fromlist=["command"]).command
    suite = __import__(f"recurrank.experiments.{module}", fromlist=["suite"]).suite
    for parameter in (
        *inspect.signature(suite).parameters.values(),
        *list(inspect.signature(Suite.run).parameters.values())[1:5],
    ):
        found = next(option for option in command.params if option.name == parameter.name)
        assert isinstance(found, click.Argument) or found.default == parameter.default


def test_published_numbers_are_in_the_frame():
    found = paper.suite("cascade", paper.SPANNER, runs=1, rounds_scale=0.001).run(jobs=1)
    assert found.rows[0].paper_regret is None  # of another horizon
    assert "paper_regret" in found.to_frame().columns
    assert "paper_regret" not in rr.compare("random", jobs=1, **SMALL).to_frame().columns


@dataclass(frozen=True)
class TwoHalves:
    """Not one catalogue: the items change in the middle, and the ranker starts again."""

    units: None = None
    data: str = "two halves"

    def play(self, experiment, seed):
        half = experiment.environment.rounds // 2
        for part in range(2):
            problem = rr.synthetic(items=10, dim=3, seed=np.random.SeedSequence([*seed.entropy, part]))
            model = rr.clicks.Cascade(problem.attraction)
            ranker = rr.rankers.make(experiment.ranker, features=problem.features, positions=2, rounds=half, seed=seed)
            run = rr.simulate(ranker, model, half, seed)
        return ranker, run


def test_an_environment_is_whatever_makes_a_ranker_and_a_run():
    environment = Environment("halves", TwoHalves(), items=10, dim=3, positions=2, rounds=200)
    one, two = (Suite([environment], ["random"], runs=3).run(jobs=jobs) for jobs in (1, 1))
    assert rows(one) == rows(two)
    assert [result.run for result in one.results] == [0, 1, 2]
    assert len({result.regret[-1] for result in one.results}) == 3
