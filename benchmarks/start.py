"""The first command after installation (nothing compiled yet) and the second."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from benchmarks.measure import Figure, at_most

COMMAND = [sys.executable, "-m", "recurrank", "simulate", "--items", "100", "--rounds", "10000", "--json"]


def run() -> list[Figure]:
    times = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            began = time.perf_counter()
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            subprocess.run(COMMAND, check=True, capture_output=True, env=environment)
            times.append(time.perf_counter() - began)
    return [
        at_most(
            "a small `recurrank simulate`, nothing compiled yet",
            times[0],
            20,
            "s",
            "wall clock, an empty cache",
        ),
        at_most("the same again", times[1], 3, "s", ""),
    ]
