"""``recurrank queries``: what it prints and writes, going on after a stop, and bad input."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from recurrank.cli import group, main
from recurrank.experiments import queries


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two files of one collection, the second without the last feature."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("letor")
    for name, dim in (("train.txt", 4), ("test.txt", 3)):
        lines = []
        for query in range(15):
            for label in rng.integers(0, 5, 8):
                values = " ".join(f"{p + 1}:{label * (p < 2) + rng.normal():.3f}" for p in range(dim))
                lines.append(f"{label} qid:{query} {values}")
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def run(*arguments):
    result = CliRunner().invoke(group, ["queries", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


COMMON = ("--rankers", "pdgd", "--runs", 2, "--impressions", 300, "--jobs", 1)


def test_json_and_table(files):
    arguments = (files / "train.txt", "--test", files / "test.txt", *COMMON, "--users", "perfect,navigational:leave=always")
    rows = json.loads(run(*arguments, "--json"))
    assert [(row["ranker"], row["users"]) for row in rows] == [("pdgd", "perfect"), ("pdgd", "navigational:leave=always")]
    for row in rows:
        assert {"ranker", "users", "ndcg_mean", "ndcg_se", "online_mean", "seconds_mean"} <= set(row)
        assert 0.5 < row["ndcg_mean"] < 1
        assert row["ndcg_se"] > 0
        assert (row["runs"], row["impressions"]) == (2, 300)
    table = run(*arguments)
    assert f"{rows[0]['ndcg_mean']:.4f}" in table
    assert "navigational:leave=always" in table


def test_report_and_going_on(files, tmp_path):
    out = tmp_path / "report"
    arguments = (files / "train.txt", "--users", "informational", "--out", out, "--json")
    first = json.loads(run(*arguments, *COMMON))
    names = {path.name for path in out.iterdir()}
    assert {"report.html", "results.parquet", "ndcg.png", "ndcg.pdf", "online.png", "ndcg.tex", "reproduce.txt"} <= names
    assert "NDCG@10" in (out / "report.html").read_text()
    assert "PDGD" in (out / "ndcg.tex").read_text()
    said = (out / "reproduce.txt").read_text()
    assert re.search(r"informational pdgd: 300; L = \S+, d = \d+, K = \d+; train.txt, train.txt", said)
    assert "SeedSequence" in said
    again = json.loads(run(*arguments, *COMMON))
    assert again == first  # also the seconds: nothing was run


def test_runs_meet_the_same_queries_and_differ_from_each_other(files):
    found = queries.suite(files / "train.txt", rankers="pdgd,pdgd:learning_rate=5", users="perfect", impressions=50, runs=2)
    results = found.run(jobs=1).results
    assert [result.id.removeprefix("queries/perfect/") for result in results] == [
        "pdgd/0", "pdgd/1", "pdgd:learning_rate=5/0", "pdgd:learning_rate=5/1",
    ]  # fmt: skip
    assert len({tuple(result.measures["ndcg"]) for result in results}) == 4
    assert results[0].measures["online"][0] == results[2].measures["online"][0]  # the first slate, before anything is learned


def test_maps(files, tmp_path):
    run(files / "train.txt", *COMMON, "--users", "perfect", "--maps", tmp_path, "--json")
    assert len(list(tmp_path.glob("train.txt-*.map/features.npy"))) == 1


def test_maps_of_files_with_the_same_name_are_apart(files, tmp_path):
    other = tmp_path / "other" / "train.txt"
    other.parent.mkdir()
    other.write_text((files / "train.txt").read_text().replace("qid:1 ", "qid:100 "))
    first = queries.open_file(str(files / "train.txt"), str(tmp_path / "maps"))
    second = queries.open_file(str(other), str(tmp_path / "maps"))
    assert 100 in second.queries
    assert 100 not in first.queries
    assert len(list((tmp_path / "maps").iterdir())) == 2


def test_one_run_has_no_standard_error(files, tmp_path):
    arguments = (files / "train.txt", "--rankers", "pdgd", "--impressions", 50, "--jobs", 1, "--users", "perfect", "--runs", 1)
    [row] = json.loads(run(*arguments, "--out", tmp_path, "--json"))
    assert (row["ndcg_se"], row["online_se"], row["lost_se"]) == (None, None, None)
    assert (tmp_path / "ndcg.tex").read_text().count(" & -") == 3
    assert re.search(r"│ +- │", run(*arguments))
    page = (tmp_path / "report.html").read_text()
    assert 'href="ndcg.png"' in page
    assert 'href="ndcg.tex"' in page


def test_users_are_those_of_the_highest_label_of_both_files(files, tmp_path):
    """A sample whose labels happen to end at 2 is of a collection with labels to 4."""
    low = tmp_path / "low.txt"
    low.write_text("".join(line for line in (files / "train.txt").read_text().splitlines(True) if line[0] in "012"))
    suite = queries.suite(low, files / "test.txt", rankers="pdgd", users="perfect,navigational:top=4", impressions=5, runs=1)
    assert [one.environment.source.top for one in suite.experiments] == [4, 4]
    assert queries.parse_users("perfect", 4, 10).click.tolist() == [0, 0.2, 0.4, 0.8, 1]
    assert queries.parse_users("perfect:top=4", 2, 10).click.tolist() == [0, 0.2, 0.4, 0.8, 1]
    assert "labels 0 to 4" in suite.experiments[0].environment.source.data


def test_intervals_and_tests_of_ndcg(files):
    found = queries.suite(files / "train.txt", rankers="pdgd,dbgd", users="perfect", impressions=30, runs=3).run(jobs=1)
    final = {key: [row.measures["ndcg"][-1] for row in found.results if row.ranker == key] for key in ("pdgd", "dbgd")}
    assert found.intervals(measure="ndcg")["perfect", "pdgd"].mean == pytest.approx(np.mean(final["pdgd"]))
    gap = np.mean(final["pdgd"]) - np.mean(final["dbgd"])
    assert found.tests(measure="ndcg")[0].difference == pytest.approx(gap)
    assert found.differences("bootstrap", measure="ndcg")[0].mean == pytest.approx(gap)
    assert "ndcg" in found.to_latex(measure="ndcg")
    with pytest.raises(ValueError, match=r"^measure: 'clicks' is unknown here; choose from regret, ndcg, online"):
        found.intervals(measure="clicks")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.txt",), "nowhere.txt: no such file"),
        (("{}/train.txt", "--test", "nowhere.txt"), "nowhere.txt: no such file"),
        (("{}/train.txt", "--rankers", "recurrank"), "rankers: 'recurrank' does not rank queries; choose from anchored"),
        (("{}/train.txt", "--rankers", "nobody"), "rankers: 'nobody' is unknown; choose from anchored"),
        (("{}/train.txt", "--rankers", "pdgd:dim=3"), "rankers: 'pdgd:dim=3': dim follows from the requests; leave it out"),
        (
            ("{}/train.txt", "--rankers", "mgd:candidates=2.5"),
            "2.5 is not a whole number; give a whole number of at least 1",
        ),
        (("{}/train.txt", "--rankers", "pmgd:candidates=many"), "candidates: 'many' is not a whole number"),
        (("{}/train.txt", "--rankers", "pdgd:learning_rate=T^5000"), "learning_rate: T^5000 is too large for 10,000 rounds"),
        (("{}/train.txt", "--rankers", "pdgd:learning_rate=T^.."), "learning_rate: 'T^..' is not a number"),
        (("{}/train.txt", "--rankers", "pdgd:speed=1"), "'speed' is not an option"),
        (
            ("{}/train.txt", "--rankers", "pdgd:learning-rate=0.1:learning_rate=0.2"),
            "rankers: 'pdgd:learning-rate=0.1:learning_rate=0.2': learning_rate is given twice; give it once",
        ),
        (("{}/train.txt", "--rankers", "pdgd:learning_rate=-1"), "learning_rate: "),
        (("{}/train.txt", "--users", "nobody"), "users: 'nobody' is unknown"),
        (("{}/train.txt", "--users", "perfect:leave=never"), "leave: 'never'"),
        (("{}/train.txt", "--users", "perfect:stop=1"), "'stop' is not an option"),
        (("{}/train.txt", "--users", "perfect:top=2"), "top: 2 is too small; give an integer of at least 4"),
        (("{}/train.txt", "--impressions", "0"), "impressions: 0 is too small"),
        (("{}/train.txt", "--runs", "0"), "runs: 0 is too small"),
    ],
)
def test_bad_input_is_one_line(files, capsys, arguments, words):
    with pytest.raises(SystemExit) as stop:
        main(["queries", *(argument.format(files) for argument in arguments)])
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert not said.out
