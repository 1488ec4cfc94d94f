"""The commands as a person runs them: output, JSON, files, and one line for every mistake."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from recurrank.cli import COMMANDS

SMALL = ["--items", "30", "--dim", "3", "--positions", "4", "--rounds", "2000"]


def test_help_lists_every_command_and_imports_nothing_heavy():
    script = """
import sys
from recurrank.cli import main
try:
    main(["--help"])
except SystemExit:
    print([name for name in ("numba", "matplotlib", "numpy") if name in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
    for name, line in COMMANDS.items():
        assert f"{name} " in out
        assert line in " ".join(out.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(call, name):
    code, out, _ = call(name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: recurrank {name}")


def test_no_arguments_is_help(call):
    code, out, _ = call()
    assert code == 0
    assert "Commands:" in out


def test_simulate_json_is_the_contract(call):
    code, out, err = call("simulate", *SMALL, "--clicks", "cascade", "--seed", "3", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert set(document) == {
        "ranker", "clicks", "items", "dim", "positions", "rounds", "seed", "regret", "clicks_total", "seconds", "checkpoints",
        "optimum",
    }  # fmt: skip
    assert document["checkpoints"][-1] == [2000, document["regret"]]
    assert (document["ranker"], document["clicks"], document["seed"]) == ("balanced", "cascade", 3)
    again = json.loads(call("simulate", *SMALL, "--clicks", "cascade", "--seed", "3", "--json")[1])
    assert again["regret"] == document["regret"]
    other = json.loads(call("simulate", *SMALL, "--clicks", "cascade", "--seed", "4", "--json")[1])
    assert other["regret"] != document["regret"]


def test_simulate_for_people_with_options_and_a_plot(call, tmp_path):
    plot, options = tmp_path / "curve.svg", ("--option", "design=spanner", "--option", "delta=0.5")
    code, out, _ = call("simulate", "--ranker", "recurrank", *SMALL, *options, "--plot", str(plot))
    assert code == 0
    assert "2,000" in out
    assert "best ranking" in out
    assert "<svg" in plot.read_text()


def test_trace_draws_the_blocks(call, tmp_path):
    out_file = tmp_path / "flow.svg"
    code, out, _ = call("trace", *SMALL, "--out", str(out_file), "--json")
    assert code == 0
    blocks = json.loads(out)["blocks"]
    assert blocks[0] == {
        "id": 0, "phase": 1, "first": 1, "last": 4, "items": 30, "parent": -1, "opened": 0, "closed": blocks[0]["closed"]
    }  # fmt: skip
    assert "<svg" in out_file.read_text()
    assert call("trace", *SMALL, "--out", str(tmp_path / "flow.png"))[0] == 0


def test_design_of_a_file(call, tmp_path):
    features = np.random.default_rng(0).standard_normal((200, 3))
    path = tmp_path / "x.npy"
    np.save(path, features)
    document = json.loads(call("design", str(path), "--json")[1])
    assert document["rank"] == 3
    assert document["value"] <= 3.15
    assert sum(document["weights"]) == pytest.approx(1)
    assert len(document["support"]) == len(document["weights"]) <= 6
    code, out, _ = call("design", str(path), "--spanner")
    assert code == 0
    assert "explore" in out


def test_lists(call):
    rankers = json.loads(call("rankers", "--json")[1])
    assert "recurrank" in [row["name"] for row in rankers]
    assert all(row["paper"] and row["regret"] and row["believes"] and row["ranks"] for row in rankers)
    ranks = {row["name"]: row["ranks"] for row in rankers}
    assert ranks["pdgd"] == ["queries"]
    assert ranks["lints-pbmrank"] == ["requests", "queries"]
    assert ranks["anchored"] == ["catalogue", "requests", "queries"]
    assert ranks["recurrank"] == ["catalogue"]
    assert "learning_rate" in next(row["options"] for row in rankers if row["name"] == "pdgd")
    clicks = json.loads(call("clicks", "--json")[1])
    holds = {row["name"]: row["holds"] for row in clicks}
    assert holds["cascade"] == {"1": True, "2": True, "3": True, "max": True}
    assert holds["user-browsing"]["1"] is False
    assert holds["factored"] == {}
    for name in ("rankers", "clicks"):
        assert call(name)[0] == 0


def test_paper_json_is_the_contract(call, tmp_path):
    size = ["--runs", "2", "--rounds-scale", "0.01", "--jobs", "1"]
    arguments = ["paper", "--environments", "cascade", "--rankers", "recurrank", *size, "--out", str(tmp_path / "new")]
    code, out, err = call(*arguments, "--json")
    assert (code, err) == (0, "")
    (row,) = json.loads(out)
    assert set(row) == {
        "environment", "ranker", "rounds", "runs", "regret_mean", "regret_se", "seconds_mean", "paper_regret", "paper_seconds",
        "optimum",
    }  # fmt: skip
    assert (row["environment"], row["rounds"], row["runs"]) == ("cascade", 5000, 2)
    assert {"regret.png", "report.html", "results.parquet", "table.tex"} <= {p.name for p in (tmp_path / "new").iterdir()}
    code, again, err = call(*arguments, "--json")  # nothing is left to run
    assert json.loads(again) == [row]
    assert "2 of 2 runs were finished before" in err
    code, out, _ = call(*arguments)
    assert "recurrank" in out
    assert "1 % of the paper's rounds: its numbers do not apply." in out
    assert "report:" in out
    assert "nothing was written" not in out
    assert "nothing was written" in call(*arguments[:-2])[1]


def test_movielens_from_ratings_to_a_run(call, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{u}::{m}::4::0" for u in range(1, 41) for m in range(1, 26) if rng.random() < 0.5]
    (tmp_path / "ratings.dat").write_text("\n".join(lines) + "\n")
    sizes = ["--items", "20", "--users", "25", "--feature-users", "10", "--splits", "2"]
    out = str(tmp_path / "x.npz")
    code, printed, err = call("movielens", str(tmp_path), *sizes, "--out", out, "--json")
    assert (code, err) == (0, "")
    facts = json.loads(printed)
    assert (facts["items"], facts["splits"], facts["ratings"]) == (20, 2, len(lines))
    assert 0 <= facts["attraction"][0] < facts["attraction"][1] <= 1
    assert "now try" in call("movielens", str(tmp_path), *sizes, "--out", out)[1]
    run = [
        "paper",
        "--environments",
        "movielens",
        "--rankers",
        "random",
        "--runs",
        "2",
        "--rounds-scale",
        "0.0001",
        "--jobs",
        "1",
    ]
    code, printed, _ = call(*run, "--movielens", out, "--json")
    assert json.loads(printed)[0]["rounds"] == 200


def test_compare_for_people_and_programs(call, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((30, 4)))
    arguments = ["compare", "--features", str(tmp_path / "x.npy"), "--rankers", "random,epsilon-greedy:epsilon=0.2"]
    arguments += ["--clicks", "cascade,pbm", "--positions", "3", "--rounds", "300", "--runs", "2", "--jobs", "1"]
    code, out, err = call(*arguments, "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert [(row["environment"], row["ranker"]) for row in rows] == [
        (model, ranker) for model in ("cascade", "position-based") for ranker in ("random", "epsilon-greedy:epsilon=0.2")
    ]
    out = call(*arguments, "--out", str(tmp_path / "r"), "--bound")[1]
    assert "epsilon-greedy:epsilon=0.2" in out
    assert "random theta each run" in (tmp_path / "r" / "report.html").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["simulate", "--nope"],
        ["simulate", "--items", "many"],
        ["simulate", "--items", "0"],
        ["simulate", "--items", "3", "--positions", "4"],
        ["simulate", "--dim", "1"],
        ["simulate", "--rounds", "0"],
        ["simulate", "--seed", "-1"],
        ["simulate", "--ranker", "nope"],
        ["simulate", "--clicks", "nope"],
        ["simulate", *SMALL, "--option", "delta"],
        ["simulate", *SMALL, "--option", "delta=0.1", "--option", "delta=0.2"],
        ["simulate", *SMALL, "--ranker", "pdgd"],
        ["simulate", *SMALL, "--option", "delta=7"],
        ["simulate", *SMALL, "--option", "nope=7"],
        ["simulate", *SMALL, "--option", "seed=3"],
        ["simulate", *SMALL, "--option", "delta=5e-324"],
        ["simulate", "--items", "20", "--rounds", "100000000000000000000"],
        ["simulate", "--items", "100000000000000"],
        ["simulate", *SMALL, "--plot", "curve.txt"],
        ["simulate", *SMALL, "--plot", "no/such/folder/curve.png"],
        ["trace", *SMALL, "--out", "flow.gif"],
        ["design", "no-such-file.npy"],
        ["design", "pyproject.toml"],
        ["design"],
        ["paper", "--environments", "moon"],
        ["paper", "--rankers", "nope"],
        ["paper", "--runs", "0"],
        ["paper", "--jobs", "0"],
        ["paper", "--out", "pyproject.toml"],
        ["paper", "--out", "/proc/nowhere"],
        ["paper", "--engine", "moon"],
        ["paper", "--movielens", "no-such-file.zip"],
        ["paper", "--movielens", "pyproject.toml"],
        ["paper", "--rankers", "toprank:delta=9"],
        ["movielens", "no-such-file.zip"],
        ["movielens", "pyproject.toml"],
        ["movielens", ".", "--out", "x.txt"],
        ["movielens", ".", "--seed", "-1"],
        ["yandex", "no-such-file.json"],
        ["yandex", "pyproject.toml"],
        ["compare", "--features", "no-such-file.npy"],
        ["compare", "--rankers", "nope"],
        ["compare", "--clicks", "nope"],
        ["compare", "--theta", "no-such-file.npy"],
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(call, arguments):
    code, out, err = call(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("recurrank: ")
    assert err.count("\n") == 1


def test_a_design_of_bad_numbers_says_where(call, tmp_path):
    features = np.ones((5, 2))
    features[3, 1] = np.nan
    np.save(tmp_path / "x.npy", features)
    code, _, err = call("design", str(tmp_path / "x.npy"))
    assert (code, err) == (2, "recurrank: features[3, 1]: nan is not finite; give numbers for every feature\n")


def test_a_command_whose_libraries_are_missing_says_what_to_install():
    blocked = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("litestar", "msgspec"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
sys.meta_path.insert(0, Blocked())
from recurrank.cli import main
main(["serve"])
"""
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.strip() == "recurrank: msgspec is not installed; this command needs pip install 'recurrank[serve]'"


@pytest.mark.parametrize("group", ["keys", "log"])
def test_lists_of_commands_have_whole_sentences(call, group):
    code, out, _ = call(group, "--help")
    assert code == 0
    assert "..." not in out.partition("Commands:")[2]


def test_the_table_of_click_models_fits_a_narrow_terminal(call, monkeypatch):
    from rich.console import Console

    from recurrank.clicks.presets import names

    monkeypatch.setattr("recurrank.cli.clicks.console", lambda: Console(width=80))
    _, out, _ = call("clicks")
    assert all(f" {name} " in out for name in names())
    assert "\u2026" not in out
    assert max(map(len, out.splitlines())) <= 80
