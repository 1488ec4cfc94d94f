"""Mean ranks, critical differences, and the benchmark of the field."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import rankdata
from tests import prepared
from tests.dask_cluster import Cluster

import recurrank as rr
from recurrank.cli import group, main
from recurrank.experiments import field, ranks
from recurrank.experiments.experiment import Result
from recurrank.experiments.ranks import Ranks, draw_ranks, mean_ranks
from recurrank.rankers import documents
from recurrank.rankers.documents import PDGD


@pytest.mark.parametrize("rankers", [2, 12, 31])
def test_ticks_of_a_diagram_are_whole_and_equally_far_apart(rankers):
    ticks = ranks._ticks(1.0, float(rankers))
    assert ticks[0] == 1
    assert len(ticks) <= 13
    assert len({*np.diff(ticks)}) == 1
    assert (ticks == ticks.round()).all()


def test_ranks_of_a_published_example():
    """Demsar 2006: q is 2.569 for 4 rankers, and with 14 data sets the critical difference is 1.25."""
    losses = np.random.default_rng(0).random((14, 4))
    found = mean_ranks(list("abcd"), losses)
    assert found.difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)
    assert round(found.difference, 2) == 1.25
    assert sorted(found.ranks) == found.ranks.tolist()
    expected = rankdata(losses, axis=1).mean(axis=0)
    assert dict(zip(found.names, found.ranks, strict=True)) == pytest.approx(dict(zip("abcd", expected, strict=True)))


def test_equal_rankers_are_rarely_told_apart():
    """Nemenyi's test over 10 equal rankers and 20 blocks errs in at most 5 % of cases: 200 cases, three standard errors."""
    rng = np.random.default_rng(1)
    found = [mean_ranks([str(i) for i in range(10)], rng.random((20, 10))) for _ in range(200)]
    apart = sum(np.ptp(one.ranks) > one.difference for one in found)
    assert apart <= 0.05 * 200 + 3 * np.sqrt(0.05 * 0.95 * 200)


def test_groups_are_the_longest_ones():
    found = Ranks(list("abcde"), np.array([1.0, 1.5, 2.4, 4.0, 4.2]), 1.0, 0.01, 9)
    assert found.groups() == [(0, 1), (1, 2), (3, 4)]
    assert found._replace(difference=np.inf).groups() == [(0, 4)]
    assert found._replace(difference=0.1).groups() == []


def test_a_single_block_tells_nothing(tmp_path):
    found = mean_ranks(["random", "oracle"], [[2.0, 1.0]])
    assert (found.names, found.difference) == (["oracle", "random"], np.inf)
    assert np.isnan(found.p)
    draw_ranks(found, tmp_path / "ranks.png", tmp_path / "ranks.pdf")
    assert (tmp_path / "ranks.pdf").read_bytes().startswith(b"%PDF")


@pytest.fixture(scope="module")
def letor(tmp_path_factory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("letor") / "train.txt"
    lines = [
        f"{label} qid:{q} 1:{label + rng.normal():.3f} 2:{rng.normal():.3f}" for q in range(10) for label in (0, 0, 1, 2, 4)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_tables_reports_and_going_on(tmp_path, letor):
    arguments = [
        "field",
        "--quick",
        "--families",
        "queries,documents",
        "--rankers",
        "random,epsilon-greedy,pdgd",
        "--jobs",
        "1",
    ]
    arguments += ["--train", str(letor), "--out", str(tmp_path / "out")]
    first = CliRunner().invoke(group, [*arguments, "--json"], catch_exceptions=False)
    rows = json.loads(first.stdout)
    assert [(row["family"], row["ranker"]) for row in rows] == [
        ("queries", "epsilon-greedy"), ("queries", "random"), ("documents", "pdgd"),
    ]  # fmt: skip
    assert rows[0]["lost_mean"] < rows[1]["lost_mean"]
    assert (rows[0]["rank"], rows[1]["rank"]) == (1, 2)
    assert rows[0]["rounds_per_second"] == pytest.approx(1000 / rows[0]["seconds"])
    page = (tmp_path / "out" / "field.html").read_text()
    assert "EpsilonGreedy" in page
    assert 'href="queries/report.html"' in page
    for name in (
        "ranks-queries.png",
        "ranks-documents.pdf",
        "queries/results.parquet",
        "queries/reproduce.txt",
        "documents/ndcg.png",
    ):
        assert (tmp_path / "out" / name).is_file(), name
    again = CliRunner().invoke(group, arguments, catch_exceptions=False)
    assert f"{rows[0]['seconds']:.2f}" in again.stdout  # the same times: nothing was run again


def test_everything_registered_takes_part():
    names = field.candidates("paper")
    assert {"balanced", "toprank", "random"} <= set(names)
    assert "oracle" not in names
    assert field.candidates("documents")[:1] != []
    quick = {family.name: family.suite for family in field.families(quick=True)}
    assert list(quick) == ["paper", "robustness", "queries", "requests"]
    assert {one.ranker for one in quick["robustness"].experiments} == set(names)
    assert max(one.environment.rounds for suite in quick.values() for one in suite.experiments) == field.QUICK_ROUNDS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--families", "moon"], "families: 'moon' is unknown"),
        (["--rankers", "nobody"], "rankers: 'nobody' is unknown"),
        (["--families", "documents"], "families: nothing to run"),
        (["--test", "test.txt"], "test: train is not given"),
        (["--runs", "0"], "runs: 0 is too small"),
        (["--families", "documents", "--train", "nowhere.txt"], "nowhere.txt: no such file"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, words):
    with pytest.raises(SystemExit) as stop:
        main(["field", *arguments])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


BROKEN = '''
import recurrank as rr


@rr.rankers.plain
class Broken:
    """Fails in its third round, in one environment only."""

    name = "broken-plain"

    def __init__(self, features, positions, rounds):
        self.positions, self.turn, self.breaks = positions, 0, len(features) == 10

    def rank(self):
        self.turn += 1
        if self.breaks and self.turn > 2:
            raise RuntimeError("no idea\\nwhat to show")
        return list(range(self.positions))

    def learn(self, items, clicks):
        pass
'''


@pytest.mark.long
def test_a_ranker_that_fails_is_marked_and_the_others_go_on(tmp_path):
    """In a process of its own, since a plugin stays registered; two processes, so that the error crosses between them."""
    (tmp_path / "broken.py").write_text(BROKEN)
    arguments = [sys.executable, "-m", "recurrank", "field", "--plugin", str(tmp_path / "broken.py"), "--quick", "--jobs", "2"]
    arguments += ["--families", "queries", "--rankers", "random,broken-plain,epsilon-greedy", "--out", str(tmp_path / "out")]
    done = prepared.run([*arguments, "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    rows = json.loads(done.stdout)
    assert [(row["ranker"], row["rank"]) for row in rows] == [("epsilon-greedy", 1), ("random", 2), ("broken-plain", None)]
    assert rows[0]["failed"] is None
    assert re.fullmatch(r"\w+, run [01]: RuntimeError: no idea", rows[2]["failed"])
    assert f"queries: broken-plain failed: {rows[2]['failed']}" in done.stderr.splitlines()
    assert "failed: " in (tmp_path / "out" / "field.html").read_text()
    (tmp_path / "broken.py").write_text(BROKEN.replace("== 10", "== 11"))
    again = prepared.run([*arguments, "--jobs", "1", "--json"], capture_output=True, text=True, timeout=300)
    assert again.returncode == 0
    assert [row["seconds"] for row in json.loads(again.stdout) if row["ranker"] == "random"] == [rows[1]["seconds"]]
    assert "12 of 18 runs were finished before" in again.stderr


class Unmakeable(PDGD):
    name = "unmakeable"

    def __init__(self, *arguments, **options):
        raise RuntimeError("boom")


def test_a_ranker_that_cannot_be_made_is_marked_and_the_others_go_on(letor, monkeypatch, capsys):
    """With options, too; a suite of queries ends in one line."""
    monkeypatch.setitem(documents.ranker._kinds, "unmakeable", Unmakeable)
    labels = ["pdgd", "unmakeable", "unmakeable:learning_rate=0.5"]
    [family] = field.families(families="documents", rankers=",".join(labels), runs=1, rounds=20, train=letor)
    rows = field.field_rows("documents", family.suite.run(jobs=1, survive=True))
    assert [row.ranker for row in rows] == labels
    assert [row.failed is None for row in rows] == [True, False, False]
    assert rows[1].failed == "perfect, run 0: ValueError: rankers: 'unmakeable' cannot be made (RuntimeError: boom)"
    for label in labels[1:]:
        with pytest.raises(SystemExit) as stop:
            main(["queries", str(letor), "--rankers", label, "--impressions", "20", "--runs", "1", "--jobs", "1"])
        assert stop.value.code == 2
        assert capsys.readouterr().err == f"recurrank: rankers: {label!r} cannot be made (RuntimeError: boom)\n"


def test_rankers_of_requests_take_part_by_being_registered():
    assert {"anchored", "told", "naive-thompson"} <= set(rr.rankers.kinds("requests"))
    assert "told" not in field.candidates("requests")


@pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed", "ignore::ResourceWarning")
def test_a_dask_cluster_gives_the_same_tables_and_a_users_ranker_is_in_them(tmp_path):
    """A ranker of the user's own takes part by being registered, among all others that are asked for, on the workers too."""
    (tmp_path / "mine.py").write_text(BROKEN.replace("broken-plain", "mine").replace("== 10", "== 11"))
    arguments = ["-W", "ignore", "-m", "recurrank", "field", "--plugin", str(tmp_path / "mine.py"), "--families", "queries"]
    arguments = [sys.executable, *arguments, "--quick", "--runs", "1", "--rounds", "50", "--rankers", "random,mine", "--json"]
    with Cluster(tmp_path) as cluster:
        done = [
            prepared.run([*arguments, *where], capture_output=True, text=True, timeout=300)
            for where in (["--engine", f"dask:{cluster.address}"], ["--jobs", "1"])
        ]
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    tables = [[(row["ranker"], row["rank"], row["lost_mean"]) for row in json.loads(one.stdout)] for one in done]
    assert tables[0] == tables[1]
    assert {row[0] for row in tables[0]} == {"random", "mine"}


def test_runs_on_the_same_documents_are_one_problem():
    """Repeated runs on one file of judged queries are no independent data sets; on synthetic problems each run is one."""
    rng = np.random.default_rng(0)

    def row(environment, ranker, run):
        value = float(rng.random())
        regret, measures = np.array([value]), {"ndcg": [value]}
        name, size = f"{environment}/{ranker}/{run}", (10, 2, 3, 100)
        return Result(name, environment, ranker, run, *size, "", "", np.array([100]), regret, 0, 1.0, "", measures)

    results = [row(users, name, run) for users in ("perfect", "navigational") for name in ("a", "b") for run in range(5)]
    assert field.ranks_of("documents", results).blocks == 2
    assert field.ranks_of("requests", results).blocks == 10
