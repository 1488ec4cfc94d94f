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
    assert (tmp_path / "train.txt.map" / "features.npy").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.txt",), "nowhere.txt: no such file"),
        (("{}/train.txt", "--test", "nowhere.txt"), "nowhere.txt: no such file"),
        (("{}/train.txt", "--rankers", "recurrank"), "rankers: 'recurrank' is unknown; choose from anchored"),
        (("{}/train.txt", "--rankers", "pdgd:speed=1"), "'speed' is not an option"),
        (("{}/train.txt", "--rankers", "pdgd:learning_rate=-1"), "learning_rate: "),
        (("{}/train.txt", "--users", "nobody"), "users: 'nobody' is unknown"),
        (("{}/train.txt", "--users", "perfect:leave=never"), "leave: 'never'"),
        (("{}/train.txt", "--users", "perfect:stop=1"), "'stop' is not an option"),
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
