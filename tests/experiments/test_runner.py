"""Running experiments: the same rows from every engine, nothing run twice, nothing lost when stopped or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import prepared
from tests.dask_cluster import Cluster
from tests.experiments.made import made_result

from recurrank.experiments import paper, results
from recurrank.experiments.experiment import Experiment
from recurrank.experiments.results import ResultsFile, read_results
from recurrank.experiments.runner import run

PYTHON = [sys.executable, "-W", "ignore"]


def small(runs: int = 2, scale: float = 0.002) -> list[Experiment]:
    return paper.suite("cascade,position", "recurrank,random", runs, scale).experiments


def same(one, two) -> bool:
    """All of a row but the seconds."""
    return [(a._replace(checkpoints=0, regret=0, seconds=0), a.checkpoints.tolist(), a.regret.tolist()) for a in one] == [
        (b._replace(checkpoints=0, regret=0, seconds=0), b.checkpoints.tolist(), b.regret.tolist()) for b in two
    ]


def test_the_same_rows_whatever_the_number_of_processes():
    experiments, seen = small(), []
    one, two = run(experiments, jobs=1, progress=lambda *done: seen.append(done)), run(experiments, jobs=2)
    assert same(one, two)
    assert [row.id for row in one] == [experiment.id for experiment in experiments]
    assert seen == sorted(seen)
    assert [runs for _, runs in seen] == list(range(9))
    assert seen[-1][0] == sum(experiment.environment.rounds for experiment in experiments)
    assert one[0].regret.tolist() != one[1].regret.tolist()


GROWN = """
import os, time
from recurrank.experiments.runner import _local

def one(experiment):
    from joblib.externals.loky import process_executor
    process_executor._MAX_MEMORY_LEAK_SIZE, process_executor._MEMORY_LEAK_CHECK_DELAY = -10**12, 0  # of this worker
    time.sleep(0.1)
    return experiment, os.getpid()

rows = sorted(_local(list(range(12)), 2, one))
print([row[0] for row in rows] == list(range(12)), len({row[1] for row in rows}) > 2)
"""


def test_processes_that_have_grown_are_replaced_without_a_word():
    pytest.importorskip("psutil")  # joblib looks at their memory where it is installed
    done = subprocess.run([sys.executable, "-c", GROWN], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["True", "True"]
    assert done.stderr == ""


@pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed", "ignore::ResourceWarning")
def test_a_dask_cluster_gives_the_same_rows_though_a_worker_is_killed(tmp_path):
    experiments = paper.suite("cascade,position", "recurrank,random", 6, 0.02).experiments
    with Cluster(tmp_path) as cluster:
        total = sum(experiment.environment.rounds for experiment in experiments)
        killed = []

        def kill_one(done: int, _: int) -> None:
            if done > total / 4 and not killed:
                cluster.processes[1].send_signal(signal.SIGKILL)
                killed.append(done)

        rows = run(experiments, engine=f"dask:{cluster.address}", progress=kill_one)
        assert killed
        assert killed[0] < total
        cluster.processes[1].wait(timeout=30)
        assert cluster.processes[1].returncode == -signal.SIGKILL
    assert same(rows, run(experiments, jobs=1))


@pytest.mark.parametrize(
    ("engine", "jobs", "says"),
    [
        ("moon", 1, "^engine: 'moon' is unknown"),
        ("dask", 1, "^engine: 'dask' is unknown"),
        ("dask:", 1, "^engine: "),
        ("local:3", 1, "^engine: "),
        ("local", 0, "^jobs: "),
        ("local", -2, "^jobs: "),
    ],
)
def test_bad_engines_and_jobs(engine, jobs, says):
    with pytest.raises(ValueError, match=says):
        run(small(), jobs=jobs, engine=engine)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_no_scheduler_there():
    with pytest.raises(ValueError, match=r"^engine: no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run(small(), engine="dask:tcp://127.0.0.1:9")


def test_finished_rows_are_not_run_again(tmp_path, monkeypatch):
    from recurrank.experiments import runner

    experiments, calls = small(), []

    def counted(experiment):
        calls.append(experiment.id)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return made_result(experiment, final=len(calls))

    monkeypatch.setattr(runner, "run_one", counted)
    with pytest.raises(KeyboardInterrupt), ResultsFile(tmp_path) as file:
        run(experiments, jobs=1, file=file)
    kept, _ = read_results(tmp_path / "results.parquet")
    assert [row.id for row in kept] == calls[:4]
    with ResultsFile(tmp_path) as file:
        rows = run(experiments, jobs=1, file=file)
    assert sorted(calls[:4] + calls[5:]) == sorted(experiment.id for experiment in experiments)
    assert [row.id for row in rows] == [experiment.id for experiment in experiments]
    again, notes = read_results(tmp_path / "results.parquet")
    assert same(again, rows)  # in the order of the plan
    assert notes["code"] == results.code()
    assert [path.name for path in tmp_path.iterdir()] == ["results.parquet"]


def test_a_row_of_another_horizon_data_or_code_is_run_again(tmp_path, monkeypatch):
    experiments = small()
    with ResultsFile(tmp_path) as file:
        for experiment in experiments:
            file.add(made_result(experiment))
    with ResultsFile(tmp_path) as file:
        assert all(file.finished(experiment) is not None for experiment in experiments)
        assert all(file.finished(experiment) is None for experiment in small(scale=0.004))
        file.rows = {name: row._replace(data="other") for name, row in file.rows.items()}
        assert all(file.finished(experiment) is None for experiment in experiments)
    monkeypatch.setattr(results, "code", lambda: "000000000000")
    with ResultsFile(tmp_path) as file:
        assert file.outdated == len(experiments)
        assert not file.rows


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    with ResultsFile(tmp_path), pytest.raises(ValueError, match="another run is writing there"), ResultsFile(tmp_path):
        pass
    with ResultsFile(tmp_path):  # free again
        pass


def test_a_damaged_file_is_refused_and_left_alone(tmp_path):
    (tmp_path / "results.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ValueError, match="not a file of results"), ResultsFile(tmp_path):
        pass
    assert (tmp_path / "results.parquet").read_bytes() == b"PAR1 and then nothing"


def test_a_run_that_cannot_start_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match=r"^engine: "), ResultsFile(tmp_path / "new") as file:
        run(small(), engine="moon", file=file)
    assert not (tmp_path / "new").exists()


def started(folder: Path, *arguments: str) -> prepared.Process:
    command = [*PYTHON, "-m", "recurrank", "paper", "--environments", "position", "--rankers", "recurrank,random", "--out"]
    command += [str(folder), *arguments]
    return prepared.start(command, session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_or_killed_goes_on(tmp_path, how):
    """A real process, two workers under it; everybody gets the signal, as from a terminal."""
    arguments = ["--runs", "20", "--rounds-scale", "0.1", "--jobs", "2"]
    process = started(tmp_path, *arguments)
    deadline = time.monotonic() + 120
    while not (tmp_path / "results.parquet").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -how), errors
    kept, _ = read_results(tmp_path / "results.parquet")
    assert 0 < len(kept) < 40
    if how == signal.SIGINT:
        assert f"{len(kept)} of 40 runs are finished and kept" in errors
        assert "Traceback" not in errors
    again = started(tmp_path, *arguments[:-1], "1", "--json")
    _, errors = again.communicate(timeout=300)
    assert again.returncode == 0, errors
    assert f"{len(kept)} of 40 runs were finished before" in errors
    rows, _ = read_results(tmp_path / "results.parquet")
    assert len(rows) == 40
    seconds = {row.id: row.seconds for row in rows}
    assert all(seconds[row.id] == row.seconds for row in kept)  # they were not run again
    assert {path.name for path in tmp_path.iterdir()} >= {"results.parquet", "report.html", "table.tex", "regret-position.pdf"}
    assert not [path.name for path in tmp_path.iterdir() if "partial" in path.name or path.name == ".lock"]
