"""Fitting click models to a million pages and evaluating ten million logged rows, each in a process of its own, from a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Figure, at_most

PAGES, QUERIES, ITEMS, POSITIONS = 1_000_000, 10_000, 20, 10
MODELS = "pbm,dcm,sdbn,dbn,ccm,ubm"


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pages.parquet"
        write(path)
        fitted = _measured(["fit", str(path), "--models", MODELS, "--split", "none", "--json"])
        order = ",".join(f"{q}-{i}" for q in range(QUERIES) for i in range(POSITIONS))
        (Path(folder) / "order.txt").write_text(order.replace(",", "\n"))
        evaluated = _measured(["evaluate", str(path), "--policy", f"order:{folder}/order.txt", "--json"])
    by_model = ", ".join(f"{row['model']} {row['seconds']:.0f} s" for row in fitted["out"])
    answered = [row["estimator"] for row in evaluated["out"]["estimates"] if not row["refused"]]
    busy = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    return [
        at_most(
            "fit, six models, 10^6 pages", fitted["seconds"], 60, "s", f"{by_model}; {fitted['cpu']:.0f} s of processor; {busy}"
        ),
        at_most("fit, memory", fitted["bytes"] / 1e9, 2, "GB", ""),
        at_most(
            "evaluate, 10^7 rows", evaluated["seconds"], 10, "s", f"{', '.join(answered)}; {evaluated['cpu']:.0f} s; {busy}"
        ),
        at_most("evaluate, memory", evaluated["bytes"] / 1e9, 2, "GB", ""),
    ]


def write(path: Path, pages: int = PAGES, queries: int = QUERIES) -> None:
    """Pages drawn uniformly from each query's items, clicks by the dynamic Bayesian model, with propensities."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    attraction, satisfaction = rng.beta(1, 3, queries * ITEMS), rng.beta(2, 2, queries * ITEMS)
    names = pa.array([f"{q}-{i}" for q in range(queries) for i in range(ITEMS)])
    writer = None
    for start in range(0, pages, 100_000):
        n = min(100_000, pages - start)
        query = rng.integers(0, queries, n)
        shown = query[:, None] * ITEMS + np.argsort(rng.random((n, ITEMS), np.float32), axis=1)[:, :POSITIONS]
        clicks, reading = np.zeros((n, POSITIONS), np.bool_), np.ones(n, np.bool_)
        for k in range(POSITIONS):
            clicks[:, k] = reading & (rng.random(n) < attraction[shown[:, k]])
            reading &= ~(clicks[:, k] & (rng.random(n) < satisfaction[shown[:, k]])) & (rng.random(n) < 0.9)
        offsets = pa.array(np.arange(0, n * POSITIONS + 1, POSITIONS, dtype=np.int32))
        columns: dict[str, Any] = {
            "query": pa.array(query).cast(pa.string()),
            "items": pa.ListArray.from_arrays(offsets, names.take(pa.array(shown.ravel()))),
            "clicks": pa.ListArray.from_arrays(offsets, pa.array(clicks.ravel())),
            "propensity": pa.ListArray.from_arrays(offsets, pa.array(np.full(n * POSITIONS, 1 / ITEMS))),
            "joint": pa.array(np.full(n, 1 / np.prod(np.arange(ITEMS, ITEMS - POSITIONS, -1.0)))),
        }
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _measured(arguments: list[str]) -> dict[str, Any]:
    """A command's output, wall clock, processor time and largest memory; the first run compiles on a small log."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.parquet"
        write(small, 2000, 5)
        subprocess.run([sys.executable, "-m", "recurrank", arguments[0], str(small), *_small(arguments)], capture_output=True)
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "recurrank", *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return {
        "out": json.loads(out),
        "seconds": time.perf_counter() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
        "bytes": usage.ru_maxrss * 1024,
    }


def _small(arguments: list[str]) -> list[str]:
    return ["--policy", "shown"] if arguments[0] == "evaluate" else ["--models", MODELS, "--split", "none"]
