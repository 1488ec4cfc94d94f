"""The benchmark of the field: the quick one from a fresh clone, and the time of long ones, estimated from a share.

    python -m benchmarks field
    python -m benchmarks.field QUERIES.json     # the estimates alone, with the Yandex figure

An estimate is the processor time of one short run per ranker and environment, after compilation, scaled to all rounds and runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import Figure, at_most
from recurrank.experiments.experiment import Experiment, run_one
from recurrank.experiments.field import families
from recurrank.experiments.yandex import suite

FULL = {"families": "paper,robustness,queries,requests", "rounds": 20_000, "runs": 3}
"""The full run whose results are in docs/field.md."""
YANDEX = "recurrank,balanced,anchored,toprank,batchrank,cascade-klucb,dcm-klucb,pbm-pie,grab,random"
SHARE = 2000
"""Rounds of a run that an estimate plays; rankers that are slow at first become faster later."""
CORES = 2


def run() -> list[Figure]:
    return [quick(), full()]


def quick() -> Figure:
    """Time from the first command on: compilation, runs, tables and reports."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", ".", f"{folder}/clone"], check=True)
        environment = {**os.environ, "PYTHONPATH": f"{folder}/clone/src", "NUMBA_CACHE_DIR": f"{folder}/cache"}
        command = [sys.executable, "-m", "recurrank", "field", "--quick", "--jobs", str(CORES), "--out", f"{folder}/out"]
        began = time.perf_counter()
        subprocess.run(command, check=True, env=environment, cwd=folder, capture_output=True)
        return at_most("recurrank field --quick from a fresh clone", time.perf_counter() - began, 300, "s", "two cores")


def full() -> Figure:
    experiments = [experiment for family in families(**FULL) for experiment in family.suite.experiments]  # type: ignore[arg-type]
    return at_most(f"the full benchmark, {FULL['rounds']:,} rounds, estimated", minutes(experiments), 20, "min", "two cores")


def yandex(queries: Path) -> Figure:
    """Six models, ten rankers, 10^6 rounds, 20 of the queries."""
    estimated = minutes(suite(queries, rankers=YANDEX, runs=20, rounds=1_000_000).experiments, 10 * SHARE)
    return at_most("Yandex: six models, ten rankers, 20 queries of 10^6 rounds, estimated", estimated, 60, "min", "two cores")


def minutes(experiments: list[Experiment], share: int = SHARE) -> float:
    """Processor time of all experiments over the cores, from the first run of each ranker in each environment."""
    total = 0.0
    for experiment in experiments:
        if experiment.run == 0:
            run_one(_short(experiment, 1))  # compiles
            began, short = time.process_time(), _short(experiment, share)
            run_one(short)
            scale = experiment.environment.rounds / short.environment.rounds
            took = (time.process_time() - began) * scale
            total += took * len({other.run for other in experiments if other.environment.name == experiment.environment.name})
            print(f"{experiment.id}: {took:.1f} s a run", file=sys.stderr)
    return total / CORES / 60


def _short(experiment: Experiment, rounds: int) -> Experiment:
    return replace(experiment, environment=replace(experiment.environment, rounds=min(rounds, experiment.environment.rounds)))


if __name__ == "__main__":
    for figure in [full(), *(yandex(Path(path)) for path in sys.argv[1:])]:
        print(f"{figure.name}: {figure.value:.1f} {figure.unit} ({figure.limit})")
