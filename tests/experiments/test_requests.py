"""The requests suite: environments as data, the command, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from recurrank.cli import main
from recurrank.experiments import requests
from recurrank.experiments.experiment import run_one


def test_every_environment_can_be_played():
    """40 rounds of Anchored in each; each run has requests of its own, and the same ones again."""
    known = requests.known()
    for name in ("patience-named", "leader-0.9", "orthogonal-cascade", "logistic", "context", "churn", "drift", "wide"):
        assert name in known
        runs = requests.suite("anchored", name, runs=2, rounds=40).experiments
        first, other, again = run_one(runs[0]), run_one(runs[1]), run_one(runs[0])
        assert first.regret[-1] != other.regret[-1]
        np.testing.assert_array_equal(first.regret, again.regret)


def test_the_command_prints_a_table(capsys):
    asked = "suite requests --environments cascade --rankers anchored,told --runs 1 --rounds 60 --jobs 1 --json"
    with pytest.raises(SystemExit) as stop:
        main(asked.split())
    assert stop.value.code == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["environment"], row["ranker"], row["rounds"]) for row in rows] == [
        ("cascade", n, 60) for n in ("anchored", "told")
    ]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"rankers": "balanced"}, "rankers: 'balanced' does not rank requests"),
        ({"rankers": "club-cascade:context=2"}, "rankers: 'club-cascade:context=2': context follows from the requests"),
        ({"rankers": "club-cascade:users=0"}, "users: "),
        ({"environments": "x"}, "environments: 'x' is unknown"),
        ({"runs": 0}, "runs: "),
        ({"rounds": 0}, "rounds: "),
    ],
)
def test_bad_settings(settings, line):
    with pytest.raises(ValueError, match=f"^{line}"):
        requests.suite(**settings)


def test_options_of_rankers():
    found = requests.suite("club-cascade:users=3,anchored:ridge=2", "users", runs=1, rounds=40).run(jobs=1)
    assert [row.ranker for row in found.rows] == ["club-cascade:users=3", "anchored:ridge=2"]
