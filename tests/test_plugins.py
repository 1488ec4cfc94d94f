"""Rankers and click models of the user's own, in a file outside the package: in every place where the package's own work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests import prepared
from tests.dask_cluster import Cluster
from tests.serving.running import serving

from recurrank import plugins
from recurrank._linking import COMPILING

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
SIZE = ["--items", "30", "--dim", "3", "--positions", "4", "--rounds", "2000"]


@pytest.fixture
def file(tmp_path):
    """The compiled example of the page, as a file."""
    (tmp_path / "my_ideas.py").write_text(examples()[1])
    return tmp_path / "my_ideas.py"


def examples():
    """The plain and the compiled one."""
    return re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), flags=re.S | re.M)


def edit(file, before, after):
    text = file.read_text()
    assert text.count(before) == 1
    file.write_text(text.replace(before, after))


def call(*arguments, **settings):
    command = [sys.executable, "-m", "recurrank", *map(str, arguments)]
    return prepared.run(command, capture_output=True, text=True, timeout=300, **settings)


def said(done):
    """Its lines on standard error, but for the one about compilation, which depends on the time that it takes."""
    return [line for line in done.stderr.splitlines() if line != COMPILING]


def test_an_error_that_a_plugin_raises_is_one_line(tmp_path):
    """Its file, the line and the error, whether it comes from an option of the wrong kind or in a round."""
    text = examples()[0]
    (tmp_path / "mine.py").write_text(text.replace("self.clicked[items] += clicks", "self.clicked[items] += {}['x']"))
    arguments = ["simulate", "--plugin", tmp_path / "mine.py", *SIZE]
    done = call(*arguments, "--ranker", "most-clicked-plain", "--clicks", "cascade")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"recurrank: plugin: \S+mine.py, line \d+: KeyError: 'x'", said(done)[-1])
    done = call(*arguments, "--ranker", "random", "--clicks", "in-a-hurry-plain:patience=x")
    assert done.returncode == 2
    assert re.fullmatch(r"recurrank: .*mine.py, line \d+: TypeError: .*", said(done)[-1])


@pytest.mark.long
def test_compare_with_several_processes_and_after_an_edit(file, tmp_path):
    arguments = ["compare", "--plugin", file, "--rankers", "most-clicked,random", "--clicks", "in-a-hurry", *SIZE]
    arguments += ["--runs", 2, "--json", "--out", tmp_path / "report"]
    two = call(*arguments, "--jobs", 2)
    assert (two.returncode, said(two)) == (0, [])
    regret = {row["ranker"]: row["regret_mean"] for row in json.loads(two.stdout)}
    assert 0 < regret["most-clicked"] < 0.5 * regret["random"]
    again = call(*arguments, "--jobs", 1)
    assert "4 of 4 runs were finished before" in again.stderr
    assert json.loads(again.stdout) == json.loads(two.stdout)
    one = call(*arguments[:-2], "--jobs", 1)  # the same in one process, without a report
    assert {row["ranker"]: row["regret_mean"] for row in json.loads(one.stdout)} == regret
    edit(file, "if rate > most and", "if 1 - rate > most and")  # the least clicked first
    edited = call(*arguments, "--jobs", 1)
    assert "finished before" not in edited.stderr
    worse = {row["ranker"]: row["regret_mean"] for row in json.loads(edited.stdout)}
    assert worse["most-clicked"] > 1.5 * regret["most-clicked"]
    assert worse["random"] == regret["random"]


def test_a_script_that_defines_its_ranker_and_runs_it(file):
    file.write_text(
        file.read_text()
        + """
if __name__ == "__main__":
    from recurrank.experiments import compare, runner

    plan = compare.suite("most-clicked", "in-a-hurry", positions=3, rounds=300, runs=2, items=20, dim=3).experiments
    print([bool(row.regret[-1] > 0) for row in runner.run(plan, jobs=2)])
"""
    )
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300)
    assert (done.stdout, said(done)) == ("[True, True]\n", [])
    edit(file, 'if __name__ == "__main__":', "if True:")
    refused = call("rankers", "--plugin", file)
    assert refused.returncode == 2
    assert 'put them under if __name__ == "__main__":' in refused.stderr


def test_the_lists_name_them(file):
    rankers, clicks = (json.loads(call(name, "--plugin", file, "--json").stdout) for name in ("rankers", "clicks"))
    assert "most-clicked" in {row["name"] for row in rankers}
    (own,) = (row for row in clicks if row["name"] == "in-a-hurry")
    assert own["holds"] == {"1": True, "2": True, "3": True, "max": True}


def serve_and_replay(file, algorithm, store):
    """Make one, rank and report, twice; then replay the log."""
    items = [{"id": str(i), "features": [1, i / 10]} for i in range(10)]
    asked = {"algorithm": algorithm, "positions": 2, "rounds": 100, "items": items}
    for attempt in range(2):  # the second time from the log
        with serving("--plugin", str(file), "--store", store) as (_, url), httpx.Client(base_url=url, timeout=60) as http:
            made = http.put("/v1/rankers/mine", json=asked)
            assert made.json() == {"name": "mine", "created": attempt == 0}
            for number in range(20):
                slate = f"{attempt}-{number}"
                shown = http.post("/v1/rankers/mine/rank", json={"slate": slate}).json()["items"]
                clicks = [k for k, item in enumerate(shown) if item == "7"]
                assert http.post("/v1/feedback", json=[{"slate": slate, "clicks": clicks}]).json()[0]["status"] == "learned"
            assert http.put("/v1/rankers/mine2", json={**asked, "algorithm": "nobody"}).status_code == 400
    done = call("log", "replay", "--plugin", file, "--store", store, "--json")
    (finding,) = json.loads(done.stdout)
    assert (done.returncode, finding["name"], finding["faults"]) == (0, "mine", [])
    return asked


@pytest.mark.long
def test_plain_python(tmp_path):
    """Simulated, compared in two processes, with options and parameters, and served."""
    file = tmp_path / "plain_ideas.py"
    file.write_text(examples()[0])
    arguments = ["compare", "--plugin", file, "--rankers", "most-clicked-plain:prior=2,random", *SIZE[:-1], "300"]
    done = call(*arguments, "--clicks", "in-a-hurry-plain:patience=0.7,document", "--runs", 2, "--jobs", 2, "--json")
    assert (done.returncode, said(done)) == (0, [])
    regret = {(row["environment"], row["ranker"]): row["regret_mean"] for row in json.loads(done.stdout)}
    assert len(regret) == 4
    for model in ("in-a-hurry-plain:patience=0.7", "document-based"):
        assert 0 < regret[model, "most-clicked-plain:prior=2"] < 0.7 * regret[model, "random"]
    bad = call(*arguments[:4], "most-clicked-plain:prior=-1", *SIZE)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "prior: -1 is out of range; give a number of at least 0" in bad.stderr
    serve_and_replay(file, "most-clicked-plain", f"sqlite:///{tmp_path}/log.db")


def test_the_service(file, tmp_path):
    store = f"sqlite:///{tmp_path}/log.db"
    asked = serve_and_replay(file, "most-clicked", store)
    without = call("log", "replay", "--store", store)
    assert without.returncode == 2
    assert "'most-clicked' is unknown" in without.stderr
    edit(file, "best, most = -1, -1.0", 'best, most = -1, "none"')
    edit(file, 'name, reference = "most-clicked"', 'name, reference = "mistaken"')
    with serving("--plugin", str(file), "--store", f"{store}2") as (_, url), httpx.Client(base_url=url, timeout=60) as http:
        refused = http.put("/v1/rankers/mine", json={**asked, "algorithm": "mistaken"})
        assert refused.status_code == 400
        assert "my_ideas.py, line" in refused.text
        assert http.get("/v1/rankers").json() == []


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("state.shown[a] + 1.0", "state.shwon[a] + 1.0", "Unknown attribute 'shwon'"),
        ("state.clicked[slate.items[k]] += clicks[k]", 'state.clicked[slate.items[k]] += "a"', "No implementation of function"),
        ("chi[k] = state.patience**k", "chi[k] = np.fft.fft(items)", "numba cannot compile it: "),
    ],
)
def test_a_slip_in_compiled_code_is_one_line(file, before, after, reason):
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if before in text)
    edit(file, before, after)
    done = call("simulate", "--plugin", file, "--ranker", "most-clicked", "--clicks", "in-a-hurry", *SIZE, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(said(done)) == 1, done.stderr
    assert f"my_ideas.py, line {line}: numba cannot compile it: " in done.stderr
    assert reason in done.stderr


def test_files_that_cannot_be_imported_get_one_line(tmp_path):
    for name, text, said in [
        ("no_such.py", None, "is not a Python file"),
        ("x.txt", "", "is not a Python file"),
        ("json.py", "", "cannot be imported as 'json'"),
        ("broken_syntax.py", "a = 1\nb = = 2\n", "broken_syntax.py, line 2: SyntaxError"),
        ("broken_name.py", "a = 1\n\nb = c\n", "broken_name.py, line 3: NameError: name 'c' is not defined"),
    ]:
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        with pytest.raises(ValueError, match=r"^plugin: ") as refused:
            plugins.load(path)
        assert said in str(refused.value)
        assert Path(name).stem == "json" or Path(name).stem not in sys.modules


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed", "ignore::ResourceWarning")
def test_workers_of_a_dask_cluster_run_them_and_never_old_code(file, tmp_path):
    arguments = ["compare", "--plugin", file, "--rankers", "most-clicked,random", "--clicks", "in-a-hurry", *SIZE]
    arguments += ["--runs", 2, "--json"]
    with Cluster(tmp_path) as cluster:
        clustered = call(*arguments, "--engine", f"dask:{cluster.address}")
        assert clustered.returncode == 0, clustered.stderr
        here = call(*arguments, "--jobs", 1)
        regret, alone = ({row["ranker"]: row["regret_mean"] for row in json.loads(done.stdout)} for done in (clustered, here))
        assert regret == alone
        edit(file, "if rate > most and", "if 1 - rate > most and")
        edited = call(*arguments, "--engine", f"dask:{cluster.address}")  # never the old code's numbers
        assert (edited.returncode, edited.stdout) == (2, "")
        assert f"plugin: {file} has changed since this process loaded it" in edited.stderr
        assert "Traceback" not in edited.stderr
