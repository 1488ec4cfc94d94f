"""The paper's whole evaluation from an empty cache: wall-clock time, memory of the largest process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Figure, at_most

LIMITS = {"cascade": 0.53, "position": 105_000, "movielens": 42_157}
"""Limits of RecurRank's regret."""


def peaks(group: int) -> dict[int, float]:
    """The most memory that each process of a group has had so far, in MB."""
    memory = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if os.getpgid(int(status.parent.name)) == group and (size := re.search(r"VmHWM:\s+(\d+)", status.read_text())):
                memory[int(status.parent.name)] = int(size[1]) / 1024
        except OSError:  # it has ended
            continue
    return memory


def run() -> list[Figure]:
    largest: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "recurrank", "paper", "--jobs", "2", "--json", "--out", folder + "/report"]
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder + "/cache"}
        began = time.perf_counter()
        with open(folder + "/rows.json", "w") as output:
            process = subprocess.Popen(command, stdout=output, start_new_session=True, env=environment)
            while process.poll() is None:
                largest |= peaks(process.pid)
                time.sleep(0.25)
        elapsed = time.perf_counter() - began
        rows = json.loads(Path(folder, "rows.json").read_text())
    runs, computing = sum(row["runs"] for row in rows), sum(row["runs"] * row["seconds_mean"] for row in rows)
    theirs = sum(row["runs"] * row["paper_seconds"] for row in rows if row["paper_seconds"])
    detail = f"{runs} runs, two processes; {computing:.0f} s of computing, the paper's {theirs:,.0f} s"
    figures = [
        at_most("the paper's evaluation, nothing compiled yet, with its report", elapsed, 120, "s", detail),
        at_most("... memory of the largest process", max(largest.values()), 1024, "MB", f"{len(largest)} processes"),
    ]
    for row in rows:
        if row["ranker"] == "recurrank":
            error = f"standard error {row['regret_se']:,.2f}; the paper's {row['paper_regret']:,.2f}"
            figures.append(
                at_most(f"regret of RecurRank, {row['environment']}", row["regret_mean"], LIMITS[row["environment"]], "", error)
            )
        if (row["environment"], row["ranker"]) == ("position", "toprank"):
            away = abs(row["regret_mean"] / row["paper_regret"] - 1) * 100
            figures.append(at_most("TopRank, position: away from the paper's", away, 25, "%", f"{row['regret_mean']:,.0f}"))
    return figures
